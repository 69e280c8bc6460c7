"""The panels of a run's configuration and plan."""

from __future__ import annotations

from mllm_jax.config.load import ExperimentConfig, to_yaml
from mllm_jax.config.strict_yaml import write_yaml
from mllm_jax.pages.html.markup import Markup, facts, joined, table, tag
from mllm_jax.pages.html.panel import Panel
from mllm_jax.pages.html.words import number
from mllm_jax.pages.run.files import RunFiles
from sharding.grid import JointGrid
from sharding.plan import AXES


def plan(run: RunFiles) -> Panel:
    """Degrees of every module over the devices, and the grid that refines them."""
    content = Markup()
    if run.config:
        own = run.config.parallel
        pairs = [
            ("devices", f"{own.devices} {own.platform}"),
            ("microbatches of a step", str(run.config.train.accumulate)),
            ("rows of a microbatch", str(run.config.data.rows)),
            ("balance", run.config.data.balance),
        ]
        rows = [(name, *(getattr(one, axis) for axis in AXES)) for name, one in own.plans.items()]
        grid = JointGrid.build(own.plans, run.config.model.decoder.kv_heads)
        parts = [facts(pairs), table(("module", *AXES), rows), tag("pre", str(grid))]
        content = joined(parts)
    told = "Degrees of every module over the same devices, and the grid that refines all plans."
    return Panel("plan", "Plan", content, run.trouble, told)


def configuration(run: RunFiles) -> Panel:
    """Keys that differ from their defaults, and all of them."""
    content = Markup()
    if run.config:
        own = write_yaml(run.config.model_dump(mode="json", exclude_defaults=True))
        whole = tag("details", tag("summary", "All keys"), tag("pre", to_yaml(run.config)))
        content = joined((_size(run.config), tag("pre", own), whole))
    told = "Keys whose values are not the defaults."
    return Panel("configuration", "Configuration", content, run.trouble, told, wide=True)


def _size(config: ExperimentConfig) -> Markup:
    """The size of the model and of the training."""
    from mllm_jax.models.work.profile import tower_parameters

    towers = tower_parameters(config.model)
    pairs = [(f"{name} parameters", number(count)) for name, count in towers.items()]
    return facts([*pairs, ("steps", str(config.train.steps)), ("seed", str(config.train.seed))])
