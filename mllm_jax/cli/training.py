"""Functions of the commands train, evaluate, verify and check, and their answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from mllm_jax.cli.answer import CommandOutput, exit_code
from mllm_jax.cli.command import CommandRequest
from mllm_jax.cli.devices import processes_of

if TYPE_CHECKING:  # which --help does not need
    from mllm_jax.health.finding import HealthReport
    from mllm_jax.runtime.run_peers import ProcessPlace
    from mllm_jax.supervise.plans import FallbackPlans, FallbackSearch

# ---- train ---------------------------------------------------------------------------------------


def prepare_training(request: CommandRequest) -> None:
    """Check the source, and from now on report at an interruption that nothing is lost.

    Raises:
        ConfigError: the model takes no media of the demo set.
    """
    from mllm_jax.config.checks.data_checks import check_demo_media
    from mllm_jax.runtime.interrupt import set_interrupt_status
    from mllm_jax.runtime.run_status import status_before_first_step

    check_demo_media(request.config)
    set_interrupt_status(status_before_first_step(request.config))


def training_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `train.trainer.train`; groups that do not fit in memory are refused."""
    if request.config.parallel.separate_groups:
        from mllm_jax.plan.groups.memory import check_groups_here

        check_groups_here(request.config, request.devices)
    return {
        "config": request.config,
        "console": request.console,
        "from_step": request.args.from_step,
    }


# ---- train --supervise ---------------------------------------------------------------------------


def check_supervision(request: CommandRequest) -> None:
    """Raise ConfigError for a run that a supervisor could not start again."""
    from mllm_jax.config.sections import ConfigError
    from mllm_jax.runtime.slices.limits import SliceLimits

    if not request.config.checkpoint.enabled:
        problem = "checkpoint.enabled false: a restart would lose all steps; valid: true"
        raise ConfigError("train --supervise", [problem])
    if SliceLimits.from_config(request.config.parallel):
        reason = "parallel.groups with quotas on GPUs: processes of slices are started by one"
        problem = f"{reason} launcher, and not supervised; valid: train without --supervise"
        raise ConfigError("train --supervise", [problem])


def supervision_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `supervise.start.supervise_training`, with a search for plans if one is due."""
    from mllm_jax.config.refit import resolve_fallbacks
    from mllm_jax.runtime.backends.place import place_from_environment
    from mllm_jax.runtime.watch import WatchLimits
    from mllm_jax.runtime.wire import HostAddress
    from mllm_jax.supervise.plans import FallbackPlans
    from mllm_jax.supervise.policy import RestartPolicy
    from mllm_jax.supervise.supervisor import SupervisorConfig

    args, config = request.args, request.config
    run, place = config.run, processes_of(args)
    overrides: tuple[str, ...] = ()
    if config.parallel.distributed:
        # Supervisors meet before JAX has started, and tell its processes where to meet.
        place = place_from_environment(os.environ, args.join_seconds) if place.count == 1 else place
        overrides = ("parallel.distributed=false",)
    plans = FallbackPlans(resolve_fallbacks(config, place.count))
    settings = SupervisorConfig(
        run.path,
        WatchLimits(run.hang_seconds, run.stall_seconds, run.phase_seconds),
        RestartPolicy(run.restarts, run.backoff_seconds),
        run.wait_for_hosts,
        place.index,
        place.count,
        HostAddress.parse(place.coordinator) if place.coordinator and place.count > 1 else None,
        plans,
        overrides,
    )
    planning = _search_fallbacks(request, place, plans)
    return {"command": sys.orig_argv, "settings": settings, "planning": planning}


def _search_fallbacks(
    request: CommandRequest, place: ProcessPlace, plans: FallbackPlans
) -> FallbackSearch | None:
    """Begin to search plans for fewer hosts, if they are to be searched."""
    from mllm_jax.config.refit import devices_to_search, plan_overrides
    from mllm_jax.supervise.plans import FallbackSearch

    args, config = request.args, request.config
    devices = devices_to_search(config, place.count) if place.index == 0 else {}
    if not devices:
        return None
    start = sys.orig_argv[: sys.orig_argv.index("train")]
    command = [*start, "plan", "--config", args.config, *args.overrides, "--json", "--all-devices"]
    folder = config.run.path / "plans"
    return FallbackSearch(command, devices, folder, partial(plan_overrides, config), plans)


def answer_supervision(code: int, request: CommandRequest) -> CommandOutput:
    """The exit code; the process that trained has answered."""
    del request
    return CommandOutput(None, code=code, answered=True)


# ---- evaluate, verify, check ---------------------------------------------------------------------


def config_argument(request: CommandRequest) -> Mapping[str, Any]:
    """The configuration as the only argument."""
    return {"config": request.config}


def answer_evaluation(result: Mapping[str, Any], request: CommandRequest) -> CommandOutput:
    """The figures of an evaluation."""
    from mllm_jax.train.records.evaluation_figures import figures_of

    del request
    rows = [(name, f"{value:.4g}") for name, value in figures_of(result).items()]
    return CommandOutput(result, [((f"step {result['step']}", "value"), rows)])


def answer_verification(result: Any, request: CommandRequest) -> CommandOutput:
    """The errors of loss and gradients, and the groups that have run, if there are any."""
    from mllm_jax.check.verify import LIMIT

    table = ("what", "relative error", "worst leaf"), result.rows
    verdict = "ok" if result.ok else f"FAILED: an error exceeds {LIMIT:g}"
    lines = [*request.config.parallel.group_lines, verdict]
    return CommandOutput(result.to_json(), [table], lines, exit_code(result.ok))


def examine_processes(request: CommandRequest) -> HealthReport:
    """Check what a run needs of this machine and all processes."""
    from mllm_jax.health.check import list_checks, run_checks
    from mllm_jax.runtime.folder import prepare_folder

    prepare_folder(request.run_folder)
    return run_checks(list_checks(request.run_folder, request.devices))


def answer_health(health: HealthReport, request: CommandRequest) -> CommandOutput:
    """The findings of each check."""
    del request
    table = ("check", "place", "found"), health.rows
    return CommandOutput(health.to_json(), [table], [str(health)], exit_code(health.ok))
