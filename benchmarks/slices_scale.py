"""Ways to use the idle time of 8 to 64 devices, simulated: which of them wins for which model.

====================  ============================================================================
`one group`           all modules on all devices, one at a time
`slices`              groups of modules with quotas of all devices (Mosaic)
`own devices`         groups with devices of their own (disaggregated: DistTrain, Cornstarch)
`bubbles`             a pipeline whose bubbles the encoders fill
`mixture`             one group whose encoders compute what media there are, not what may be
====================  ============================================================================

The rows of a step are the same on all devices, so that a device has the less to do the more there
are. Costs are counted, not measured (`scheduling.simulate.groups.estimate`). Bubbles are of the
plan search, and compared with its plans without stages: it counts no idle cores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

from benchmarks.pipeline import PrintLine, Row
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.load import ExperimentConfig, load_config
from mllm_jax.plan.groups.planner import GroupPlanner
from mllm_jax.plan.planner import PlanSearch
from scheduling.costs.slices import ModuleTasks, SliceCosts
from scheduling.search.groups.search import GroupSearch
from scheduling.search.space import Space, with_stages
from scheduling.simulate.groups.plan import GroupPlan
from scheduling.simulate.groups.step import GroupRun, simulate_groups

CONFIGS = Path(__file__).resolve().parents[1] / "configs" / "slices" / "scale"
#: Models from small to large, and numbers of H100.
MODELS = ("towers", "edge", "middle", "large")
DEVICES = (8, 16, 32, 64)
#: Quotas of slices.
QUOTAS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9)
#: Media of a step over the most that there may be: of mixtures 1:9 to 9:1 with text.
SHARES = tuple(part / 9 for part in range(1, 10))
#: Share by which searched pipelines may miss the fastest.
WITHIN = 0.1
#: Speed-ups over one group, by their names.
WAYS = ("slices", "own devices", "bubbles", "mixture")
#: A speed-up below it is none.
LEAST = 1.02


def bench_slices_scale(
    config: ExperimentConfig,
    print_line: PrintLine = lambda line: None,
    image: str | None = None,
) -> list[Row]:
    """Speed-ups over one group, for every model and number of devices.

    Returns:
        Rows of `model`, `devices`, `seconds` of one group, the speed-ups of `WAYS` (None of what
        cannot be), `wins`, the largest of them, and `plan`, the fastest groups.

    Args:
        config: not used; every model has a configuration of its own.
        print_line: prints a line of progress.
        image: file of a picture to be drawn.
    """
    rows = []
    for model in MODELS:
        for devices in DEVICES:
            print_line(f"{model} on {devices} devices")
            rows.append(_compare_ways(model, devices))
    if image is not None:
        _draw_picture(rows, Path(image))
    return rows


def _compare_ways(model: str, devices: int) -> Row:
    planner = _planner_of(model, devices)
    single = planner.simulate_single()
    slices, ranges = _search_slices(planner), planner.search_ranges()
    gains = {
        "slices": _speed_up(single, slices),
        "own devices": _speed_up(single, ranges),
        "bubbles": _bubble_gain(planner),
        "mixture": _mixture_gain(planner, single.plan),
    }
    runs = [single, *(run for run in (slices, ranges) if run is not None)]
    return {
        "model": model,
        "devices": devices,
        "seconds": single.seconds,
        **gains,
        "wins": _name_winner(gains),
        "plan": str(min(runs, key=lambda run: run.seconds).plan),
    }


def _planner_of(model: str, devices: int) -> GroupPlanner:
    changes = [f"parallel.devices={devices}"]
    config = load_config(CONFIGS / f"{model}.yaml", changes, planned=False)
    return GroupPlanner(config, load_hardware("h100"), quotas=QUOTAS)


def _search_slices(planner: GroupPlanner) -> GroupRun | None:
    space = replace(planner.space, ranges=False, least=2)
    return GroupSearch(planner.costs, space).search_plans()


def _speed_up(single: GroupRun, run: GroupRun | None) -> float | None:
    return None if run is None else single.seconds / run.seconds


def _name_winner(gains: Mapping[str, float | None]) -> str:
    winners = {name: gain for name, gain in gains.items() if gain is not None and gain >= LEAST}
    return max(winners, key=lambda name: winners[name], default="none")


# ---- other ways ----------------------------------------------------------------------------------


def _bubble_gain(planner: GroupPlanner) -> float | None:
    """Speed-up of a pipeline with encoders in its bubbles over plans without stages.

    Rows are divided in both, as groups divide them.
    """
    search = PlanSearch(planner.config, planner.hardware, planner.hardware.name, within=WITHIN)
    space = replace(search.space, contexts=(1,), tensors=(1,), kinds=())
    staged = replace(with_stages(space, search.workload), placements=("bubbles",))
    plain = _fastest_seconds(search, replace(space, stages=(1,)))
    filled = _fastest_seconds(search, staged)
    return None if plain is None or filled is None else plain / filled


def _fastest_seconds(search: PlanSearch, space: Space) -> float | None:
    plans = search.search_plans(space=space).best
    return plans[0].seconds if plans else None


def _mixture_gain(planner: GroupPlanner, plan: GroupPlan) -> float | None:
    """Speed-up of encoders that compute what media there are, in the mean over mixtures.

    Losses over all samples of a step have no mixture.
    """
    costs = planner.costs
    if costs.graph.waits:
        return None
    scaled = (_scale_encoders(costs.slices, share) for share in SHARES)
    followed = (simulate_groups(replace(costs, slices=each, _known={}), plan) for each in scaled)
    return simulate_groups(costs, plan).seconds / mean(run.seconds for run in followed)


def _scale_encoders(costs: SliceCosts, share: float) -> SliceCosts:
    """Costs of encoders with a share of the media; the backbone's are the first."""
    first, *others = costs.modules
    scaled = {name: _scale_tasks(costs.modules[name], share) for name in others}
    return costs.model_copy(update={"modules": {first: costs.modules[first], **scaled}})


def _scale_tasks(module: ModuleTasks, share: float) -> ModuleTasks:
    tasks = {
        phase: task
        if phase == "update"
        else task.model_copy(update={"flops": share * task.flops, "traffic": share * task.traffic})
        for phase, task in module.tasks.items()
    }
    return module.model_copy(update={"tasks": tasks})


# ---- picture -------------------------------------------------------------------------------------


def _draw_picture(rows: Sequence[Row], path: Path) -> None:
    """Write the picture: a panel for each model, a line for each way."""
    # The drawing library is loaded only where something is drawn.
    from matplotlib.figure import Figure

    models = list(dict.fromkeys(str(row["model"]) for row in rows))
    figure = Figure(figsize=(3.0 * len(models) + 1, 3.4), layout="constrained")
    panels = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
    for panel, model in zip(panels, models, strict=True):
        of_model = [row for row in rows if row["model"] == model]
        for way in WAYS:
            some = [row for row in of_model if row[way] is not None]
            panel.plot([r["devices"] for r in some], [r[way] for r in some], "o-", label=way)
        panel.axhline(1.0, color="grey", linewidth=0.8)
        panel.set_title(model)
        panel.set_xscale("log", base=2)
        panel.set_xticks(DEVICES, [str(n) for n in DEVICES])
        panel.set_xlabel("devices")
    panels[0].set_ylabel("speed-up over one group")
    panels[0].legend(fontsize=8)
    figure.savefig(path, dpi=120)
