"""FLOPs of every family against XLA's own count of the forward."""

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from mllm_jax.families.functions import load_functions
from mllm_jax.families.registry import UnknownFamilyError
from mllm_jax.families.siglip.config import SiglipConfig
from mllm_jax.layers.config.encoder import ImageEncoderConfig
from mllm_jax.models import module as multimodal
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.work.flops import model_flops, module_work
from mllm_jax.runtime.hardware.peak import peak_flops
from scheduling.costs.work import TRAINING_FACTOR, ModuleWork, NearPairs
from sharding.grid import MeshView
from tests.models import towers
from tests.models.layer_kinds import three_axes, windowed

TOKENS = 64
#: Wide enough that products outweigh all else.
WIDE: dict[str, Any] = {"d_model": 512, "heads": 4, "head_dim": 96, "d_ff": 1024}


def counted(function: Any, *inputs: Any) -> float:
    """FLOPs of the program as XLA counts them before optimisation; a scan's body counts once."""
    cost: Any = jax.jit(function).lower(*inputs).cost_analysis()
    return float(cost["flops"])


def decoder_flops(config: ModelConfig, tokens: int) -> float:
    """XLA's count for one text."""
    shapes, _ = multimodal.abstract_parameters(config)
    batch = towers.text_rows(towers.lay([[tokens]], tokens), towers.texts([tokens]))

    def forward(params: Any) -> Any:
        hidden, _ = towers.decode_hidden(params, batch, None, config, MeshView())
        return towers.loss(params, hidden, batch, config, MeshView())

    return counted(forward, shapes["decoder"])


def encoder_flops(config: ModelConfig, tokens: int) -> float:
    """XLA's count for one medium."""
    media = towers.signals([tokens], config.encoders["media"].features)
    batch = towers.media_rows(config, towers.lay([[tokens]], tokens), media, [8])
    shapes, _ = multimodal.abstract_parameters(config)

    def forward(params: Any) -> Any:
        return towers.encode(params, "media", batch, config, MeshView())

    return counted(forward, shapes["media"])


