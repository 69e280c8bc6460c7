"""A family: the kinds of modules that a folder adds, and the formats of their releases.

`mllm_jax/families/<name>/__init__.py` has the family as `FAMILY`::

    FAMILY = Family(
        "siglip",
        {
            "siglip": FamilyModule(
                SiglipConfig,
                functions=f"{__name__}.model:FUNCTIONS",
                processor="mllm_jax.families.image_processor:make_row_spec",
            )
        },
        formats=f"{__name__}.release:FORMATS",
    )

Importing a folder loads the classes of its configurations and nothing that computes. Everything
else is referred to by `module:attribute`, and imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any

from mllm_jax.layers.config.module import ModuleConfig

#: A mapping of nothing.
NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class FamilyModule:
    """A kind of module.

    Attributes:
        config: class of its configuration.
        functions: reference to its `ModuleFunctions`, which need jax; None: those of all decoders.
        processor: reference to a function of the module's name, its configuration and the
            decoder's, which makes the description of the module's media for the data pipeline;
            None for a module of tokens. A loader's worker unpickles the description: it must not
            import jax.
    """

    config: type[ModuleConfig]
    functions: str | None = None
    processor: str | None = None


@dataclass(frozen=True)
class Family:
    """A family of models.

    Attributes:
        name: name of the family, which is that of its folder.
        modules: kinds of modules by the value of `family` in a configuration: the family's name,
            or `<family>.<module>` if there are several. Empty for a release that is made of
            modules of other families, such as LLaVA.
        formats: reference to a tuple of `ReleaseFormat`, besides that of `decoder`; None: no other.
        decoder: reference to the `DecoderRelease` of a family of decoders, which are released alone
            and in multimodal models; None for other families and those without a release.
        released_processors: references to `MediaSettings` by the name of a class of processors, as
            `preprocessor_config.json` of a release says it. They must not import jax.
        placeholders: tokens of media by kind, by the class of the processor of all media, which
            has them if its files name none.
    """

    name: str
    modules: Mapping[str, FamilyModule] = field(default_factory=lambda: NONE)
    formats: str | None = None
    decoder: str | None = None
    released_processors: Mapping[str, str] = field(default_factory=lambda: NONE)
    placeholders: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: NONE)

    def __post_init__(self) -> None:
        """Refuse modules that a configuration could not name."""
        for module in self.modules:
            if module.partition(".")[0] != self.name:
                raise ValueError(
                    f"module {module!r} of family {self.name!r}; valid: {self.name!r}, or "
                    f"'{self.name}.' and a name"
                )


def load_reference(reference: str) -> Any:
    """The value that `module:attribute` names.

    Raises:
        ImportError: there is no such module.
        AttributeError: the module has no such attribute.
    """
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)
