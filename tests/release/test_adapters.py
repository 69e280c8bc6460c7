"""Adapters in PEFT's format: what they compute, and the way in and out."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import launch
from mllm_jax.families.llava.release import LLAVA
from mllm_jax.hf_format.configs import read_config
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.models.module import abstract_parameters
from mllm_jax.models.pretrained.adapters import CONFIG, TENSORS, SavedAdapters, adapter_rules
from mllm_jax.release.origin import ReleaseOrigin
from mllm_jax.runtime.exits import ExitCode
from tests.models.pretrained.conversations import example, packed
from tests.models.pretrained.stored import by_name, close, imported
from tests.models.pretrained.test_parity_whole import BUDGETS, CHATS, LAYOUTS, forward
from tests.release.adapted import ALPHA, RANK, STORED, TARGETS
from tests.release.test_import import PARITY, PIPELINE, SHARDED, begun, planned, tensors
from tests.release.test_import import imported as imported_run

FOLDER = PARITY / "llava_lora"
#: As `tests.parity.llava` has them.
LORA: dict[str, Any] = {
    "targets": [
        "decoder.layers.self_attn.[qv]_proj",
        "decoder.layers.mlp.down_proj",
        "vision.layers.self_attn.o_proj",
        "vision.layers.mlp.fc1",
        "vision.connector.fc1",
    ],
    "rank": 3,
    "alpha": 5.0,
    "rank_stabilized": True,
}
SCALE = 5 / 3**0.5
#: Ranks that do not divide the vocabulary.
THIRDS = {
    "rows": 3,
    "devices": 3,
    "decoder": {"stage": 3},
    "encoders": {"vision": {"data": 3}},
}


@pytest.mark.parametrize("folder", [FOLDER, STORED], ids=lambda own: own.name)
def test_adapters_of_peft_compute_the_same(folder: Path) -> None:
    """Those that peft wrote, and those that it loaded."""
    check_computed(folder, np.load(folder / "expected.npz"))


def check_computed(folder: Path, expected: Mapping[str, np.ndarray]) -> None:
    """Check that the adapters of a folder give the same logits and losses as in peft."""
    config, params, rules = imported("llava")
    saved = SavedAdapters.open(folder)
    rank, alpha = saved.values["r"], saved.values["lora_alpha"]
    scale = alpha / (rank**0.5 if saved.values["use_rslora"] else rank)
    own = config.with_adapters(TARGETS if rank == RANK else LORA["targets"], rank, scale)
    assert own.adapters is not None
    saved.check_scale(rank, scale)
    named = saved.released_tensors(LLAVA)
    found, used = by_name(params), set[str]()
    for module, own_rules in rules.items():
        for rule in (*adapter_rules(own_rules, module, own.adapters), *own_rules):
            if named.keys().isdisjoint(rule.names):
                continue
            layers = [rule.transform.to_parameter(named[name].map_weights()) for name in rule.names]
            whole = np.stack(layers) if rule.layers is not None else layers[0]
            found[f"{module}.{rule.parameter}"] = whole
            used |= {*rule.names}
    assert used == named.keys()
    shapes, _ = abstract_parameters(own)
    names = list(by_name(shapes))
    assert found.keys() == {*names}
    whole = jax.tree.unflatten(jax.tree.structure(shapes), [found[name] for name in names])
    examples = [example("llava", name, own) for name in CHATS["llava"]]
    batch, placements = packed(examples, own, BUDGETS["llava"], *LAYOUTS["alone"]["llava"])
    _, _, logits, nll = jax.jit(lambda p: forward(own, p, batch))(whole)
    for name, own_place in zip(CHATS["llava"], placements, strict=True):
        start, tokens = own_place.start, own_place.lengths.total("decoder")
        here = own_place.row, slice(start, start + tokens)
        close(logits[here][None, -2:], expected[f"{name}.logits"], name)
        np.testing.assert_allclose(nll[here].sum(), expected[f"{name}.loss"], rtol=2e-5)


def run_with(tmp_path: Path, lora: dict[str, Any], plan: dict[str, Any] = SHARDED) -> Any:
    """A run of LLaVA with adapters, at its start."""
    values = imported_run(tmp_path / "run", PARITY / "llava")
    values["train"] |= {"lora": lora}
    return begun(planned(values, **plan))


def with_decoder(folder: Path) -> dict[str, np.ndarray]:
    """Adapters with weights of the decoder in full, which adapters alone train; all tensors."""
    shutil.copytree(FOLDER, folder)
    every, base = load_file(folder / TENSORS), tensors(PARITY / "llava")
    for name in ("embed_tokens", "norm"):
        own = 1 + 2 * base[f"language_model.model.{name}.weight"].astype(np.float32)
        rounded = own.astype(jnp.bfloat16).astype(np.float32)
        every[f"base_model.model.model.language_model.{name}.weight"] = rounded
    save_file(every, folder / TENSORS)
    values = json.loads((folder / CONFIG).read_text()) | {"lora_dropout": 0.05}
    (folder / CONFIG).write_text(json.dumps(values))
    return every


@pytest.mark.parametrize(
    "plan",
    [SHARDED, pytest.param(PIPELINE, marks=pytest.mark.slow)],
    ids=["sharded", "stages"],
)
def test_adapters_come_in_and_go_out(plan: dict[str, Any], tmp_path: Path) -> None:
    """Bit by bit, beside bfloat16 weights and such as lie in full there; merged they are sums."""
    first = tmp_path / "first"
    given = with_decoder(first)
    state, told = run_with(tmp_path, LORA | {"begin_with": str(first)}, plan)
    assert "24 tensors of adapters" in told
    assert f"lora_dropout 0.05 of {first} is not used" in told
    kernel = state["params"]["decoder"]["layers"]["mlp"]["down_proj"]["kernel"]
    assert kernel.dtype == jnp.bfloat16
    line = ["export", "--run", str(tmp_path / "run"), "--out"]
    out, merged = tmp_path / "adapters", tmp_path / "merged"
    assert launch.main([*line, str(out), "--adapters"]) == ExitCode.OK
    found = load_file(out / TENSORS)
    assert found.keys() == given.keys()
    for name, tensor in given.items():
        np.testing.assert_array_equal(found[name], tensor, err_msg=name)
    values = json.loads((out / "adapter_config.json").read_text())
    assert (values["r"], values["lora_alpha"], values["use_rslora"]) == (3, 5.0, True)
    assert values["modules_to_save"] == [
        f"model.language_model.{name}" for name in ("embed_tokens", "norm")
    ]
    pattern = re.compile(values["target_modules"])
    assert pattern.fullmatch("model.language_model.layers.1.mlp.down_proj")
    # No layer that the release may have beyond those that are read.
    assert not pattern.fullmatch("model.language_model.layers.2.mlp.down_proj")
    assert values["base_model_name_or_path"] == str(PARITY / "llava")
    assert launch.main([*line, str(merged), "--dtype", "float32"]) == ExitCode.OK
    base, whole = tensors(PARITY / "llava"), tensors(merged)
    name = "layers.1.mlp.down_proj"
    a, b = (given[f"base_model.model.model.language_model.{name}.lora_{x}.weight"] for x in "AB")
    rounded = base[f"language_model.model.{name}.weight"].astype(jnp.bfloat16)
    expected = rounded.astype(np.float32) + SCALE * (b @ a)
    np.testing.assert_allclose(whole[f"language_model.model.{name}.weight"], expected, rtol=1e-5)
    untouched = "language_model.model.layers.0.mlp.up_proj.weight"
    np.testing.assert_array_equal(
        whole[untouched], base[untouched].astype(jnp.bfloat16).astype(np.float32)
    )
    shutil.rmtree(first)
    gone = ["export", "--run", str(tmp_path / "run"), "--out", str(tmp_path / "no"), "--adapters"]
    assert launch.main(gone) == ExitCode.BAD_INPUT


def test_an_adapter_of_the_head_comes_in_and_goes_out_merged(tmp_path: Path) -> None:
    """As peft saves it, with the head's own weights, into a vocabulary that stages pad."""
    stored, own = load_file(STORED / "adapter_model.safetensors"), tmp_path / "own"
    names = [name for name in stored if ".lm_head." in name]
    kept = {name: stored[name] for name in names}
    head = tensors(PARITY / "llava")["language_model.lm_head.weight"]
    own.mkdir()
    save_file(kept | {"base_model.model.lm_head.base_layer.weight": head}, own / TENSORS)
    shutil.copy(STORED / CONFIG, own)
    lora = {"targets": ["decoder.lm_head"], "rank": RANK, "alpha": ALPHA, "begin_with": str(own)}
    state, told = run_with(tmp_path, lora, THIRDS)
    assert "2 tensors of adapters" in told
    raising = state["params"]["decoder"]["lm_head"]["lora_b"]
    assert raising.shape[1] > len(head)
    line = ["export", "--run", str(tmp_path / "run"), "--out", str(tmp_path / "out")]
    assert launch.main([*line, "--dtype", "float32"]) == ExitCode.OK
    a, b = (kept[f"base_model.model.lm_head.lora_{x}.weight"] for x in "AB")
    expected = head.astype(jnp.bfloat16).astype(np.float32) + ALPHA / RANK * (b @ a)
    found = tensors(tmp_path / "out")["language_model.lm_head.weight"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_a_connector_that_trains_goes_with_the_adapters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the type that is asked for, beside the name that the hub has for the base."""
    fetched = ReleaseOrigin("org/llava", "c0ffee")
    monkeypatch.setattr(ReleaseOrigin, "read_from", lambda folder: fetched)
    values = imported_run(tmp_path / "run", PARITY / "llava")
    values["train"] |= {"lora": {"rank": 2}, "freeze": ["vision"]}
    state, _ = begun(planned(values, **SHARDED))
    line = ["export", "--run", str(tmp_path / "run"), "--adapters", "--out"]
    assert launch.main([*line, str(tmp_path / "out"), "--dtype", "float16"]) == ExitCode.OK
    found = load_file(tmp_path / "out" / "adapter_model.safetensors")
    weight = found["base_model.model.model.multi_modal_projector.linear_1.weight"]
    own = state["params"]["vision"]["connector"]["fc1"]["kernel"]
    np.testing.assert_array_equal(weight.T, np.asarray(own).astype(np.float16))
    assert {tensor.dtype for tensor in found.values()} == {np.dtype(np.float16)}
    saved = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert (saved["base_model_name_or_path"], saved["revision"]) == ("org/llava", "c0ffee")
    assert "for `org/llava@c0ffee` after" in (tmp_path / "out" / "README.md").read_text()
    assert saved["modules_to_save"] == [
        "model.multi_modal_projector.linear_1",
        "model.multi_modal_projector.linear_2",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init_lora_weights": "pissa_niter_4"}, r"valid: True, as PEFT writes if it converts"),
        ({"init_lora_weights": "olora"}, r"init_lora_weights 'olora' is not supported"),
        ({"alora_invocation_tokens": [1, 2]}, r"alora_invocation_tokens \[1, 2\] is not"),
        ({"layer_replication": [[0, 1]]}, r"layer_replication \[\[0, 1\]\] is not"),
        ({"use_qalora": True}, r"use_qalora True is not supported; valid: False"),
        ({"r": 0}, r"adapter_config\.json: r 0; valid: at least 1"),
        ({"r": True}, r"lacks numbers r and lora_alpha"),
    ],
)
def test_settings_that_change_what_adapters_compute_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    values = json.loads((FOLDER / CONFIG).read_text())
    (tmp_path / CONFIG).write_text(json.dumps(values | changes))
    with pytest.raises(PretrainedError, match=message):
        SavedAdapters.open(tmp_path).check_scale(3, SCALE)


#: One device, for runs that end before their first step.
ALONE = {"devices": 1, "decoder": {}, "encoders": {"vision": {}}}


def test_what_adapters_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told before any weights are read, and by the names of `train.lora`."""
    monkeypatch.setattr("mllm_jax.train.components.start.start_from", None)
    with pytest.raises(PretrainedError, match=r"valid: train\.lora\.rank 3, train\.lora\.alpha 5,"):
        run_with(tmp_path / "rank", LORA | {"rank": 4, "begin_with": str(FOLDER)}, ALONE)
    with pytest.raises(PretrainedError, match=r"begin_with: .*nowhere has no adapter_config\.json"):
        SavedAdapters.open(tmp_path / "nowhere")
    with pytest.raises(PretrainedError, match=r"has adapters and no model; valid: the folder of a"):
        read_config(FOLDER)
    few = LORA | {"targets": LORA["targets"][:1], "begin_with": str(FOLDER)}
    more = (
        r"has adapters of decoder\.layers\.mlp\.down_proj, .*, which no target names; valid: train"
    )
    with pytest.raises(PretrainedError, match=more):
        run_with(tmp_path / "few", few, ALONE)
    many = LORA | {"targets": ["decoder.layers.*", *LORA["targets"]], "begin_with": str(FOLDER)}
    fewer = (
        r"has no adapters of decoder\.layers\.mlp\.gate_proj, .*; valid: train\.lora\.targets "
        r"\[decoder\.layers\.mlp\.down_proj, .*, vision\.layers\.self_attn\.o_proj\]"
    )
    with pytest.raises(PretrainedError, match=fewer):
        run_with(tmp_path / "many", many, ALONE)
    changed = tmp_path / "changed"
    shutil.copytree(FOLDER, changed)
    values = json.loads((changed / "adapter_config.json").read_text())
    (changed / "adapter_config.json").write_text(json.dumps(values | {"use_dora": True}))
    with pytest.raises(PretrainedError, match="use_dora True is not supported; valid: False"):
        run_with(tmp_path / "dora", LORA | {"begin_with": str(changed)}, ALONE)
    (changed / "adapter_config.json").write_text(json.dumps(values))
    given = load_file(changed / "adapter_model.safetensors")
    save_file(
        {f"x.{name}": own for name, own in given.items()}, changed / "adapter_model.safetensors"
    )
    with pytest.raises(PretrainedError, match=r"valid: names that begin with base_model\.model\."):
        run_with(tmp_path / "names", LORA | {"begin_with": str(changed)}, ALONE)
    monkeypatch.undo()
    values = imported_run(tmp_path / "plain", PARITY / "llava")
    begun(planned(values, **ALONE))
    line = ["export", "--run", str(tmp_path / "plain"), "--adapters", "--out", str(tmp_path / "no")]
    assert launch.main(line) == ExitCode.BAD_INPUT
    assert "the run has no adapters" in capsys.readouterr().err