def check(work: ModuleWork, half: float, whole: float) -> None:
    """Work of segments of `TOKENS / 2` and `TOKENS` against XLA's counts `half` and `whole`."""
    assert work.forward_flops([TOKENS]) == pytest.approx(whole, rel=0.05)
    # Twice the half has the same linear part, so that the difference shows the quadratic one.
    quadratic = work.forward_flops([TOKENS]) - 2 * work.forward_flops([TOKENS // 2])
    assert quadratic == pytest.approx(whole - 2 * half, rel=0.1)


@pytest.mark.parametrize("family", towers.DECODERS)
def test_decoder(family: str) -> None:
    config = towers.model(family, decoder_changes={**WIDE, "vocab": 512}, loss_chunk=TOKENS)
    half, whole = (decoder_flops(config, n) for n in (TOKENS // 2, TOKENS))
    check(module_work(config, "decoder"), half, whole)


@pytest.mark.parametrize("family", towers.ENCODERS)
def test_encoder(family: str) -> None:
    values = towers.model(encoder=family).model_dump()
    # Stem and connector, too, must be large enough to be seen.
    stem = {"mels": 512} if family == "whisper" else {"patch": (16, 32)}
    values["encoders"]["media"].update({**WIDE, **stem})
    values["encoders"]["media"]["connector"]["hidden"] = 1024
    config = ModelConfig.model_validate(values)
    half, whole = (encoder_flops(config, n) for n in (TOKENS // 2, TOKENS))
    check(module_work(config, "media"), half, whole)


def test_a_window_counts_the_pairs_that_are_near() -> None:
    work = ModuleWork(linear=0.0, quadratic=2.0, near=(NearPairs(3.0, 5),))
    for n in (0, 1, 4, 5, 6, 17):
        place = np.arange(n)
        near = (np.abs(place[:, None] - place) < 5).sum()
        assert work.forward_flops([n]) == 2 * n * n + 3 * near
    # As many layers, one of two with a window; in segments no longer than it they cost the same.
    changes = {"layers": 2, "window": 8, "pattern": ["window", "full"]}
    plain, mixed = (
        module_work(towers.model(decoder_changes=own), "decoder")
        for own in ({"layers": 2}, changes)
    )
    assert mixed.forward_flops([8, 3]) == plain.forward_flops([8, 3])
    per_pair = plain.quadratic / 2
    assert plain.forward_flops([20]) - mixed.forward_flops([20]) == per_pair * 12 * 13


def test_each_kind_of_layer_counts_the_pairs_that_it_sees() -> None:
    """One of two layers has a window, the other chunks; of an encoder windows that are ids."""
    work = module_work(three_axes(), "decoder")
    (windows, chunks) = work.near
    assert [(own.window, own.chunk) for own in (windows, chunks)] == [(4, None), (None, 5)]
    assert work.quadratic == 0
    model = towers.model(encoder="siglip")
    deep = model.with_others({"media": model.encoders["media"].model_copy(update={"layers": 2})})
    work, plain = module_work(windowed(model), "media"), module_work(deep, "media")
    half = plain.quadratic / 2
    assert work.near == (NearPairs(half, None, 4), NearPairs(half, None, 5))
    assert work.quadratic == 0
    assert work.forward_flops([4, 3]) == plain.forward_flops([4, 3])
    pairs = 2 * 4**2 + 5**2 + 3**2
    assert work.forward_flops([8]) == plain.forward_flops([8]) - half * (2 * 8**2 - pairs)


def test_layers_add_up() -> None:
    one, three = (
        module_work(towers.model(decoder_changes={"layers": n}), "decoder") for n in (1, 3)
    )
    head = 2 * 32 * towers.VOCAB
    assert three.linear - head == 3 * (one.linear - head)
    assert three.quadratic == 3 * one.quadratic


def test_a_step_costs_three_forwards_of_every_segment() -> None:
    config = towers.model(encoder="siglip")
    lengths = {"decoder": np.array([9, 4]), "media": np.array([12])}
    forward = sum(module_work(config, name).forward_flops(n) for name, n in lengths.items())
    assert model_flops(config, lengths, targets=9 + 4) == TRAINING_FACTOR * forward
    work = ModuleWork(linear=2.0, quadratic=1.0)
    assert work.forward_flops([3, 4]) == 2 * 7 + 9 + 16


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("count", [4, 64])
def test_a_step_costs_the_experts_of_a_token_and_not_all(count: int, every: int) -> None:
    """MFU and balancing count a dense MLP of the width of a token's experts, and the router."""
    experts = {"count": count, "top_k": 2, "d_ff": 20, "shared_d_ff": 12, "every": every}
    layers, lengths = {"layers": 4, "d_ff": 52}, {"decoder": np.array([9, 4])}
    dense = towers.model(decoder_changes=layers)
    sparse = towers.model("mixtral", decoder_changes={**layers, "experts": experts})
    router = TRAINING_FACTOR * 13 * (4 // every) * 2 * 32 * count
    assert model_flops(sparse, lengths) - model_flops(dense, lengths) == pytest.approx(router)
    # What distributes samples has the same function.
    own, other = (module_work(config, "decoder") for config in (sparse, dense))
    assert own.forward_flops([9, 4]) - other.forward_flops([9, 4]) == pytest.approx(
        router / TRAINING_FACTOR
    )


@pytest.mark.parametrize(
    ("kind", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989.5e12),
        ("NVIDIA H100 PCIe", 756.5e12),
        ("TPU v5 lite", 197e12),
        ("TPU v5", 459e12),
    ],
)
def test_peak_of_a_device(kind: str, peak: float) -> None:
    device: Any = SimpleNamespace(platform="accelerator", device_kind=kind)
    assert peak_flops(device) == peak


def test_an_unknown_accelerator_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    device: Any = SimpleNamespace(platform="gpu", device_kind="Abacus 9")
    assert peak_flops(device) is peak_flops(device) is None
    (record,) = caplog.records
    assert all(part in record.getMessage() for part in ("Abacus 9", "MFU", "configs/hardware/"))


def test_an_encoder_says_what_it_costs_and_has_layers() -> None:
    class NewConfig(ImageEncoderConfig):
        family: str = "new"

    class Known(SiglipConfig):
        family: str = "new"  # type: ignore[assignment]

    sizes: dict[str, Any] = {"layers": 1, "d_model": 8, "heads": 2, "head_dim": 4, "d_ff": 16}
    sizes |= {"patch": (2, 2), "grid": (2, 2)}
    with pytest.raises(TypeError, match="abstract class NewConfig"):
        NewConfig(**sizes)  # type: ignore[abstract]
    known = Known(**sizes)
    assert known.layer_flops > 0
    with pytest.raises(
        UnknownFamilyError, match=r"'new' is unknown; valid: clip, .*siglip, vit22b"
    ):
        load_functions(known)
