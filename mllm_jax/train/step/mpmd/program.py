"""What the programs of all groups of devices have in common: their grids, and where outputs go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
from jax import lax
from jax.sharding import PartitionSpec

from mllm_jax.config.pipeline_plan import StageLayers
from mllm_jax.layers.parameters import Params
from mllm_jax.models.freeze import NOTHING_FROZEN, FrozenParameters
from mllm_jax.models.graph import HEAD
from mllm_jax.models.model import Model
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module import parameter_axes
from mllm_jax.train.step.gradient_program import StepProgram
from scheduling.schedules.modules.make import make_module_schedule
from scheduling.schedules.modules.schedule import ModuleSchedule, PlacedModule, place_stages
from sharding.exchange_kinds import DEFAULT_EXCHANGES, Exchanges
from sharding.grid import JointGrid, MeshView, Views, join_grids
from sharding.plan import DeviceGroup
from sharding.rules import parameter_shardings


@dataclass(frozen=True)
class GroupGrid:
    """A group of devices with its joint grid."""

    group: DeviceGroup
    grid: JointGrid


def positions_spec(view: MeshView) -> PartitionSpec:
    """Layout of arrays `[rows, positions, ...]` of the ranks of a view."""
    return PartitionSpec(view.batch_axes or None, view.sequence_axes or None)


def pick_microbatch(tree: Any, number: jax.Array | int) -> Any:
    """Microbatch `number` of arrays `[microbatches, ...]`."""

    def pick(x: jax.Array) -> jax.Array:
        if len(x) == 1:
            return x[0]
        return lax.dynamic_index_in_dim(x, number, axis=0, keepdims=False)

    return jax.tree.map(pick, tree)


class MpmdProgram(StepProgram):
    """A step whose modules run on devices of their own.

    Outputs of a module on other devices reach those of the backbone split as its rows and positions
    are; where they go from there is up to the exchange, as it is of a module beside the backbone.

    Args:
        model: resolved model configuration.
        groups: all groups, the backbone's first.
        frozen: parameters without gradients.
        exchanges: by bucket, the exchange of its outputs.
        stack: layers of the backbone's stages; None without stages.
    """

    def __init__(
        self,
        model: ModelConfig,
        groups: Sequence[GroupGrid],
        frozen: FrozenParameters = NOTHING_FROZEN,
        exchanges: Exchanges = DEFAULT_EXCHANGES,
        stack: StageLayers | None = None,
    ) -> None:
        super().__init__(
            model, join_grids([each.grid for each in groups]), frozen, stack, exchanges
        )
        self.groups = tuple(groups)

    def __str__(self) -> str:
        """The joint grid of every group."""
        return "\n".join(
            f"devices {', '.join(map(str, each.group.devices))}\n{each.grid}"
            for each in self.groups
        )

    def modules_of(self, number: int) -> tuple[str, ...]:
        """Names of the modules of a group; buckets share the parameters of theirs."""
        buckets = self.model.buckets
        names = (buckets.get(name, name) for name in self.groups[number].group.modules)
        return tuple(dict.fromkeys(names))

    def group_of(self, name: str) -> int:
        """Number of the group of a module, or of a bucket."""
        for number, each in enumerate(self.groups):
            if name in each.group.modules or name in self.modules_of(number):
                return number
        valid = ", ".join(name for each in self.groups for name in each.group.modules)
        raise KeyError(f"{name} is no module of the step; valid: {valid}")

    @cached_property
    def local(self) -> tuple[str, ...]:
        """The backbone, and buckets on the same devices."""
        return self.groups[0].group.modules

    @cached_property
    def remote(self) -> tuple[str, ...]:
        """Buckets whose devices are not those of the backbone."""
        return tuple(name for name in self.model.buckets if name not in self.groups[0].grid.views)

    @property
    def waits(self) -> bool:
        """Whether losses of the step wait for the forwards of all microbatches."""
        return bool(self.sharded_model.step_objectives)

    def make_schedule(self, microbatches: int) -> ModuleSchedule:
        """What every stage of the backbone and every other group runs, tick by tick.

        Buckets beside the backbone are part of its tasks.

        Args:
            microbatches: number of microbatches of the step.
        """
        modules = [*self._placed_stages, *map(self._place, self.remote)]
        return make_module_schedule(modules, microbatches, waits=self.waits)

    @property
    def stages(self) -> int:
        """Number of stages of the backbone."""
        return self.grid.backbone.degree_of(self.grid.backbone.stage)

    @property
    def stage_names(self) -> tuple[str, ...]:
        """What the stages of the backbone are called in the schedule."""
        return tuple(stage.name for stage in reversed(self._placed_stages))

    @cached_property
    def _placed_stages(self) -> tuple[PlacedModule, ...]:
        return place_stages(self.model.backbone, self.stages, group=0)

    def _place(self, bucket: str) -> PlacedModule:
        module = self.model.buckets[bucket]
        merges, names = bucket in self.model.merged_buckets, self.stage_names
        trains = bool(jax.tree.leaves(self.trained_shardings.get(module)))
        targets = () if self.waits and not merges else (names[0 if merges else -1],)
        return PlacedModule(bucket, self.stages - 1 + self.group_of(bucket), targets, trains)

    @cached_property
    def views(self) -> Views:
        """See `StepProgram.views`; outputs of other devices lie as the backbone's rows."""
        return {**self.grid.views, **dict.fromkeys(self.remote, self.grid.backbone)}

    @cached_property
    def head_specs(self) -> Params:
        """Layouts of the parameters of remote modules' heads on the devices of the backbone.

        What an edge brings to an objective is made there, of the outputs of all samples.
        """
        axes, graph = parameter_axes(self.model), self.model.graph
        modules = dict.fromkeys(self.model.buckets[name] for name in self.remote)
        blocks = {
            module: {
                f"{HEAD}{name}": axes[module][f"{HEAD}{name}"] for name in graph.heads_of(module)
            }
            for module in modules
        }
        layouts = {
            module: parameter_shardings(of_module, self.grid.backbone)
            for module, of_module in blocks.items()
            if of_module
        }
        specs: Params = jax.tree.map(lambda leaf: leaf.spec, layouts)
        return specs

    def pick_heads(self, params: Params) -> Params:
        """The parameters of these heads."""
        return {
            module: {block: params[module][block] for block in blocks}
            for module, blocks in self.head_specs.items()
        }

    @property
    def row_views(self) -> Views:
        """See `StepProgram.row_views`; each is of the module's own devices."""
        return self.grid.views

    @cached_property
    def encoders(self) -> Model:
        """The model's modules, each on its own devices."""
        return Model(self.model, self.grid.views, self.frozen, self.exchanges)
