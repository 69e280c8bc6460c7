"""Does the configured plan compute what a single device computes?

The model is shrunk as far as the plan's degrees allow, then loss and every gradient leaf are
compared in float32 with the reference attention. Families, plans and connectors are those of the
experiment. A decoder with experts is compared under several routers, adversarial ones among them;
encoders with independent microbatches under several loads, which one program runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import jax
import numpy as np

from data.batch import PackedBatch
from mllm_jax.check.hashed import HASHED
from mllm_jax.check.loads import make_loads
from mllm_jax.check.routers import preferred_routers
from mllm_jax.check.synthetic import scatter_rows, synthetic_batch
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.inputs import bucket_positions, bucket_rows
from mllm_jax.config.load import ExperimentConfig, ScheduleConfig
from mllm_jax.config.overlap import Overlap
from mllm_jax.config.overlap import resolve_overlap as overlap_of
from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.layers.config.encoder import EncoderConfig
from mllm_jax.layers.trainable import ADAPTERS
from mllm_jax.models.freeze import NOTHING_FROZEN, FrozenParameters
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module import init_parameters
from mllm_jax.models.short_form import sections_of_modules
from mllm_jax.models.streams import NO_STREAMS
from mllm_jax.train.step.batch_placement import (
    gather_to_host,
    local_rows,
    place_microbatches,
    select_rows,
)
from mllm_jax.train.step.build import NO_OVERLAP, build_step
from mllm_jax.train.step.gradient_program import Batch
from mllm_jax.train.step.mpmd.build import build_grouped_gradient_step
from mllm_jax.train.step.step import Step
from sharding.exchange_kinds import DEFAULT_EXCHANGES, Exchanges
from sharding.plan import ParallelPlan

Plans = Mapping[str, ParallelPlan]

#: Largest relative error that is summation order and not a mistake.
LIMIT = 1e-4


@dataclass(frozen=True)
class VerificationResult:
    """Outcome of `verify_plans`.

    Attributes:
        loss_error: relative error of the loss.
        worst: name of a module to the largest relative error of its leaves.
        leaves: module to the name of that leaf.
        routers: router of a decoder with experts (`mllm_jax.check.routers`) to the largest error
            under it.
        loads: load of encoders with independent microbatches (`mllm_jax.check.loads`) to the
            largest error under it.

    The other errors are the largest of all routers and loads.
    """

    loss_error: float
    worst: dict[str, float]
    leaves: dict[str, str]
    routers: dict[str, float] = field(default_factory=dict)
    loads: dict[str, float] = field(default_factory=dict)

    @classmethod
    def from_results(
        cls, routers: Mapping[str, VerificationResult], loads: Mapping[str, VerificationResult]
    ) -> VerificationResult:
        """The largest errors of all routers and loads."""
        every, worst = [*routers.values(), *loads.values()], {}
        for module in every[0].worst:
            worst_run = max(every, key=lambda each: each.worst[module])
            worst[module] = worst_run.worst[module], worst_run.leaves[module]
        return cls(
            max(each.loss_error for each in every),
            {module: error for module, (error, _) in worst.items()},
            {module: leaf for module, (_, leaf) in worst.items()},
            {name: each.largest for name, each in routers.items()},
            {name: each.largest for name, each in loads.items()},
        )

    @property
    def largest(self) -> float:
        """The largest error of the loss and of all leaves."""
        return max(self.loss_error, *self.worst.values())

    @property
    def ok(self) -> bool:
        """Whether every error is within `LIMIT`; not a number is not."""
        return all(error <= LIMIT for error in (self.loss_error, *self.worst.values()))

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """Table rows: name of the value, its relative error, the leaf with that error."""
        head = [("loss", f"{self.loss_error:.1e}", "")]
        modules = [(m, f"{e:.1e}", self.leaves[m]) for m, e in self.worst.items()]
        routers = [(f"router: {n}", f"{e:.1e}", "") for n, e in self.routers.items()]
        loads = [(f"load: {n}", f"{e:.1e}", "") for n, e in self.loads.items()]
        return head + modules + routers + loads

    def to_json(self) -> dict[str, Any]:
        """`{"ok", "loss_error", "worst": {module: error}}`, with `routers` and `loads` if any."""
        result = {"ok": self.ok, "loss_error": self.loss_error, "worst": self.worst}
        cases = {"routers": self.routers, "loads": self.loads}
        return result | {name: errors for name, errors in cases.items() if errors}


def verify_plans(config: ExperimentConfig, seed: int = 0) -> VerificationResult:
    """Compare the plans of `config`, and the schedule of its pipeline, with a single device.

    All values are float32, also what `parallel.reduce_dtype` has otherwise. The routers of a
    decoder with experts are random, and then send all tokens to one expert, and to the experts
    of one rank. Encoders with independent microbatches have all their media, and then a part of
    them or none.
    """
    small = shrink_experiment(config)
    model, plans, rows = small.model, small.parallel.plans, small.data.rows
    budgets = {name: small.data.budgets[name] for name in model.buckets}
    longest = {name: bucket_positions(small, name) for name in model.buckets}
    tokens = small.data.budgets["tokens"]
    added = [kind for kind, route in small.data.routes.items() if route.join == "sum"]
    microbatches = [
        synthetic_batch(model, rows, tokens, budgets, seed + i, added, longest)
        for i in range(small.train.accumulate)
    ]
    params = initial_parameters(model, seed)
    frozen = FrozenParameters.from_parts(small.frozen)
    single = {name: ParallelPlan() for name in plans}
    pipeline = configure_step(small).pipeline
    how: dict[str, Any] = {
        "exchanges": configure_step(config).exchanges,
        "overlap": overlap_of(config),
        "gradient_caching": config.gradient_caching,
        "streams": config.parallel.module_streams(model.backbone),
    }

    def distribute_rows(batches: Sequence[Any]) -> Sequence[Any]:
        if small.data.balance != "per_phase":
            return batches
        return [scatter_rows(batch, model, seed + i) for i, batch in enumerate(batches)]

    distributed = distribute_rows(microbatches)
    got = (
        make_grouped_gradient_function(small, distributed)
        if small.parallel.separate_groups
        else make_gradient_function(model, plans, distributed, pipeline, frozen, **how)
    )
    expected = make_gradient_function(model, single, microbatches, frozen=frozen)
    router_params_by_name = dict(preferred_routers(model, plans[model.backbone], params))
    routers = {
        name: compare_gradients(got(router_params), expected(router_params))
        for name, router_params in router_params_by_name.items()
    }
    if pipeline is None or pipeline.independent_microbatches is None:
        return (
            VerificationResult.from_results(routers, {})
            if routers
            else compare_gradients(got(params), expected(params))
        )
    loads = {"full": microbatches} | dict(make_loads(microbatches, model))
    errors = {
        name: compare_gradients(got(params, distribute_rows(load)), expected(params, load))
        for name, load in loads.items()
    }
    return VerificationResult.from_results(routers, errors)


def initial_parameters(model: ModelConfig, seed: int) -> Any:
    """Parameters of `model` as numpy arrays, the same on every process."""
    key = jax.device_put(jax.random.key(seed, impl=HASHED), jax.local_devices()[0])
    make = jax.jit(partial(init_parameters, model)).lower(key).compile(_run_once())
    params = jax.tree.map(np.asarray, make(key))
    return jax.tree_util.tree_map_with_path(
        partial(_train_a_little, np.random.default_rng(seed)), params
    )


def _train_a_little(
    rng: np.random.Generator, path: tuple[Any, ...], leaf: np.ndarray
) -> np.ndarray:
    """The parameter as if it had trained a little.

    The second matrix of an adapter begins at zero, where the first one has no gradient.
    """
    if path[-1].key != ADAPTERS[1]:
        return leaf
    return rng.normal(scale=1e-2, size=leaf.shape).astype(np.float32)


class GradientFunction(Protocol):
    """From parameters of the model to loss and gradients."""

    def __call__(
        self, params: Any, microbatches: Sequence[PackedBatch] | None = None
    ) -> tuple[np.ndarray, Any]:
        """Of the microbatches of the program, or of others, for which nothing is compiled."""


def loss_and_gradients(
    model: ModelConfig,
    plans: dict[str, ParallelPlan],
    params: Any,
    microbatches: Sequence[PackedBatch],
    pipeline: PipelinePlan | None = None,
    frozen: FrozenParameters = NOTHING_FROZEN,
    exchanges: Exchanges = DEFAULT_EXCHANGES,
    overlap: Overlap = NO_OVERLAP,
    *,
    gradient_caching: bool = True,
) -> tuple[np.ndarray, Any]:
    """Loss and gradients of packed microbatches under `plans`, as numpy arrays on every process.

    Parameters and gradients are those of the model, layers stacked in their order; gradients have
    no leaves of what is frozen.
    """
    parts = model, plans, microbatches, pipeline, frozen, exchanges, overlap
    return make_gradient_function(*parts, gradient_caching=gradient_caching)(params)


def make_gradient_function(
    model: ModelConfig,
    plans: dict[str, ParallelPlan],
    microbatches: Sequence[PackedBatch],
    pipeline: PipelinePlan | None = None,
    frozen: FrozenParameters = NOTHING_FROZEN,
    exchanges: Exchanges = DEFAULT_EXCHANGES,
    overlap: Overlap = NO_OVERLAP,
    *,
    gradient_caching: bool = True,
    streams: Mapping[str, int] = NO_STREAMS,
) -> GradientFunction:
    """`loss_and_gradients` of any parameters, by one program that the first of them compile."""
    single_device = plans[model.backbone].devices == 1
    devices = jax.local_devices()[:1] if single_device else None
    how: dict[str, Any] = {
        "exchanges": exchanges,
        "overlap": overlap,
        "gradient_caching": gradient_caching,
        "streams": streams,
    }
    step = build_step(model, plans, pipeline, frozen, devices=devices, **how)
    programs: list[Any] = []

    def compute(params: Any, batch: Batch) -> tuple[Any, jax.Array]:
        primed = step.prime_batch(params, batch)
        if not programs:
            programs.append(step.gradients.lower(params, primed).compile(_run_once()))
        results: tuple[Any, jax.Array] = programs[0](params, primed)
        return results

    return _run_gradients(step, compute, microbatches, all_rows=single_device)


def make_grouped_gradient_function(
    config: ExperimentConfig, microbatches: Sequence[PackedBatch]
) -> GradientFunction:
    """`make_gradient_function` of modules in groups that have devices of their own."""
    step = build_grouped_gradient_step(config)
    return _run_gradients(step, step.gradients, microbatches)


def _run_gradients(
    step: Step,
    compute: Callable[[Any, Batch], tuple[Any, jax.Array]],
    microbatches: Sequence[PackedBatch],
    *,
    all_rows: bool = False,
) -> GradientFunction:
    """The function of a step.

    Args:
        compute: gradients and loss, from parameters and a batch on the devices.
        microbatches: those that are taken unless others are given.
        all_rows: whether this process has all rows, whatever others have.
    """
    model, rows = step.program.model, len(microbatches[0].text_rows.inputs)
    chosen = local_rows(step, rows)

    def placed_batch(microbatches: Sequence[PackedBatch]) -> Batch:
        return place_microbatches(
            [b if all_rows else select_rows(b, chosen) for b in microbatches], step
        )

    first_batch = placed_batch(microbatches)

    def run(
        params: Any, microbatches: Sequence[PackedBatch] | None = None
    ) -> tuple[np.ndarray, Any]:
        batch = first_batch if microbatches is None else placed_batch(microbatches)
        placed = jax.tree.map(
            lambda x, like: jax.make_array_from_callback(
                x.shape, like.sharding, x.__getitem__, dtype=x.dtype
            ),
            jax.tree.map(np.asarray, step.form.to_stored(params)),
            step.abstract_state["params"],
        )
        # Accelerators multiply float32 in fewer bits by default.
        with jax.default_matmul_precision("highest"):
            grads, loss = compute(placed, batch)
        collect = np.asarray if all_rows else gather_to_host
        grads = jax.tree.map(collect, grads)
        canonical = jax.tree.map(np.asarray, step.form.to_canonical(grads))
        return collect(loss), {name: canonical[name] for name in model.modules if name in canonical}

    return run


def _run_once() -> dict[str, Any]:
    """Compiler options of a program that runs once: compiling it fast counts for more."""
    on_cpu = jax.default_backend() == "cpu"
    return {"xla_backend_optimization_level": 0} if on_cpu else {}


def compare_gradients(
    got: tuple[np.ndarray, Any], expected: tuple[np.ndarray, Any]
) -> VerificationResult:
    """Largest relative error of every module, leaf by leaf."""
    worst, leaves = {}, {}
    for module, of_module in expected[1].items():
        errors = leaf_errors(got[1][module], of_module)
        leaves[module] = max(errors, key=lambda name: errors[name])
        worst[module] = errors[leaves[module]]
    return VerificationResult(relative_error(got[0], expected[0]), worst, leaves)


def leaf_errors(got: Any, expected: Any) -> dict[str, float]:
    """Leaf name to `relative_error`, given the largest entry of the tree."""
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
    gradient is zero and float32 leaves only noise of it. What is not a number is infinitely wrong.
    """
    error, scale = float(np.abs(got - expected).max()), float(np.abs(expected).max())
    if math.isnan(error):
        return math.inf
    if max(float(np.abs(got).max()), scale) <= 1e-6 * largest:
        scale = largest
    return error / scale if scale else (0.0 if error == 0 else math.inf)


