"""The same training here and with transformers: tokens per second, memory and padding."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np
import PIL.Image
from numpy.typing import NDArray

from benchmarks.peer import IGNORED, PeerSamples, TorchSetting
from benchmarks.turns import TurnWorker
from data.config import LlavaSource
from data.processing.processor import make_processor
from data.sample import Example, ProcessedMedium
from data.sources.distributions import REDUCTION, SampleShape, draw_lengths
from data.sources.make import make_source
from mllm_jax.check.verify import initial_parameters
from mllm_jax.config.inputs import released_of, row_specs
from mllm_jax.config.load import AdamWConfig, ConfigError, ExperimentConfig, to_yaml
from mllm_jax.families.clip.config import ClipConfig
from mllm_jax.families.llava.release import LLAVA
from mllm_jax.hf_format.configs import CONFIG
from mllm_jax.hf_format.release_format import ReleasedModel, ReleaseFormat
from mllm_jax.models.pretrained.write import TensorDraft
from mllm_jax.runtime.devices import use_cpu_only
from mllm_jax.runtime.folder import RunError
from mllm_jax.train.state.regroup import leaf_name

PrintLine = Callable[[str], None]

#: Samples of an epoch, and how much shorter they are than those of the distribution.
SAMPLES, SCALE = 128, 1 / 8
#: Timed turns of every trainer, one after the other; together an epoch.
TURNS = 4
#: Samples that warm up a trainer.
WARM_UP = 16
#: Settings of a user of transformers who keeps the defaults.
DEFAULT = TorchSetting(batch=8)
#: Settings of a user who tunes; the fastest of them is the best setting.
CANDIDATES = (
    TorchSetting(batch=8, grouped=True),
    TorchSetting(batch=16, grouped=True),
    TorchSetting(batch=4, packed=True),
    TorchSetting(batch=8, packed=True),
)
#: Largest difference of two losses that is summation order and not a mistake.
LIMIT = 1e-4
#: `tokens` and `seconds` of a part of an epoch.
Turn = Mapping[str, float]
EXTRA = "parity"
OURS, PEER = "benchmarks.ours", "benchmarks.peer"
#: Environment of transformers: all files are in the folder, and loading them is no news.
QUIET = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
#: Environment of all trainers: arrays of a step are made anew in every step, and with small pages
#: the kernel takes a tenth of the time to do so.
LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def bench_peers(config: ExperimentConfig, print_line: PrintLine) -> dict[str, Any]:
    """Train the same small LLaVA on the same samples here and with transformers, in turns.

    A folder is written with `SAMPLES` conversations as long as
    `data.sources.distributions.web_lengths` says times `SCALE`, and with the initial parameters in
    LLaVA's released form. Every trainer reads them in a separate process; their losses on the same
    samples are compared before anything is timed. A turn is a part of an epoch, as long for all:
    `SAMPLES` are enough for batches of similar lengths to have little padding. Our time has the
    reading of files and the packing in it; transformers gets arrays to pad.

    Returns:
        `ours`, `transformers_default` and `transformers_best`, each with `tokens_per_second`
        (of all turns: tokens and media's outputs in the decoder, without padding),
        `peak_bytes` of its process, `padding` (share of the decoder's positions) and `loss` on the
        samples compared; transformers' with their `setting`, and how much faster `ours` is as
        `speedup`. `best_of`: tokens per second of all settings tried.

    Raises:
        ConfigError: torch or transformers is missing, or the configuration cannot be compared.
        RunError: the models do not have the same loss.
    """
    check_setup(config)
    use_cpu_only()
    with TemporaryDirectory(prefix="mllm_jax-") as name:
        folder = Path(name)
        print_line(f"writing {SAMPLES} samples and a checkpoint")
        samples = write_files(folder, config)
        tried = {str(setting): _try_setting(folder, setting, print_line) for setting in CANDIDATES}
        best = max(CANDIDATES, key=lambda setting: tried[str(setting)])
        settings = {"transformers_default": DEFAULT, "transformers_best": best}
        with ExitStack() as stack:
            ours = stack.enter_context(
                TurnWorker(OURS, name, str(SAMPLES), environment=LARGE_PAGES)
            )
            peers = {
                key: stack.enter_context(_start_peer(folder, setting))
                for key, setting in settings.items()
            }
            losses = compare_losses(ours, peers, print_line)
            turns = in_turns({"ours": ours, **peers}, sum(samples.lengths), print_line)
            figures = {
                key: trainer.ask("figures") for key, trainer in {"ours": ours, **peers}.items()
            }
    return make_report(figures, turns, losses, settings) | {"best_of": tried}


def check_setup(config: ExperimentConfig) -> None:
    """Check that both sides can run, and train the same.

    Raises:
        ConfigError: the message lists the keys that the comparison does not allow.
    """
    problems = check_installed()
    train = config.train
    required = {
        "data.source.kind": (config.data.source.kind, "llava"),
        "model.dtype": (config.model.dtype, "float32"),
        "train.optimizer.kind": (train.optimizer.kind, "adamw"),
        "train.clip_norm": (train.clip_norm, None),
        "train.accumulate": (train.accumulate, 1),
        "train.freeze": (train.freeze, ()),
        "train.warmup_steps": (train.warmup_steps, 0),
        "train.final_learning_rate_ratio": (train.final_learning_rate_ratio, 1.0),
    }
    for key, (value, valid) in required.items():
        if value != valid:
            problems.append(f"{key}: {value} is not the setting of transformers; valid: {valid}")
    for name, encoder in config.model.others.items():
        if (name, encoder.family) != ("vision", "clip"):
            problems.append(
                f"{config.model_key(name)}: of family {encoder.family}; valid: vision of family "
                "clip, as in LLaVA"
            )
    if problems:
        raise ConfigError("bench peers", problems)


def check_installed() -> list[str]:
    """What is wrong if torch or transformers is not installed."""
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if not missing:
        return []
    return [
        f"{' and '.join(missing)} not installed; to have them: pip install -c constraints.txt "
        f"-e '.[{EXTRA}]' (the extra {EXTRA})"
    ]


# ------------------------------------------------------------------ files


def write_files(folder: Path, config: ExperimentConfig) -> PeerSamples:
    """Write the files that both sides read; samples are in the form for transformers."""
    vision = config.model.others["vision"]
    assert isinstance(vision, ClipConfig)
    source = LlavaSource(kind="llava", path=str(write_samples(folder, vision)))
    data = config.data.model_copy(update={"source": source})
    model = config.model.model_copy(update={"pretrained": str(folder / "release")})
    prepared = config.model_copy(update={"data": data, "model": model})
    (folder / "config.yaml").write_text(to_yaml(prepared), encoding="utf-8")
    processor = make_processor(data, row_specs(config.model), released=released_of(data))
    write_release(folder / "release", config, processor.placeholder_id("vision"))
    opened = make_source(data)
    examples = [processor.process(opened[i, 0]) for i in range(len(opened))]
    samples = as_released(examples, vision)
    samples.save(folder / "samples.npz")
    (folder / "optimizer.json").write_text(
        json.dumps(optimizer_arguments(config)), encoding="utf-8"
    )
    return samples


def optimizer_arguments(config: ExperimentConfig) -> dict[str, Any]:
    """Arguments of torch's AdamW."""
    train, adamw = config.train, config.train.optimizer
    assert isinstance(adamw, AdamWConfig)
    return {
        "lr": train.learning_rate,
        "betas": [adamw.beta1, adamw.beta2],
        "eps": adamw.epsilon,
        "weight_decay": train.weight_decay,
    }


def write_samples(folder: Path, vision: ClipConfig) -> Path:
    """Conversations about images of the encoder's grid; the path of their JSON Lines."""
    rng = np.random.default_rng(0)
    high, wide = (side * patch for side, patch in zip(vision.grid, vision.patch, strict=True))
    records = []
    for number, lengths in enumerate(draw_lengths("web", SAMPLES, seed=0)):
        images = [f"{number}-{i}.png" for i in range(len(lengths.media["vision"]))]
        for name in images:
            pixels = rng.integers(0, 256, (high, wide, vision.channels), np.uint8)
            PIL.Image.fromarray(pixels.squeeze()).save(folder / name, compress_level=1)
        question, answer = (
            _random_letters(rng, _count_text(lengths) * SCALE / 2) for _ in range(2)
        )
        asked = "\n".join([*["<image>"] * len(images), question])
        turns = [{"from": "human", "value": asked}, {"from": "gpt", "value": answer}]
        records.append({"image": images, "conversations": turns})
    path = folder / "train.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def _count_text(lengths: SampleShape) -> int:
    """Tokens that are not of media."""
    media = ((name, n) for name, counts in lengths.media.items() for n in counts)
    return lengths.tokens - sum(-(-n // REDUCTION[name]) for name, n in media)


def _random_letters(rng: np.random.Generator, count: float) -> str:
    return "".join(rng.choice(list("etaoinshrdlu"), max(1, round(count))))


def write_release(folder: Path, config: ExperimentConfig, image_token: int) -> None:
    """Initial parameters of the model as LLaVA's are released.

    Args:
        folder: folder to make.
        config: configuration of the experiment.
        image_token: token at which outputs of the encoder are merged.
    """
    model = config.model
    connectors = {"vision": model.connector("vision")}
    placeholders = {"vision": image_token}
    composition = ReleasedModel(model.backbone_config, model.others, placeholders, connectors)
    write_tensors(folder, LLAVA, composition, initial_parameters(model, config.train.seed))


def write_tensors(
    folder: Path, family: ReleaseFormat, composition: ReleasedModel, params: Any
) -> None:
    """Parameters of a model, as numpy arrays, in the form of a family.

    Args:
        folder: folder to fill; it is made if it is not there.
    """
    rules = family.rules(composition)
    tensors = dict(family.filler_tensors(composition))
    for module, tree in params.items():
        leaves = {leaf_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
        for rule in rules[module]:
            leaf = leaves[rule.parameter]
            parts = [leaf] if rule.layers is None else leaf
            released = [rule.transform.to_released(part) for part in parts]
            tensors |= dict(zip(rule.names, released, strict=True))
    folder.mkdir(exist_ok=True)
    draft = TensorDraft.create_files(
        folder, {name: (array.shape, "F32") for name, array in tensors.items()}
    )
    for name, array in tensors.items():
        draft.write_tensor(name, array)
    (folder / CONFIG).write_text(json.dumps(family.config_for(composition)), encoding="utf-8")


def as_released(examples: Sequence[Example], vision: ClipConfig) -> PeerSamples:
    """Examples as transformers takes them."""
    ids = [np.append(x.tokens, x.targets[-1]).astype(np.int64) for x in examples]
    learnt = [np.where(x.loss_weight > 0, x.targets, IGNORED) for x in examples]
    labels = [np.concatenate([[IGNORED], targets]).astype(np.int64) for targets in learnt]
    pixels = [_join_patches(x.media.get("vision", ()), vision) for x in examples]
    return PeerSamples(ids, labels, pixels)


def _join_patches(media: Sequence[ProcessedMedium], vision: ClipConfig) -> NDArray[np.float32]:
    """Images `[n, channels, height, width]` from their patches."""
    (rows, columns), (high, wide) = vision.grid, vision.patch
    shape = (len(media), rows, columns, high, wide, vision.channels)
    # The class token has no pixels; its row is -1.
    patches = [medium.inputs[medium.positions[:, 0] >= 0] for medium in media]
    images = np.array(patches, np.float32).reshape(shape).transpose(0, 5, 1, 3, 2, 4)
    return images.reshape(len(media), vision.channels, rows * high, columns * wide)


# ------------------------------------------------------------------ measuring


def _try_setting(folder: Path, setting: TorchSetting, print_line: PrintLine) -> float:
    """Tokens per second of a turn with `setting`."""
    with _start_peer(folder, setting) as peer:
        peer.ask("turn", samples=WARM_UP)
        rate = _token_rate([peer.ask("turn", samples=SAMPLES // TURNS)])
    print_line(f"transformers, {setting}: {rate:.0f} tokens/s")
    return rate


def _start_peer(folder: Path, setting: TorchSetting) -> TurnWorker:
    return TurnWorker(PEER, str(folder), setting.to_json(), environment=QUIET | LARGE_PAGES)


def _token_rate(turns: Sequence[Turn]) -> float:
    """Tokens per second of all: turns have batches of other lengths."""
    tokens, seconds = (sum(turn[key] for turn in turns) for key in ("tokens", "seconds"))
    return tokens / seconds


def compare_losses(
    ours: TurnWorker, peers: Mapping[str, TurnWorker], print_line: PrintLine
) -> dict[str, float]:
    """Losses of all trainers on the samples of our first step, before anything is learnt.

    Raises:
        RunError: the losses differ.
    """
    first = ours.ask("first")
    losses = {"ours": first["loss"]}
    losses |= {key: peer.ask("loss", samples=first["samples"]) for key, peer in peers.items()}
    text = ", ".join(f"{key} {loss:.6f}" for key, loss in losses.items())
    print_line(f"loss of {len(first['samples'])} samples: {text}")
    if not all(abs(loss - losses["ours"]) <= LIMIT for loss in losses.values()):
        raise RunError(
            f"bench peers: the losses of the same samples differ by more than {LIMIT:g}: {text}; "
            "the compared models would not be the same"
        )
    return losses


def in_turns(
    trainers: Mapping[str, TurnWorker], tokens: int, print_line: PrintLine
) -> dict[str, list[Turn]]:
    """Tokens and seconds of every turn of every trainer.

    Args:
        trainers: the compared trainers by name, `ours` among them.
        tokens: number of tokens of an epoch.
        print_line: prints a line of progress.
    """
    peers = {"samples": SAMPLES // TURNS}
    options = {key: {"tokens": tokens // TURNS} if key == "ours" else peers for key in trainers}
    for key, trainer in trainers.items():
        trainer.ask("turn", **({"tokens": 1} if key == "ours" else {"samples": WARM_UP}))
    turns: dict[str, list[Turn]] = {key: [] for key in trainers}
    for turn in range(TURNS):
        for key, trainer in trainers.items():
            turns[key].append(trainer.ask("turn", **options[key]))
        rates = ", ".join(f"{key} {_token_rate(of_way[-1:]):.0f}" for key, of_way in turns.items())
        print_line(f"turn {turn + 1} of {TURNS}, tokens/s: {rates}")
    return turns


def make_report(
    figures: Mapping[str, Mapping[str, float]],
    turns: Mapping[str, Sequence[Turn]],
    losses: Mapping[str, float],
    settings: Mapping[str, TorchSetting],
) -> dict[str, Any]:
    """The result of `bench_peers`, without the settings tried."""
    result: dict[str, Any] = {
        key: {"tokens_per_second": _token_rate(of_way), **figures[key], "loss": losses[key]}
        for key, of_way in turns.items()
    }
    for key, setting in settings.items():
        speedup = result["ours"]["tokens_per_second"] / result[key]["tokens_per_second"]
        result[key] |= {"speedup": speedup, "setting": str(setting)}
    return result
