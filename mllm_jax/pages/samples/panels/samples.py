"""The panel of samples: tokens with the loss mask, and media as their encoders get them."""

from __future__ import annotations

from collections.abc import Iterator

from PIL import Image

from data.media.preview import Picture, Sound
from mllm_jax.pages.html.charts import COLOURS
from mllm_jax.pages.html.embedded import jpeg, png, wav
from mllm_jax.pages.html.markup import Markup, facts, joined, note, tag
from mllm_jax.pages.html.panel import Panel
from mllm_jax.pages.samples.seen import Detail, Preview, SeenMedium, Token

#: Pixels of a picture that is saved as it is; larger ones are photographs, and saved as JPEG.
SMALL = 1 << 14
#: Points: the widest picture, the widest of several side by side, and the least height of all.
WIDE, NARROW, LEAST = 336, 168, 64
#: Pixels of the longer side of an original, which is only there for comparison.
LONGEST = 2 * WIDE
#: Seconds of a sound that the page holds.
HEARD = 60


def samples(preview: Preview) -> Panel:
    """The first samples, token by token."""
    content = joined(_card(own) for own in preview.details)
    left = len(preview.samples) - len(preview.details)
    more = f" {left} more lie in the rows above; --samples shows more of them." * (left > 0)
    told = (
        "Tokens with a loss are marked; point at a token for its place and id. Media are shown as "
        f"their encoders get them, after resizing and cutting.{more}"
    )
    return Panel("samples", "Samples", content, "", told, wide=True)


def _card(detail: Detail) -> Markup:
    own, place = detail.sample, detail.sample.placement
    key = tag("i", class_=f"key c{own.number % COLOURS}")
    pairs = [
        ("source", own.source),
        ("decoder", f"row {place.row}, tokens {place.start} to {place.start + own.tokens - 1}"),
        ("tokens", str(own.tokens)),
        ("learnt", str(own.learnt)),
    ]
    parts = [tag("h3", key, own.name), facts(pairs)]
    if own.fault is not None:
        parts.append(note(f"It could not be read whole: {own.fault}"))
    else:
        parts.append(tag("p", *map(_token, detail.tokens), class_="tokens"))
    parts += [_medium(medium) for medium in detail.media]
    return tag("article", *parts, id=own.key, class_="sample")


def _token(token: Token) -> Markup:
    """A token; a line break is shown, and a part of a character as a dot."""
    if token.medium:
        text = f"{token.text} \N{MULTIPLICATION SIGN} {token.count}"
        last = token.at + token.count - 1
        return tag("span", text, class_="chip", title=f"{token.at} to {last}: id {token.id}")
    text = token.text.replace("\n", "\N{RETURN SYMBOL}\n") or "\N{MIDDLE DOT}"
    told = f"{token.at}: id {token.id}" + ", learnt" * token.learnt
    return tag("span", text, class_="learnt" if token.learnt else "", title=told)


def _medium(own: SeenMedium) -> Markup:
    """A medium: the original, what its encoder gets, and a player."""
    last = own.start + own.positions - 1
    told = (
        f"{own.lane}: row {own.row}, positions {own.start} to {last}; {own.outputs} outputs land; "
        f"{own.look.told} in the file"
    )
    parts = [tag("figcaption", told)]
    if own.look.original is not None:
        widest = max(
            (_width(picture, len(row)) for row in own.look.seen for picture in row), default=0
        )
        parts.append(_side_by_side([_original(own.look.original, widest)]))
    parts += [
        _side_by_side(_picture(picture, len(row)) for picture in row) for row in own.look.seen
    ]
    if own.look.sound is not None:
        parts += list(_player(own.look.sound))
    return tag("figure", *parts, class_="medium")


def _side_by_side(pictures: Iterator[Markup] | list[Markup]) -> Markup:
    return tag("div", *pictures, class_="pictures")


def _original(picture: Picture, widest: int) -> Markup:
    """The picture in the file, no smaller than the `widest` that its encoder gets of it."""
    image = _image(picture)
    image.thumbnail((LONGEST, LONGEST))
    return _shown(image, picture.told, max(NARROW, widest), exact=False)


def _picture(picture: Picture, beside: int) -> Markup:
    return _shown(_image(picture), picture.told, _most(beside), exact=picture.exact)


def _most(beside: int) -> int:
    """Points of the widest of so many pictures side by side."""
    return NARROW if beside > 1 else WIDE


def _width(picture: Picture, beside: int) -> int:
    """Points of the width at which a picture is shown beside others."""
    height, width = picture.pixels.shape[:2]
    wide = width * _factor(height)
    return wide if picture.exact else min(wide, _most(beside))


def _image(picture: Picture) -> Image.Image:
    pixels = picture.pixels
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def _shown(image: Image.Image, told: str, most: int, *, exact: bool) -> Markup:
    """A picture with its words; a small one is enlarged by a whole factor."""
    factor = _factor(image.height)
    width, height = image.width * factor, image.height * factor
    style = f"width:{width}px;height:{height}px" if exact else f"width:{min(width, most)}px"
    address = png(image) if exact or image.width * image.height <= SMALL else jpeg(image)
    shape = "exact" if exact or factor > 1 else ""
    return tag(
        "span", tag("img", alt=told, src=address, style=style, class_=shape), tag("small", told)
    )


def _factor(height: int) -> int:
    """By how much a picture of so many pixels is enlarged."""
    return max(1, -(-LEAST // height))


def _player(sound: Sound) -> Iterator[Markup]:
    heard = sound.wave[: HEARD * sound.rate]
    yield tag("audio", controls="", preload="metadata", src=wav(heard, sound.rate))
    if len(heard) < len(sound.wave):
        yield note(f"The first {HEARD} s.")