def shrink_experiment(config: ExperimentConfig) -> ExperimentConfig:
    """The smallest experiment with the same families, plans and schedule, encoders cut alike."""
    plans, backbone = config.parallel.plans, config.model.backbone
    if plans[backbone].stage > 1:
        chunks = dict(configure_step(config).strategy.chunks)
        schedule = config.schedule.model_copy(update={"chunks": chunks})
        config = config.model_copy(update={"schedule": schedule})
    shares = math.lcm(*(plan.batch for plan in plans.values()))
    budgets = {
        name: config.model.reduction(name) * math.lcm(4, plans[name].sequence)
        for name in config.model.buckets
    }
    independent = {name: budgets[name] for name in config.schedule.independent_budgets}
    # Encoders that have several microbatches for one of the decoder's still have.
    several_microbatches = [
        n for n in budgets if bucket_positions(config, n) < config.data.budgets[n]
    ]
    budgets |= {
        name: 2 * bucket_rows(config, name) * budgets[name] for name in several_microbatches
    }
    budgets |= {"tokens": math.lcm(16, plans[backbone].sequence), "segments": 8}
    data = config.data.model_copy(update={"rows": max(shares, 2), "budgets": budgets})
    # Some microbatches more than a pipeline holds at a time: all that its tables can do happens.
    enough = 3 * plans[backbone].stage if plans[backbone].stage > 1 else 1
    train = config.train.model_copy(update={"accumulate": min(config.train.accumulate, enough)})
    model = shrink_model(config.model, plans, config.schedule)
    schedule = config.schedule.model_copy(update={"independent_budgets": independent})
    update = {"model": model, "data": data, "train": train, "schedule": schedule}
    return config.model_copy(update=update)


