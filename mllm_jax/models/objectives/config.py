"""Typed configuration of objectives, and the table of their kinds; nothing here loads jax.

An objective is learnt from the outputs of the edges that end in it. Its loss is a class in this
folder, and what it needs of a sample is a `data.targets.TargetSpec`; the table names both. See
docs/extending/objective.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, SerializeAsAny, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticKnownError

from mllm_jax.families.family import load_reference
from mllm_jax.layers.config.parts import ConfigChoice, Section

#: Features of an output: those of a module.
AS_THEY_ARE = 0


class ObjectiveConfig(Section):
    """Keys of all objectives.

    Args:
        kind: kind of the objective, or `module:NAME` of one's own; see
            docs/extending/objective.md.
        weight: factor of its loss in the sum over objectives.
    """

    #: What the loss waits for: the outputs of a microbatch, or of all microbatches of a step.
    scope: ClassVar[Literal["microbatch", "step"]] = "microbatch"
    #: Whether it reads the outputs of all tokens, or one of every sample.
    reads_tokens: ClassVar[bool] = False
    #: Number of edges that end in it.
    sources: ClassVar[int] = 1
    #: Whether held-out samples tell how often the nearest partner of an output is its own.
    retrieves: ClassVar[bool] = False
    #: Number of its parameters besides those of its edges.
    parameters: ClassVar[int] = 0

    kind: str
    weight: float = Field(1.0, gt=0)

    @property
    def width(self) -> int:
        """Features that every edge brings."""
        raise NotImplementedError

    @property
    def spec_options(self) -> Mapping[str, int]:
        """Arguments of its `TargetSpec` besides the name and the media."""
        return {}


class NextTokenConfig(ObjectiveConfig):
    """The next token of every answer."""

    reads_tokens: ClassVar[bool] = True

    kind: Literal["next_token"] = "next_token"

    @property
    def width(self) -> int:
        """Those of the backbone, whose head is the vocabulary's."""
        return AS_THEY_ARE


class ClassificationConfig(ObjectiveConfig):
    """The class of a sample, one of several, by their cross entropy.

    Args:
        classes: number of classes; the label of a sample is a number below it.
    """

    kind: Literal["classification"]
    classes: int = Field(ge=2)

    @property
    def width(self) -> int:
        """A logit for each class."""
        return self.classes

    @property
    def spec_options(self) -> Mapping[str, int]:
        """See `ObjectiveConfig.spec_options`."""
        return {"classes": self.classes}


class RegressionConfig(ObjectiveConfig):
    """Numbers of a sample, by the mean of their squared errors.

    Args:
        values: how many numbers a sample has.
    """

    kind: Literal["regression"]
    values: int = Field(ge=1)

    @property
    def width(self) -> int:
        """A prediction of each number."""
        return self.values

    @property
    def spec_options(self) -> Mapping[str, int]:
        """See `ObjectiveConfig.spec_options`."""
        return {"count": self.values}


class ContrastiveConfig(ObjectiveConfig):
    """Two outputs of a sample find each other among those of all samples of a step.

    As in CLIP (arXiv 2103.00020, figure 3): the outputs are normalized, and the cosines of all
    pairs, divided by a learned temperature, are logits of cross entropies both ways.

    Args:
        dimensions: features of the outputs that are compared.
        temperature: initial value of the temperature.
    """

    scope: ClassVar[Literal["microbatch", "step"]] = "step"
    sources: ClassVar[int] = 2
    retrieves: ClassVar[bool] = True
    parameters: ClassVar[int] = 1

    kind: Literal["contrastive"]
    dimensions: int = Field(gt=0)
    temperature: float = Field(0.07, gt=0)

    @property
    def width(self) -> int:
        """`dimensions`."""
        return self.dimensions


@dataclass(frozen=True)
class ObjectiveKind:
    """A kind of objective.

    Attributes:
        config: class of its configuration.
        loss: reference to its `Objective`, a class that is called with the configuration.
        targets: reference to its `TargetSpec`, a class that is called with the name of the
            objective, the kinds of media of which a sample has one, and `spec_options`.
    """

    config: type[ObjectiveConfig]
    loss: str
    targets: str


_HERE = __name__.rpartition(".")[0]
#: All kinds of objectives.
KINDS: Mapping[str, ObjectiveKind] = MappingProxyType(
    {
        "next_token": ObjectiveKind(
            NextTokenConfig, f"{_HERE}.next_token:NextToken", "data.targets:NextTokenSpec"
        ),
        "classification": ObjectiveKind(
            ClassificationConfig, f"{_HERE}.classification:Classification", "data.targets:LabelSpec"
        ),
        "regression": ObjectiveKind(
            RegressionConfig, f"{_HERE}.regression:Regression", "data.targets:ValuesSpec"
        ),
        "contrastive": ObjectiveKind(
            ContrastiveConfig, f"{_HERE}.contrastive:Contrastive", "data.targets:PairSpec"
        ),
    }
)


def find_kind(name: str) -> ObjectiveKind:
    """The kind of a name in the table, or that which `module:NAME` refers to.

    Raises:
        ValueError: there is none; the message lists what is valid.
    """
    if name in KINDS:
        return KINDS[name]
    valid = f"valid: {', '.join(KINDS)}, or module:NAME of an ObjectiveKind"
    if ":" not in name:
        raise ValueError(f"{name!r} is no kind of objective; {valid}")
    try:
        kind = load_reference(name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"kind {name}: {error}; {valid}") from error
    if not isinstance(kind, ObjectiveKind):
        raise ValueError(f"kind {name} is {kind!r:.80}; {valid}")
    return kind


@dataclass(frozen=True)
class ObjectiveChoice(ConfigChoice):
    """Reads the configuration of an objective by the class of its kind."""

    def validate(self, value: Any, validate_base: ValidatorFunctionWrapHandler) -> Any:
        """Validate `value`; errors have the paths of its keys."""
        if not isinstance(value, Mapping):
            return validate_base(value)
        name = value.get("kind")
        if name is None:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": "'kind'"})
        return find_kind(str(name)).config.model_validate(value)

    def valid_classes(self) -> dict[str, type[ObjectiveConfig]]:
        """All classes that are valid, by the value of `kind`."""
        return {name: kind.config for name, kind in KINDS.items()}


OBJECTIVES = ObjectiveChoice()
AnyObjective = Annotated[
    ObjectiveConfig, SerializeAsAny(), WrapValidator(OBJECTIVES.validate), OBJECTIVES
]
