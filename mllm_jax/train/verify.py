"""Does the configured plan compute what a single device computes?

The model is shrunk as far as the plan's degrees allow, then loss and every gradient leaf are
compared in float32 with the reference attention. Families, plans and connectors are those of the
experiment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
import optax

from mllm_jax.config import ExperimentConfig
from mllm_jax.models.config import DecoderConfig, EncoderConfig, ModelConfig
from mllm_jax.models.multimodal import init_parameters
from mllm_jax.train.batch import local_rows, place, select_rows, whole
from mllm_jax.train.step import TrainStep
from mllm_jax.train.synthetic import synthetic_batch
from sharding.grid import JointGrid
from sharding.plan import ParallelPlan

#: Largest relative error that is summation order and not a mistake.
LIMIT = 1e-4


@dataclass(frozen=True)
class Verification:
    """Outcome of `verify`.

    Attributes:
        loss_error: relative error of the loss.
        worst: module ("decoder" or an encoder's name) to the largest relative error of its leaves.
        leaves: module to the name of that leaf.
    """

    loss_error: float
    worst: dict[str, float]
    leaves: dict[str, str]

    @property
    def ok(self) -> bool:
        """Whether every error is within `LIMIT`; not a number is not."""
        return all(error <= LIMIT for error in (self.loss_error, *self.worst.values()))

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """Table rows: what, relative error, the leaf that has it."""
        head = [("loss", f"{self.loss_error:.1e}", "")]
        return head + [(m, f"{e:.1e}", self.leaves[m]) for m, e in self.worst.items()]

    def to_json(self) -> dict[str, Any]:
        """`{"ok", "loss_error", "worst": {module: error}}`."""
        return {"ok": self.ok, "loss_error": self.loss_error, "worst": self.worst}


def verify(config: ExperimentConfig, seed: int = 0) -> Verification:
    """Compare the plans of `config` with a single device."""
    plans = config.parallel.plans
    model = shrink(config.model, plans)
    single = {name: ParallelPlan() for name in plans}
    rows = math.lcm(*(plan.batch for plan in plans.values()))
    budgets = {
        name: encoder.reduction * math.lcm(4, plans[name].tensor)
        for name, encoder in model.encoders.items()
    }
    tokens = math.lcm(16, plans["decoder"].tensor)
    batch = synthetic_batch(model, max(rows, 2), tokens, budgets, seed)
    params = initial_parameters(model, seed)
    got = loss_and_gradients(model, plans, params, batch)
    return compare(got, loss_and_gradients(model, single, params, batch))


def initial_parameters(model: ModelConfig, seed: int) -> Any:
    """Parameters of `model` as numpy arrays, the same on every process."""
    key = jax.device_put(jax.random.key(seed), jax.local_devices()[0])
    make = jax.jit(partial(init_parameters, model)).lower(key).compile(_run_once())
    return jax.tree.map(np.asarray, make(key))


def loss_and_gradients(
    model: ModelConfig, plans: dict[str, ParallelPlan], params: Any, batch: Any
) -> tuple[np.ndarray, Any]:
    """Loss and gradients of one packed batch under `plans`, as numpy arrays on every process."""
    grid = JointGrid.build(plans)
    alone = grid.devices == 1
    mesh = grid.mesh(jax.local_devices()[:1] if alone else jax.devices()[: grid.devices])
    step = TrainStep(model, grid, mesh, optax.identity())
    rows = batch["decoder"]["tokens"].shape[0]
    local = batch if alone else select_rows(batch, local_rows(grid, mesh, rows))
    placed = jax.tree.map(
        lambda x, like: jax.make_array_from_callback(x.shape, like.sharding, x.__getitem__),
        params,
        step.abstract["params"],
    )
    on_devices = place([local], grid, mesh)
    # Accelerators multiply float32 in fewer bits unless told otherwise.
    with jax.default_matmul_precision("highest"):
        program = step.gradients.lower(placed, on_devices).compile(_run_once())
    grads, loss = program(placed, on_devices)
    return whole(loss), jax.tree.map(whole, grads)


def _run_once() -> dict[str, Any]:
    """Compiler options of a program that runs once: compiling it fast counts for more."""
    on_cpu = jax.default_backend() == "cpu"
    return {"xla_llvm_disable_expensive_passes": True} if on_cpu else {}


def compare(got: tuple[np.ndarray, Any], expected: tuple[np.ndarray, Any]) -> Verification:
    """Largest relative error of every module, leaf by leaf."""
    modules = {"decoder": (got[1]["decoder"], expected[1]["decoder"])}
    for name, tree in expected[1]["encoders"].items():
        modules[name] = (got[1]["encoders"][name], tree)
    worst, leaves = {}, {}
    for module, (a, b) in modules.items():
        errors = leaf_errors(a, b)
        leaves[module] = max(errors, key=lambda name: _nan_last(errors[name]))
        worst[module] = errors[leaves[module]]
    return Verification(relative_error(got[0], expected[0]), worst, leaves)


def leaf_errors(got: Any, expected: Any) -> dict[str, float]:
    """Leaf name to `relative_error`, given the largest entry of the whole tree."""
    largest = max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(expected))
    pairs = zip(jax.tree_util.tree_leaves_with_path(expected), jax.tree.leaves(got), strict=True)
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): relative_error(a, b, largest)
        for (path, b), a in pairs
    }


def relative_error(got: np.ndarray, expected: np.ndarray, largest: float = 0.0) -> float:
    """`max |got - expected| / max |expected|`.

    Where both arrays are below 1e-6 of `largest`, they are the rounding of a zero and are divided
    by `largest`: a key bias, for instance, shifts all logits of a query alike, so that its
    gradient is zero and float32 leaves only noise of it.
    """
    error, scale = float(np.abs(got - expected).max()), float(np.abs(expected).max())
    if max(float(np.abs(got).max()), scale) <= 1e-6 * largest:
        scale = largest
    return error / scale if scale else (0.0 if error == 0 else math.inf)


def shrink(model: ModelConfig, plans: dict[str, ParallelPlan]) -> ModelConfig:
    """The smallest model of the same families that every plan can split."""
    decoder = _shrink_decoder(model.decoder, plans)
    encoders = {
        name: _shrink_encoder(encoder, plans[name]) for name, encoder in model.encoders.items()
    }
    small = model.model_dump(mode="json") | {
        "decoder": decoder,
        "encoders": encoders,
        "dtype": "float32",
        "attention": "reference",
        "loss_chunk": 8,
    }
    return ModelConfig.model_validate(small)


def _shrink_decoder(decoder: DecoderConfig, plans: dict[str, ParallelPlan]) -> dict[str, Any]:
    plan = plans["decoder"]
    groups = 1 if decoder.kv_heads == decoder.heads else 2
    return decoder.model_dump(mode="json") | {
        "layers": 2 * plan.stage,
        # A connector writes this width under its encoder's plan.
        "d_model": math.lcm(16, *(p.fsdp for p in plans.values())),
        "heads": groups * plan.tensor,
        "kv_heads": plan.tensor,
        "head_dim": 8,
        "d_ff": math.lcm(16, plan.tensor),
        "vocab": math.lcm(32, plan.tensor),
        "max_positions": math.lcm(16, plan.tensor),
    }


def _shrink_encoder(encoder: EncoderConfig, plan: ParallelPlan) -> dict[str, Any]:
    small = encoder.model_dump(mode="json") | {
        "layers": 2 * plan.stage,
        "d_model": math.lcm(8, plan.fsdp, plan.tensor),
        "heads": plan.tensor,
        "head_dim": 4,
        "d_ff": math.lcm(8, plan.tensor),
    }
    small["connector"] |= {"hidden": math.lcm(8, plan.tensor, plan.fsdp)}
    return small | ({"mels": 4} if encoder.family == "whisper" else {"patch": [2, 2]})


def _nan_last(error: float) -> float:
    return math.inf if math.isnan(error) else error
