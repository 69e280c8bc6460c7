"""Compiling ahead of time, for accelerators that are not here: the compilers come as wheels.

target = Target.parse("tpu:v5p:4x4x4")
step = build_train_step(for_target(config, target), target.devices())
lowered = step.update.lower(step.abstract_state, training_batch(config, step))
lowered.compile(target.compiler.options)
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.experimental import topologies

from data.loading.assemble import BatchArrays
from data.planning.packing import make_capacity
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.inputs import row_specs, target_specs
from mllm_jax.config.load import ConfigError, ExperimentConfig, resolve_config
from mllm_jax.runtime.devices import DeviceError
from mllm_jax.train.step.batch_placement import abstract_batch
from mllm_jax.train.step.gradient_program import Batch
from mllm_jax.train.step.step import Step
from scheduling.costs.hardware import Hardware

#: libtpu asks the cloud which TPU this machine has, which takes minutes where there is none, and
#: lets one process alone use it, which compiling does not.
WITHOUT_TPU = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5p-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
}

CompilerOptions = Mapping[str, str | bool]


@dataclass(frozen=True)
class TargetCompiler:
    """The compiler for a platform.

    Attributes:
        module: Python module of the compiler.
        extra: extra of this project that installs it.
        options: options of every compilation, in addition to those of the step (`config.overlap`);
            they make compiling fast and are not for training.
    """

    module: str
    extra: str
    options: CompilerOptions

    @property
    def is_installed(self) -> bool:
        """Whether it can be imported."""
        parent = self.module.rpartition(".")[0]
        has_parent = not parent or importlib.util.find_spec(parent) is not None
        return has_parent and importlib.util.find_spec(self.module) is not None


COMPILERS = {
    "tpu": TargetCompiler(
        "libtpu",
        "compile",
        {
            # Machine code that never runs is compiled quickly: buffers and schedule stay as they
            # are.
            "xla_jf_convolution_performance_target": "0",
            "xla_jf_hlo_deduplication": True,
            "xla_tpu_enable_deduplicated_calls": True,
        },
    ),
    "gpu": TargetCompiler(
        "jax_plugins.xla_cuda13",
        "cuda13",
        {
            # Kernels cannot be timed without a GPU: of Triton's the first tiling would be taken, of
            # which some products have none. cuBLAS has them all.
            "xla_gpu_autotune_level": "0",
            "xla_gpu_enable_triton_gemm": False,
        },
    ),
}


@dataclass(frozen=True)
class CompileTarget:
    """Devices to compile for.

    Attributes:
        chip: name of a description of hardware.
        sizes: chips of a TPU slice along each axis; hosts and devices of each for GPUs.
    """

    chip: str
    sizes: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> CompileTarget:
        """`tpu:v5p:4x4x4` or `gpu:h100:4x8`, four hosts of eight.

        Raises:
            DeviceError: the topology is malformed, or no compiler takes it for this chip.
            HardwareError: the chip is unknown.
        """
        match = re.fullmatch(r"(tpu|gpu):(.+):([1-9]\d*(?:x[1-9]\d*)*)", text)
        if not match:
            raise DeviceError(
                f"--topology {text!r} is no topology; valid: tpu:CHIP:SIZES, e.g. tpu:v5p:4x4x4, "
                "or gpu:CHIP:HOSTSxDEVICES, e.g. gpu:h100:4x8"
            )
        platform, chip, sizes = match.groups()
        target = cls(chip, tuple(map(int, sizes.split("x"))))
        target._check_sizes(text, platform)
        return target

    def _check_sizes(self, text: str, platform: str) -> None:
        hardware, sizes = self.hardware, self.sizes
        if hardware.platform != platform:
            raise DeviceError(
                f"--topology {text}: {self.chip} is a {hardware.platform}, not a {platform}"
            )
        key = "topology" if platform == "tpu" else "target_config"
        if getattr(hardware, key) is None:
            raise DeviceError(
                f"--topology {text}: the description of {self.chip} has no {key}, which the "
                "compiler needs"
            )
        if platform == "gpu" and (len(sizes) != 2 or sizes[1] > hardware.host):
            raise DeviceError(
                f"--topology {text}: {'x'.join(map(str, sizes))} is not hosts x devices of a host; "
                f"valid: e.g. {max(1, self.count // hardware.host)}x{hardware.host}, at most "
                f"{hardware.host} devices in a host of {self.chip}"
            )

    def __str__(self) -> str:
        return f"{self.hardware.platform}:{self.chip}:{'x'.join(map(str, self.sizes))}"

    @property
    def hardware(self) -> Hardware:
        """The hardware of one device."""
        return load_hardware(self.chip)

    @property
    def count(self) -> int:
        """Number of devices."""
        return math.prod(self.sizes)

    @property
    def compiler(self) -> TargetCompiler:
        """The compiler for the devices."""
        return COMPILERS[self.hardware.platform]

    def devices(self) -> Sequence[jax.Device]:
        """Stand-ins, for which programs can be compiled and on which none runs.

        Raises:
            DeviceError: the compiler is not installed, or refuses the sizes.
        """
        check_installed([self])
        for name, value in WITHOUT_TPU.items():
            os.environ.setdefault(name, value)
        try:
            devices = topologies.get_topology_desc(**self._topology_arguments()).devices
        except jax.errors.JaxRuntimeError as error:
            raise DeviceError(f"--topology {self} is refused by the compiler: {error}") from error
        if len(devices) != self.count:
            raise DeviceError(f"--topology {self} has {len(devices)} devices, not {self.count}")
        return devices

    def _topology_arguments(self) -> dict[str, Any]:
        hardware, sizes = self.hardware, "x".join(map(str, self.sizes))
        if hardware.platform == "tpu":
            return {"platform": "tpu", "topology_name": f"{hardware.topology}:{sizes}"}
        return {
            "platform": "cuda",
            "topology_name": hardware.name,
            "target_config": hardware.target_config,
            "topology": f"1x{sizes}",  # partitions x hosts x devices of a host
        }


def check_installed(targets: Sequence[CompileTarget]) -> None:
    """Raise DeviceError if the compiler of a target is not installed."""
    missing = {t.compiler.extra: str(t) for t in targets if not t.compiler.is_installed}
    if missing:
        names = " and ".join(f"{extra} (for {target})" for extra, target in missing.items())
        raise DeviceError(
            "programs for accelerators that are not here need the compilers of extras that are not "
            f"installed: {names}; run `make install EXTRAS={','.join(missing)}`"
        )


def configure_for_target(
    config: ExperimentConfig, target: CompileTarget, overlap: str | Sequence[str] | None = None
) -> ExperimentConfig:
    """The configuration as it would be loaded on `target`.

    Args:
        overlap: value of `parallel.overlap`; None: the configured one.

    Raises:
        ConfigError: the plans are for another number of devices, or something in it cannot run on
            that platform.
    """
    if config.parallel.devices != target.count:
        raise ConfigError(
            f"--topology {target}",
            [
                f"parallel.devices: {config.parallel.devices} is not {target.count}, the product "
                f"of {' x '.join(map(str, target.sizes))}; valid: a topology of "
                f"{config.parallel.devices} devices, or plans that multiply to {target.count}"
            ],
        )
    values = config.model_dump(mode="json")
    values["parallel"]["platform"] = target.hardware.platform
    if overlap is not None:
        values["parallel"]["overlap"] = overlap
    return resolve_config(values, source=f"--topology {target}")


def training_batch(config: ExperimentConfig, step: Step) -> Batch:
    """Shapes, types and shardings of batches of `step`, whose rows are as long as they can be."""
    data, specs = config.data, row_specs(config.model)
    rows, capacity = {spec.name: [0] for spec in specs}, make_capacity(data.budgets, specs)
    row = BatchArrays(rows, capacity, target_specs(config.model)).batch
    by_routes = data.balance == "per_phase"
    return abstract_batch(step, row, data.rows, config.train.accumulate, by_routes)
