"""The panels of a run's configuration and plan."""

from __future__ import annotations

from mllm_jax.config.load import ExperimentConfig, to_yaml
from mllm_jax.config.strict_yaml import write_yaml
from mllm_jax.pages.html.markup import Markup, join_markup, make_facts, make_table, make_tag
from mllm_jax.pages.html.panel import PagePanel
from mllm_jax.pages.html.words import format_number
from mllm_jax.pages.run.files import RunFiles
from sharding.grid import JointGrid
from sharding.plan import AXES


def plan_panel(run: RunFiles) -> PagePanel:
    """Degrees of every module over the devices, and the grid that refines them."""
    content = Markup()
    if run.config:
        parallel = run.config.parallel
        pairs = [
            ("devices", f"{parallel.devices} {parallel.platform}"),
            ("microbatches of a step", str(run.config.train.accumulate)),
            ("rows of a microbatch", str(run.config.data.rows)),
            ("balance", run.config.data.balance),
        ]
        rows = [
            (name, *(getattr(module_plan, axis) for axis in AXES))
            for name, module_plan in parallel.plans.items()
        ]
        grid = JointGrid.build(parallel.plans, run.config.model.backbone_config.kv_heads)
        parts = [make_facts(pairs), make_table(("module", *AXES), rows), make_tag("pre", str(grid))]
        content = join_markup(parts)
    explanation = (
        "Degrees of every module over the same devices, and the grid that refines all plans."
    )
    return PagePanel("plan", "Plan", content, run.trouble, explanation)


def configuration_panel(run: RunFiles) -> PagePanel:
    """Keys that differ from their defaults, and all of them."""
    content = Markup()
    if run.config:
        changed_keys = write_yaml(run.config.model_dump(mode="json", exclude_defaults=True))
        all_keys = make_tag(
            "details", make_tag("summary", "All keys"), make_tag("pre", to_yaml(run.config))
        )
        content = join_markup((_model_size(run.config), make_tag("pre", changed_keys), all_keys))
    explanation = "Keys whose values are not the defaults."
    return PagePanel("configuration", "Configuration", content, run.trouble, explanation, wide=True)


def _model_size(config: ExperimentConfig) -> Markup:
    """The size of the model and of the training."""
    from mllm_jax.models.work.profile import module_parameters

    parameters = module_parameters(config.model)
    pairs = [(f"{name} parameters", format_number(count)) for name, count in parameters.items()]
    return make_facts(
        [*pairs, ("steps", str(config.train.steps)), ("seed", str(config.train.seed))]
    )
