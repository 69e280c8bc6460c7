"""Rows, bytes and parameters of one module on one device, for one microbatch, on any hardware."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from scheduling.costs.shares import local_elements
from scheduling.costs.strategy import Strategy, module_stages
from scheduling.costs.work import ExpertWork, ModuleProfile, Parameters
from scheduling.costs.workload import VECTOR_MOMENTS, WIDE, LayerSplit, Workload
from scheduling.lowering.lowered import Remat
from scheduling.schedules.tasks import ModuleStages
from sharding.axes import LogicalAxes, is_matrix
from sharding.plan import ParallelPlan


class ModuleCosts:
    """What follows from the work of a step and its strategy alone.

    Attributes:
        workload: the work of a step.
        strategy: how it runs.
        name: name of the module.
    """

    workload: Workload
    strategy: Strategy
    name: str

    @cached_property
    def profile(self) -> ModuleProfile:
        """The module's profile."""
        return self.workload.modules[self.name]

    @cached_property
    def plan(self) -> ParallelPlan:
        """The module's plan."""
        return self.strategy.plans[self.name]

    @property
    def is_backbone(self) -> bool:
        """Whether the module is the module whose microbatches count the step."""
        return self.name == self.strategy.backbone_name

    @cached_property
    def rows(self) -> float:
        """Rows of a microbatch on one group of context and tensor ranks.

        The stages of the backbone are assigned full microbatches of an encoder.
        """
        plan, stages = self.plan, self.strategy.backbone.stage
        shares = plan.batch * plan.stage / stages
        return self.workload.rows_of(self.name, self.strategy.microbatches) / shares

    @cached_property
    def layers_per_task(self) -> int:
        """Layers of a chunk."""
        return self.profile.per_run(self.plan.stage * self.chunks)

    @property
    def chunks(self) -> int:
        """Number of virtual chunks on each stage."""
        return self.strategy.chunks_of(self.name)

    @cached_property
    def division(self) -> ModuleStages:
        """How an encoder's work is divided."""
        return module_stages(self.workload, self.strategy, self.name)

    @cached_property
    def shared_experts(self) -> ExpertWork | None:
        """The experts that ranks share; None without any, or where a rank has all of them."""
        return self.profile.experts if self.plan.expert > 1 else None

    @property
    def split(self) -> LayerSplit:
        """How a layer is split."""
        return LayerSplit(self.name, self.plan.tensor, self.shared_experts is not None)

    @property
    def remat(self) -> Remat:
        """Values that the module's backwards compute again."""
        return self.strategy.remat_of(self.name)

    @property
    def trains(self) -> bool:
        """Whether the module's layers, or their adapters, have gradients."""
        return self.name not in self.workload.frozen

    @property
    def shared_ends(self) -> bool:
        """See `ModuleStages.shared_ends`."""
        return self.is_backbone

    @property
    def has_backward(self) -> bool:
        """See `Workload.has_backward`."""
        return self.workload.has_backward(self.name)

    @property
    def trains_fully(self) -> bool:
        """Whether all parameters of the module's layers have gradients."""
        return self.trains and self.name not in self.workload.adapted

    @property
    def weights_share(self) -> float:
        """See `Workload.weights_share`."""
        return self.workload.weights_share(self.name)

    @cached_property
    def holds_parameters(self) -> bool:
        """Whether the module's parameters are counted here, and not with another bucket."""
        return self.workload.holds_parameters(self.name)

    @property
    def activation_bytes(self) -> float:
        """Bytes of a microbatch between two layers, on all ranks of a row together."""
        positions = self.workload.positions[self.name] / self.profile.stride
        return self.rows * positions * self.profile.width * self.workload.element_bytes

    @property
    def outputs(self) -> float:
        """Output positions of an encoder's microbatch, on all ranks of a row together."""
        return self.rows * self.workload.positions[self.name] / self.profile.reduction

    # ---- parameters ------------------------------------------------------------------------------

    @cached_property
    def layers(self) -> float:
        """Layers of one stage, padding included."""
        return self.layers_per_task * self.chunks

    @cached_property
    def all_parameters(self) -> tuple[Parameters, Parameters]:
        """All parameters: of a layer, and of all else."""
        profile = self.profile
        layer, others = profile.layer_parameters, profile.rest_parameters
        return {**layer, **profile.layer_adapters}, {**others, **profile.rest_adapters}

    @cached_property
    def trained_parameters(self) -> tuple[Parameters, Parameters]:
        """Those that have gradients."""
        return self.workload.trained_parameters(self.name)

    @cached_property
    def layer_elements(self) -> float:
        """Parameters of a layer on one device, gathered over fsdp."""
        return self.resident_elements(self.all_parameters[0])

    @cached_property
    def trained_layer_elements(self) -> float:
        """Those of them that have gradients."""
        return self.resident_elements(self.trained_parameters[0])

    def resident_elements(self, parameters: Parameters) -> float:
        """Elements on one device, gathered over fsdp."""
        return local_elements(self.profile, parameters, self.plan, fsdp=False)

    @cached_property
    def trained_resident_elements(self) -> float:
        """Those of one device that have gradients, gathered over fsdp; once for all buckets."""
        if not self.holds_parameters:
            return 0.0
        return self.layers * self.trained_layer_elements + self.resident_elements(
            self.trained_parameters[1]
        )

    @cached_property
    def stored_elements(self) -> float:
        """Parameters that one device stores; each once, whatever buckets use it."""
        return self._stored_elements(self.all_parameters)

    @cached_property
    def trained_stored_elements(self) -> float:
        """Those of them that have gradients."""
        return self._stored_elements(self.trained_parameters)

    @cached_property
    def moment_elements(self) -> float:
        """Values of the optimizer's moments that one device stores."""
        others = VECTOR_MOMENTS - self.workload.moments
        size = self.workload.moments * self.trained_stored_elements
        if others:
            size += others * self._stored_elements(
                self.trained_parameters, lambda axes: not is_matrix(axes)
            )
        return size

    @cached_property
    def matrix_elements(self) -> float:
        """Elements of matrices that have gradients, of those that one device stores."""
        return self._stored_elements(self.trained_parameters, is_matrix)

    def _stored_elements(
        self,
        parameters: tuple[Parameters, Parameters],
        chosen: Callable[[LogicalAxes], bool] = lambda axes: True,
    ) -> float:
        """Elements that one device stores, of those whose logical axes are chosen."""
        if not self.holds_parameters:
            return 0.0
        layer, others = ({k: n for k, n in part.items() if chosen(k)} for part in parameters)
        rest_stored = local_elements(self.profile, others, self.plan)
        return self.layers * local_elements(self.profile, layer, self.plan) + rest_stored

    @property
    def stored_bytes(self) -> float:
        """Bytes of the stored parameters."""
        return self._parameter_bytes(self.stored_elements, self.trained_stored_elements)

    def _parameter_bytes(self, every: float, trained: float) -> float:
        return WIDE * trained + self.workload.constant * (every - trained)

    @cached_property
    def gathered_bytes(self) -> float:
        """Bytes of the gathered parameters, those of layers in the type of the activations."""
        if not self.holds_parameters:
            return 0.0
        others = (
            self.resident_elements(parameters[1])
            for parameters in (self.all_parameters, self.trained_parameters)
        )
        return (
            self.workload.element_bytes * self.layers * self.layer_elements
            + self._parameter_bytes(*others)
        )
