"""A small data set to try things out with: drawn shapes, and questions about them.

An image is a dark square with one to four shapes of one kind and colour, each in a quarter of its
own. Every answer needs the image: whoever does not look at it is right about once in three times.

    +--------+--------+
    | red    |        |    What colour are the shapes?            red
    | circle |        |    What kind of shape is there?           circle
    +--------+--------+    How many shapes are there?             2
    |        | red    |    Is there a shape at the top right?     no
    |        | circle |
    +--------+--------+

Every scene has a sound, too, from which the same can be told: see `tones`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import PIL.Image
import PIL.ImageDraw

from data.folders import put_folder
from data.sample import DataError
from data.sources.tones import make_tones, write_clip

#: Pixels of an image's side; questions of the held-out file.
SIDE, HELDOUT = 48, 20
COLOURS = {
    "red": (225, 40, 40),
    "green": (40, 180, 70),
    "blue": (50, 90, 235),
    "yellow": (240, 210, 40),
    "white": (245, 245, 245),
}
SHAPES = ("circle", "square", "triangle", "cross")
PLACES = ("top left", "top right", "bottom left", "bottom right")
_BACKGROUND = (24, 24, 32)
#: Factor by which shapes are drawn larger, for smooth edges; least and largest radius in pixels.
_FINER, _RADII = 4, (7.0, 10.0)


@dataclass(frozen=True)
class ShapeQuestion:
    """A question about an image, with its answer."""

    text: str
    answer: str


@dataclass(frozen=True)
class ShapeScene:
    """An image in words.

    Attributes:
        kind, colour: kind and colour of all shapes.
        places: quarters with a shape.
        seed: seed of the sizes of the shapes, and of where they are in their quarters.
    """

    kind: str
    colour: str
    places: frozenset[str]
    seed: int

    @classmethod
    def draw_scene(cls, rng: random.Random) -> ShapeScene:
        """A scene at random."""
        places = rng.sample(PLACES, rng.randint(1, len(PLACES)))
        kind, colour = rng.choice(SHAPES), rng.choice([*COLOURS])
        return cls(kind, colour, frozenset(places), rng.getrandbits(32))

    @property
    def visible_contents(self) -> tuple[str, str, frozenset[str]]:
        """What the answers depend on."""
        return self.kind, self.colour, self.places

    @property
    def caption(self) -> str:
        """What is there, and where: `2 red circles: top left, bottom right`."""
        places = [place for place in PLACES if place in self.places]
        many = "es" if self.kind == "cross" else "s"
        kind = self.kind + many * (len(places) > 1)
        return f"{len(places)} {self.colour} {kind}: {', '.join(places)}"

    @property
    def colour_question(self) -> ShapeQuestion:
        """The question about the colour."""
        return ShapeQuestion("What colour are the shapes?", self.colour)

    def make_questions(self, rng: random.Random) -> list[ShapeQuestion]:
        """One question of each sort."""
        filled = rng.random() < 0.5
        places = [place for place in PLACES if (place in self.places) == filled] or PLACES
        place = rng.choice(places)
        return [
            self.colour_question,
            ShapeQuestion("What kind of shape is there?", self.kind),
            ShapeQuestion("How many shapes are there?", f"{len(self.places)}"),
            ShapeQuestion(
                f"Is there a shape at the {place}?", "yes" if place in self.places else "no"
            ),
        ]

    def draw_image(self) -> PIL.Image.Image:
        """The image, RGB."""
        image = PIL.Image.new("RGB", (SIDE * _FINER, SIDE * _FINER), _BACKGROUND)
        draw, rng = PIL.ImageDraw.Draw(image), random.Random(self.seed)
        for place in sorted(self.places):
            radius, quarter = rng.uniform(*_RADII), SIDE / 2
            room = quarter / 2 - radius - 1
            row, column = divmod(PLACES.index(place), 2)
            x, y = ((n + 0.5) * quarter + rng.uniform(-room, room) for n in (column, row))
            _draw_shape(
                draw, self.kind, COLOURS[self.colour], _FINER * x, _FINER * y, _FINER * radius
            )
        return image.resize((SIDE, SIDE), PIL.Image.Resampling.BOX)

    def write_media(self, folder: Path, name: str) -> None:
        """Write the image and the sound, `name.png` and `name.wav`."""
        self.draw_image().save(folder / f"{name}.png")
        beats = [place in self.places for place in PLACES]
        pitch, overtone = SHAPES.index(self.kind), [*COLOURS].index(self.colour)
        write_clip(folder / f"{name}.wav", make_tones(beats, pitch, overtone, self.seed))


def _draw_shape(
    draw: PIL.ImageDraw.ImageDraw,
    kind: str,
    fill: tuple[int, int, int],
    x: float,
    y: float,
    r: float,
) -> None:
    """Draw a shape around (x, y), no point of it further away than a square's corner, in pixels."""
    match kind:
        case "circle":
            draw.ellipse((x - r, y - r, x + r, y + r), fill)
        case "square":
            draw.rectangle((x - 0.85 * r, y - 0.85 * r, x + 0.85 * r, y + 0.85 * r), fill)
        case "triangle":
            draw.polygon([(x, y - r), (x - r, y + r), (x + r, y + r)], fill)
        case "cross":
            draw.rectangle((x - r, y - r / 3, x + r, y + r / 3), fill)
            draw.rectangle((x - r / 3, y - r, x + r / 3, y + r), fill)


