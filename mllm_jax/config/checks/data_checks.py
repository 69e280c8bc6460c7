"""Checks of sources against the model, for commands that read samples."""

from __future__ import annotations

from collections.abc import Iterator

from data.config import DataConfig, DemoSource, MixtureSource
from mllm_jax.config.inputs import media_specs
from mllm_jax.config.sections import ConfigError, ExperimentConfig

#: Kinds of media of the demo set; each sample has one of them.
DEMO_KINDS = ("image", "audio")


def check_demo_media(config: ExperimentConfig) -> None:
    """Check that the model can train on the demo set, whose every sample has media.

    Raises:
        ConfigError: no encoder takes a medium of the demo set; or, with `data.on_error: raise`,
            none takes one of its two kinds.
    """
    kinds_of_model = {kind for spec in media_specs(config.model) for kind in spec.kinds}
    missing = [kind for kind in DEMO_KINDS if kind not in kinds_of_model]
    is_strict = config.data.on_error == "raise"
    keys = [*_demo_keys(config.data)]
    if keys and (len(missing) == len(DEMO_KINDS) or (missing and is_strict)):
        reason = f"demo has images and audio, but no encoder takes {' or '.join(missing)}"
        valid = f"a model with an encoder of {' or '.join(missing)}, or another kind of source"
        skip = ", or data.on_error skip" if len(missing) < len(DEMO_KINDS) else ""
        raise ConfigError("data", [f"{key}: {reason}; valid: {valid}{skip}" for key in keys])


def _demo_keys(config: DataConfig) -> Iterator[str]:
    """Keys that name the kind of a source which is the demo set."""
    if isinstance(config.source, DemoSource):
        yield "data.source.kind"
    elif isinstance(config.source, MixtureSource):
        for name, member in config.source.members.items():
            if isinstance(member.source, DemoSource):
                yield f"data.source.members.{name}.source.kind"