def shrink_model(model: ModelConfig, plans: Plans, schedule: ScheduleConfig) -> ModelConfig:
    """The smallest model of the same families that every plan and the schedule can split."""
    modules = {name: _shrink_module(model, name, plans, schedule) for name in model.modules}
    # A connector writes this width under the plans of its encoder's buckets.
    width = math.lcm(16, *(plan.fsdp for plan in plans.values()))
    modules[model.backbone]["d_model"] = width
    small = model.model_dump(mode="json") | {
        **sections_of_modules(modules, model.backbone),
        "dtype": "float32",
        "attention": "reference",
        "loss_chunk": 8,
    }
    return ModelConfig.model_validate(small).adapted_like(model.adapters)


def _shrink_module(
    model: ModelConfig, name: str, plans: Plans, schedule: ScheduleConfig
) -> dict[str, Any]:
    names = [n for n in (model.backbone, *model.buckets) if model.buckets.get(n, n) == name]
    module, plans_of_module = model.modules[name], [plans[n] for n in names]
    runs = [schedule.chunks.get(n, 1) * plans[n].stage for n in names]
    values, edge = module.shrink(plans_of_module, runs), model.graph.merge(name)
    if isinstance(module, EncoderConfig):
        values |= module.shrink_tiles(model.graph.connector(name))
    if edge is None:
        return values
    # At most as many layers as the backbone and each of its chunks have.
    deepstack = [*range(1, min(len(edge.layers), 2) + 1)]
    connector = model.graph.connector(name).shrink(plans_of_module)
    return values | {"connector": connector, "deepstack": deepstack}