# ---- the folder ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExampleData:
    """What was written.

    Attributes:
        folder: folder with `train.json`, `heldout.json` and `media`. Other files of a split have
            other records of the same scenes: `train_mixed.json` the questions, every second time
            about a sound; `train_pairs.json` an image and its caption; `train_triples.json` an
            image, its sound and its caption; `train_labels.json` an image and the number of its
            kind of shape; `train_heads.json` questions but of the kind, and its number.
        images: images of the training split, each with four questions.
        heldout: held-out questions, each about an image of its own.
        guessed: share of held-out questions that are answered right without looking: to each
            question the answer that it has most often in the training split.
    """

    folder: Path
    images: int
    heldout: int
    guessed: float

    def to_json(self) -> dict[str, Any]:
        """`{"folder", "images", "heldout", "guessed"}`."""
        return asdict(self) | {"folder": str(self.folder)}

    @property
    def lines(self) -> list[str]:
        """What was written, and what an answer without the image is worth."""
        return [
            f"written: {self.folder / 'train.json'}, {self.images} images with 4 questions each",
            f"written: {self.folder / 'heldout.json'}, {self.heldout} questions about other images",
            f"the most frequent answer to each question is right for {self.guessed:.0%} of these",
        ]


def write_example(folder: Path, images: int, seed: int) -> ExampleData:
    """Draw the data set into a new folder; equal arguments give equal files.

    Args:
        images: images of the training split.
        seed: seed of what is drawn.

    Raises:
        DataError: the folder is there already, or cannot be written.
    """
    if folder.exists():
        raise DataError(f"{folder} is there already; valid: another --out, or none of that name")
    rng = random.Random(seed)
    heldout = _draw_scenes(rng, HELDOUT, frozenset())
    train = _draw_scenes(rng, images, frozenset(scene.visible_contents for scene in heldout))
    asked = [rng.sample(questions := scene.make_questions(rng), len(questions)) for scene in train]
    sorts = len(asked[0])
    tested = [[scene.make_questions(rng)[number % sorts]] for number, scene in enumerate(heldout)]

    def write_files(draft: Path) -> None:
        (draft / "media").mkdir()
        _write_split(draft, "train", train, asked)
        _write_split(draft, "heldout", heldout, tested)

    try:
        put_folder(folder, write_files)
    except OSError as error:
        raise DataError(f"{folder} cannot be written: {error.strerror}") from error
    return ExampleData(folder, images, HELDOUT, _guess_rate(asked, tested))


def _draw_scenes(rng: random.Random, count: int, excluded: frozenset[object]) -> list[ShapeScene]:
    """Draw scenes whose contents are none of `excluded`."""
    scenes: list[ShapeScene] = []
    while len(scenes) < count:
        scene = ShapeScene.draw_scene(rng)
        if scene.visible_contents not in excluded:
            scenes.append(scene)
    return scenes


def _write_split(
    folder: Path, split: str, scenes: Sequence[ShapeScene], asked: Sequence[Sequence[ShapeQuestion]]
) -> None:
    """Media, and a file of each sort of records."""
    files: dict[str, list[Any]] = {}
    for number, (scene, questions) in enumerate(zip(scenes, asked, strict=True)):
        name = f"{split}-{number:04}"
        scene.write_media(folder / "media", name)
        for sort, record in _make_records(scene, questions, name, number).items():
            files.setdefault(f"{split}{sort}", []).append(record)
    for name, content in files.items():
        text = json.dumps(content, indent=1) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


def _make_records(
    scene: ShapeScene, questions: Sequence[ShapeQuestion], name: str, number: int
) -> dict[str, Any]:
    """The records of a scene by the ends of their files' names, see `ExampleData`."""
    image, audio = {"image": f"{name}.png"}, {"audio": f"{name}.wav"}
    heard = bool(number % 2)
    others = [question for question in questions if question.answer != scene.kind]
    labels = {"labels": {"shape": SHAPES.index(scene.kind)}}
    return {
        "": image | _ask("<image>", questions),
        "_mixed": audio | _ask("<audio>", questions)
        if heard
        else image | _ask("<image>", questions),
        "_pairs": image | _show(f"<image>{scene.caption}"),
        "_triples": image | audio | _show(f"<image><audio>{scene.caption}"),
        "_labels": image | _show("<image>") | labels,
        "_heads": image | _ask("<image>", others or [scene.colour_question]) | labels,
    }


def _ask(mark: str, questions: Sequence[ShapeQuestion]) -> dict[str, Any]:
    """A conversation in LLaVA's form, with the mark of a medium before the first question."""
    turns = [
        {"from": speaker, "value": text}
        for question in questions
        for speaker, text in (("human", question.text), ("gpt", question.answer))
    ]
    turns[0]["value"] = f"{mark}\n{turns[0]['value']}"
    return {"conversations": turns}


def _show(text: str) -> dict[str, Any]:
    """A text that has no answer."""
    return {"messages": [{"role": "user", "content": text}]}


def _guess_rate(
    asked: Sequence[Sequence[ShapeQuestion]], tested: Sequence[Sequence[ShapeQuestion]]
) -> float:
    """Share of `tested` questions whose most frequent answer in `asked` is theirs."""
    answers: dict[str, list[str]] = {}
    for question in chain.from_iterable(asked):
        answers.setdefault(question.text, []).append(question.answer)
    usual = {text: max(sorted({*replies}), key=replies.count) for text, replies in answers.items()}
    right = [
        usual.get(question.text) == question.answer for question in chain.from_iterable(tested)
    ]
    return sum(right) / len(right)
