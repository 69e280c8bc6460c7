"""Programs whose times tell the constants of a machine: layers, the optimizer, collectives.

Every program runs on all devices at once, as a step does: emulated devices share their host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.config.configured_step import build_workload
from mllm_jax.config.inputs import empty_module_rows
from mllm_jax.config.load import AdamWConfig, ExperimentConfig
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module import ShardedModule, abstract_parameters, compute_dtype
from mllm_jax.models.module_rows import ModuleRows
from mllm_jax.plan.activation_bytes import layer_input_shape
from mllm_jax.train.state.parameter_layout import ParameterLayout
from mllm_jax.train.step.build import build_step
from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.hardware import Hardware
from scheduling.costs.strategy import Strategy
from scheduling.costs.workload import WIDE
from sharding.collectives import all_gather, ppermute, reduce_scatter, vary
from sharding.grid import JointGrid
from sharding.in_order import shard_map
from sharding.mesh import make_mesh, named_shardings
from sharding.plan import ParallelPlan

#: Layers of a run that is timed.
LAYERS = 2
#: Rows of a run over those of the configuration, and positions of a row as parts of its budget.
SIZES_OF_RUNS = ((1, 1), (1, 2), (1, 4), (2, 2), (4, 4))
#: Rows that are gathered, as multiples of a microbatch's.
GATHERED = (1, 2, 4)
#: Sizes of the whole array that collectives move, in bytes.
COLLECTIVE_BYTES = (2**16, 2**20, 2**22, 2**24)
#: Rows and columns of the matrices of `matmul`, and bytes of `copy`, of a CPU and of accelerators.
MATRIX, COPY_BYTES = {True: 1024, False: 8192}, {True: 2**27, False: 2**31}
#: Products, and copies, one after the other. An accelerator makes as many small products
#: as take `LEAST_FLOPS`: beside milliseconds the start of a program is nothing.
REPEATED, LEAST_FLOPS = 8, 2.0**43


@dataclass(frozen=True)
class TimedProbe:
    """A compiled program with its prediction by the cost model.

    Attributes:
        name: name of the program.
        run: runs it once.
        predict: seconds of one run on given hardware.
    """

    name: str
    run: Callable[[], Any]
    predict: Callable[[Hardware], float]


@dataclass
class InPlaceProgram:
    """A compiled program that replaces its first argument, as a train step does its state.

    Attributes:
        program: function from `state` and `constant_inputs` to the next state.
        state, constant_inputs: arrays.
    """

    program: Callable[..., Any]
    state: Any
    constant_inputs: tuple[Any, ...] = ()

    def run(self) -> Any:
        """Run the program once; returns the new state."""
        self.state = self.program(self.state, *self.constant_inputs)
        return self.state


# ---- peaks ---------------------------------------------------------------------------------------


def make_matmul(
    devices: list[jax.Device], dtype: str, size: int | None = None
) -> tuple[Callable[[], Any], float]:
    """Products of matrices `[size, size]` on every device, and the FLOPs of one device.

    Args:
        size: rows and columns; None = those of `MATRIX`.
    """
    mesh, cpu = Mesh(np.array(devices), ("data",)), devices[0].platform == "cpu"
    size = size or MATRIX[cpu]
    flops = 2.0 * size**3
    count = REPEATED if cpu else max(REPEATED, round(LEAST_FLOPS / flops))

    def multiply_often(x: jax.Array) -> jax.Array:
        def multiply_once(y: jax.Array, _: Any) -> tuple[jax.Array, None]:
            return (x[0] @ y) / size, None

        return lax.scan(multiply_once, x[0], length=count)[0][None]

    x = _fill_array(mesh, (len(devices), size, size), jnp.dtype(dtype))
    return _compile_mapped(mesh, multiply_often, x), flops * count


def make_copy(devices: list[jax.Device]) -> tuple[Callable[[], Any], float]:
    """Sums of large arrays on every device, and the bytes that one device reads and writes."""
    mesh, size = Mesh(np.array(devices), ("data",)), COPY_BYTES[devices[0].platform == "cpu"]
    x = _fill_array(mesh, (len(devices), size // 4), jnp.dtype("float32"))
    spec = PartitionSpec(*mesh.axis_names)

    def add_often(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, REPEATED, lambda _, y: y + 1, x)

    body = jax.shard_map(add_often, mesh=mesh, in_specs=spec, out_specs=spec)
    program = jax.jit(body, donate_argnums=0).lower(x).compile()
    return InPlaceProgram(program, x).run, 2.0 * size * REPEATED


def _fill_array(mesh: Mesh, shape: tuple[int, ...], dtype: jnp.dtype) -> jax.Array:
    """An array of ones whose first dimensions lie along the axes of `mesh`."""
    sharding = NamedSharding(mesh, PartitionSpec(*mesh.axis_names))
    return jax.jit(lambda: jnp.ones(shape, dtype), out_shardings=sharding)()


def _compile_mapped(mesh: Mesh, body: Callable[..., Any], x: jax.Array) -> Callable[[], Any]:
    spec = PartitionSpec(*mesh.axis_names)
    run = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec))
    return partial(run.lower(x).compile(), x)


# ---- layers --------------------------------------------------------------------------------------


def layer_probes(config: ExperimentConfig, devices: list[jax.Device]) -> Iterator[TimedProbe]:
    """Runs of layers of every module, forwards and with their backwards, of several sizes.

    Args:
        config: configuration from `on_platform`.
        devices: devices that run the layers, in tensor groups of the module's degree.
    """
    for name in (config.model.backbone, *config.model.buckets):
        for rows, positions in _row_sizes(config, name):
            run = _LayerProbe(_shorten_modules(config), name, rows, positions, devices)
            yield run.make_probe(backward=False)
            yield run.make_probe(backward=True)


def _shorten_modules(config: ExperimentConfig) -> ExperimentConfig:
    """`config` with `LAYERS` layers in every module, rounded up to whole periods."""
    model = config.model

    def layer_count(period: int) -> dict[str, int]:
        return {"layers": -(-LAYERS // period) * period}

    shortened = {
        name: module.model_copy(update=layer_count(module.period))
        for name, module in model.modules.items()
    }
    return config.model_copy(update={"model": model.with_modules(shortened)})


def _same_plans(model: ModelConfig, plan: ParallelPlan) -> dict[str, ParallelPlan]:
    """All modules under one plan."""
    return dict.fromkeys((model.backbone, *model.buckets), plan)


def _row_sizes(config: ExperimentConfig, name: str) -> list[tuple[int, int]]:
    """Rows of a tensor group, and positions of a row."""
    plan = config.parallel.plans[name]
    budget = config.data.budgets[config.budget_key(name)]
    unit = plan.tensor * config.model.reduction(name)
    rows = max(1, config.data.rows // plan.batch)
    sizes = [(rows * n, max(unit, budget // part // unit * unit)) for n, part in SIZES_OF_RUNS]
    return list(dict.fromkeys(sizes))


@dataclass(frozen=True)
class _LayerProbe:
    """Layers of the decoder or of a bucket on rows of one size, on all devices."""

    config: ExperimentConfig
    name: str
    rows: int
    positions: int
    devices: list[jax.Device]

    @property
    def module_name(self) -> str:
        """The decoder, or the encoder that has the bucket."""
        return self.config.model.buckets.get(self.name, self.name)

    @property
    def plan(self) -> ParallelPlan:
        """Tensor groups of the module's degree, each with rows of its own."""
        tensor = self.config.parallel.plans[self.name].tensor
        return ParallelPlan(data=len(self.devices) // tensor, tensor=tensor)

    @property
    def make_timing(self) -> Callable[[Hardware], ModuleTiming]:
        """The cost model's timing of one microbatch."""
        plans = {self.config.model.backbone: self.plan, self.name: self.plan}
        strategy = Strategy(plans, remat=self.config.model.remat)
        workload_of_config = build_workload(self.config)
        positions = {**workload_of_config.positions, self.name: self.positions}
        workload_of_run = replace(
            workload_of_config, rows=self.rows * self.plan.batch, positions=positions
        )
        return lambda hardware: ModuleTiming(workload_of_run, strategy, hardware, self.name)

    def make_probe(self, *, backward: bool) -> TimedProbe:
        """The forward alone, or with its backward."""
        what = "forward and backward" if backward else "forward"
        name = f"{self.name}: {self._layer_count} layers, {self.rows} x {self.positions}, {what}"
        return TimedProbe(
            name, self._compile_program(backward), partial(self._predict_seconds, backward)
        )

    def _predict_seconds(self, backward: bool, hardware: Hardware) -> float:
        timing = self.make_timing(hardware)
        forward = timing.forward_time(self._layer_count).seconds
        return forward + timing.backward_time(self._layer_count).seconds if backward else forward

    @property
    def _layer_count(self) -> int:
        return self.config.model.modules[self.module_name].layers

    def _compile_program(self, backward: bool) -> Callable[[], Any]:
        model, name, plan = self.config.model, self.name, self.plan
        grid = JointGrid.build(_same_plans(model, plan), model.backbone_config.kv_heads)
        view, mesh = grid.views[name], make_mesh(grid, self.devices)
        module = ShardedModule(model, self.module_name, view)

        def total(stack: Any, x: jax.Array, rows: ModuleRows) -> jax.Array:
            out, _ = module.run_layers(stack, x, module.context(rows), model.remat)
            return jnp.sum(out.astype(jnp.float32))

        def body(stack: Any, x: jax.Array, rows: ModuleRows) -> Any:
            varied = vary((stack, x), view.all_axes)
            if not backward:
                return total(*varied, rows)[None]
            grads, dx = jax.grad(total, (0, 1))(*varied, rows)
            # Gradients are added to sums of earlier microbatches, for which the stack stands in.
            return jax.tree.map(
                lambda leaf: leaf[None], (jax.tree.map(jnp.add, varied[0], grads), dx)
            )

        specs, arrays = self._make_inputs(grid, mesh)
        mapped = shard_map(body, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(view.all_axes))
        run = jax.jit(mapped)
        return partial(run.lower(*arrays).compile(), *arrays)

    def _make_inputs(self, grid: JointGrid, mesh: Mesh) -> tuple[Any, Any]:
        """Layouts and arrays: parameters, activations, and how rows are packed."""
        model, name, view = self.config.model, self.name, grid.views[self.name]
        shapes, lay = abstract_parameters(model)[0], ParameterLayout(model, grid).shardings
        rows = self.rows * self.plan.batch
        packed = empty_module_rows(model, name, rows, self.positions)
        x = jax.ShapeDtypeStruct(
            layer_input_shape(model, self.module_name, rows, self.positions, 1),
            compute_dtype(model),
        )
        by_row = view.batch_axes or None
        specs = (
            jax.tree.map(lambda leaf: leaf.spec, lay[self.module_name]["layers"]),
            PartitionSpec(by_row, view.tensor or None),
            jax.tree.map(lambda _: PartitionSpec(by_row), packed),
        )
        layers = shapes[self.module_name]["layers"]
        arrays = jax.tree.map(_random_array, (layers, x, packed), named_shardings(mesh, specs))
        return specs, arrays


def _random_array(shape: jax.ShapeDtypeStruct, sharding: NamedSharding) -> jax.Array:
    """Small random numbers; ones where integers are asked for, which makes a row one segment."""
    if jnp.issubdtype(shape.dtype, jnp.integer):
        values = np.ones(shape.shape, shape.dtype)
    else:
        values = 0.02 * np.random.default_rng(0).standard_normal(shape.shape, np.float32)
    return jax.make_array_from_callback(
        shape.shape, sharding, lambda index: values[index].astype(shape.dtype)
    )


# ---- optimizer -----------------------------------------------------------------------------------


def update_probe(config: ExperimentConfig, devices: list[jax.Device]) -> TimedProbe:
    """AdamW on the parameters of the model with few layers, the same on every device.

    It moves memory and computes little, which tells the memory's fraction from that of products.
    """
    config = _shorten_modules(config)
    train = config.train.model_copy(update={"optimizer": AdamWConfig(), "freeze": ()})
    plans = _same_plans(config.model, ParallelPlan(data=len(devices)))
    step = build_step(config.model, plans, train=train, devices=devices)

    state_specs = step.state_specs

    def run_update(state: Any, grads: Any) -> Any:
        updates, optimizer = step.optimizer.update(grads, state["optimizer"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return state | {"params": params, "optimizer": optimizer}

    sharded = step.map_shards(run_update, (state_specs, state_specs["params"]), state_specs)
    state = step.init(jax.random.key(0))
    grads = jax.tree.map(jnp.ones_like, state["params"])
    program = jax.jit(sharded, donate_argnums=0).lower(state, grads).compile()
    run = InPlaceProgram(program, state, (grads,)).run
    full_workload = replace(build_workload(config), moments=2, frozen=frozenset())
    strategy = Strategy(plans)

    def predict_seconds(hardware: Hardware) -> float:
        return sum(
            ModuleTiming(full_workload, strategy, hardware, name).update_seconds() for name in plans
        )

    return TimedProbe("optimizer: AdamW on these layers", run, predict_seconds)


# ---- gathers of rows -----------------------------------------------------------------------------


def gather_probes(config: ExperimentConfig, devices: list[jax.Device]) -> Iterator[TimedProbe]:
    """Gathers of a microbatch's activations in a random order of their rows, on every device.

    Args:
        config: configuration from `on_platform`.
    """
    mesh, width = Mesh(np.array(devices), ("data",)), config.model.backbone_config.d_model
    dtype, spec = compute_dtype(config.model), PartitionSpec("data")
    sharding = NamedSharding(mesh, spec)
    body = jax.shard_map(lambda x, at: x[0][at[0]][None], mesh=mesh, in_specs=spec, out_specs=spec)
    rng = np.random.default_rng(0)
    for times in GATHERED:
        rows = times * config.data.rows * config.data.budgets["tokens"]
        x = _fill_array(mesh, (len(devices), rows, width), dtype)
        orders = np.stack([rng.permutation(rows) for _ in devices]).astype(np.int32)
        inputs = x, jax.device_put(orders, sharding)
        program = jax.jit(body).lower(*inputs).compile()
        predict = partial(_gather_seconds, 2.0 * x.nbytes / len(devices))
        yield TimedProbe(f"gather of {rows} rows of {width}", partial(program, *inputs), predict)


def _gather_seconds(moved: float, hardware: Hardware) -> float:
    return moved / hardware.gather_bandwidth


# ---- collectives ---------------------------------------------------------------------------------


def collective_probes(devices: np.ndarray, axis: int) -> Iterator[TimedProbe]:
    """All-gathers, reduce-scatters and sends over one axis of `devices`, of several sizes.

    Args:
        devices: `[domains, devices of a domain]`.
        axis: 0 between domains, 1 within them.
    """
    mesh, group = Mesh(devices, ("network", "link")), (("network", "link")[axis],)
    count, domain = devices.shape[axis], devices.shape[1]
    bodies = {
        "all_gather": lambda x: all_gather(x, group, dim=2),
        "reduce_scatter": lambda x: reduce_scatter(x, group, dim=2),
        "send": lambda x: ppermute(x, group, 1),
    }
    spec = PartitionSpec("network", "link")
    for kind, body in bodies.items():
        for size in COLLECTIVE_BYTES:
            width = size // WIDE // (count if kind == "all_gather" else 1)
            x = _fill_array(mesh, (*devices.shape, width), jnp.dtype("float32"))
            run = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec))
            predict = partial(_collective_seconds, kind, size, count, domain if axis == 0 else 1)
            name = f"{kind}: {size / 2**20:g} MiB over {count} devices"
            yield TimedProbe(name, partial(run.lower(x).compile(), x), predict)


def _collective_seconds(kind: str, size: int, count: int, stride: int, hardware: Hardware) -> float:
    if kind == "send":
        return hardware.send_seconds(size, stride)
    return hardware.group_seconds(size, count, count * stride)
