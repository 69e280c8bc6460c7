"""The type of a key whose value is the configuration of a module of any family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import SerializeAsAny, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticKnownError

from mllm_jax.families import registry
from mllm_jax.layers.config.connector import MergedOutputs
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.encoder import EncoderConfig
from mllm_jax.layers.config.module import ModuleConfig
from mllm_jax.layers.config.parts import ConfigChoice, Section

#: The key that names the family.
KEY = "family"


@dataclass(frozen=True)
class FamilyChoice(ConfigChoice):
    """Reads the configuration of a module by the class of the family that it names.

    Attributes:
        base: class of all configurations that are valid.
        default: family of values that name none; None: they must name one.
        edge: class of the keys that such a section has beside those of the module, which are read
            as keys of its edge into the backbone; None without any.
    """

    base: type[Section]
    default: str | None = None
    edge: type[Section] | None = None

    def validate(self, value: Any, validate_base: ValidatorFunctionWrapHandler) -> Any:
        """Validate `value`; errors have the paths of its keys."""
        if not isinstance(value, Mapping):
            return validate_base(value)
        name = self.default if value.get(KEY) is None else value[KEY]
        if name is None:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": repr(KEY)})
        return self._class_named(name).model_validate(value)

    def _class_named(self, name: Any) -> type[ModuleConfig]:
        try:
            config = registry.find_module(name).config if isinstance(name, str) else None
        except registry.UnknownFamilyError:
            config = None
        if config is None or not issubclass(config, self.base):
            expected = ", ".join(map(repr, self.valid_classes()))
            context = {"discriminator": repr(KEY), "tag": str(name), "expected_tags": expected}
            raise PydanticKnownError("union_tag_invalid", context)
        return config

    def listed_classes(self) -> list[type[Section]]:
        """See `ConfigChoice.listed_classes`."""
        return [*super().listed_classes(), *([self.edge] if self.edge else [])]

    def valid_classes(self) -> dict[str, type[ModuleConfig]]:
        """All classes that are valid, by the value of `family`."""
        modules = registry.iterate_modules()
        return {
            name: family.config for name, family in modules if issubclass(family.config, self.base)
        }


DECODERS = FamilyChoice(DecoderConfig, default="llama")
ENCODERS = FamilyChoice(EncoderConfig, edge=MergedOutputs)
AnyDecoder = Annotated[DecoderConfig, SerializeAsAny(), WrapValidator(DECODERS.validate), DECODERS]
AnyEncoder = Annotated[EncoderConfig, SerializeAsAny(), WrapValidator(ENCODERS.validate), ENCODERS]
ANY = FamilyChoice(ModuleConfig, edge=MergedOutputs)
AnyModule = Annotated[ModuleConfig, SerializeAsAny(), WrapValidator(ANY.validate), ANY]
