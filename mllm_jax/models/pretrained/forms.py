"""The released form of a model that did not come from a release, or why there is none."""

from __future__ import annotations

from typing import Any, get_args

from mllm_jax.families.releases import formats
from mllm_jax.hf_format.files import OtherModulesError, PretrainedError
from mllm_jax.hf_format.release_format import ReleasedModel, ReleaseFormat

#: Forms that are told as near ones, at most.
_NEAR = 3


def form_of(composition: ReleasedModel, first: ReleaseFormat | None = None) -> ReleaseFormat:
    """The first form that takes the modules.

    Args:
        first: the form that is tried before the others.

    Raises:
        PretrainedError: there is none; says of each form of the same modules, or else of the
            nearest ones, what differs.
    """
    reasons = dict[str, str]()
    for family in dict.fromkeys([*([first] if first else []), *formats().values()]):
        try:
            family.write_config(composition)
        except OtherModulesError:
            continue
        except PretrainedError as error:
            reasons.setdefault(str(error), family.name)
        else:
            return family
    told = [f"{name}: {reason}" for reason, name in reasons.items()] or _nearest(composition)
    raise PretrainedError("; ".join(told))


def _nearest(composition: ReleasedModel) -> list[str]:
    """The forms that differ in fewest modules, with what they have in place of the model's."""
    found = {family: _others(composition, family) for family in formats().values()}
    ordered = sorted(found, key=lambda own: (len(found[own]), -len(own.modules)))
    fewest = len(found[ordered[0]])
    near = [own for own in ordered if len(found[own]) == fewest][:_NEAR]
    return [f"{own.name} has {', '.join(found[own])}" for own in near]


def _others(composition: ReleasedModel, family: ReleaseFormat) -> list[str]:
    """What a form has in place of the modules of a model."""
    own, theirs = composition.configs, family.modules
    names = [*own, *(name for name in theirs if name not in own)]
    return [
        f"{_called(name, theirs.get(name))} where the model has {_family(own[name])}"
        if name in own
        else f"{_called(name, theirs[name])}, which the model lacks"
        for name in names
        if name not in theirs or name not in own or not isinstance(own[name], theirs[name])
    ]


def _called(name: str, kind: type[Any] | None) -> str:
    """A module of a form, by the values that `family` may have."""
    if kind is None:
        return f"no {name}"
    field = getattr(kind, "model_fields", {}).get("family")
    families = [str(own) for own in get_args(field.annotation)] if field else []
    return f"{name} {' or '.join(families)}".strip()


def _family(module: Any) -> str:
    return str(getattr(module, "family", type(module).__name__))
