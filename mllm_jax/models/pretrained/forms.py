"""The released form of a model that did not come from a release, or why there is none."""

from __future__ import annotations

from typing import Any, get_args

from mllm_jax.families.releases import release_formats
from mllm_jax.hf_format.files import OtherModulesError, PretrainedError
from mllm_jax.hf_format.release_format import ReleasedModel, ReleaseFormat

#: Most forms that are named as near ones.
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
    for family in dict.fromkeys([*([first] if first else []), *release_formats().values()]):
        try:
            family.write_config(composition)
        except OtherModulesError:
            continue
        except PretrainedError as error:
            reasons.setdefault(str(error), family.name)
        else:
            return family
    problems = [f"{name}: {reason}" for reason, name in reasons.items()] or _describe_nearest(
        composition
    )
    raise PretrainedError("; ".join(problems))


def _describe_nearest(composition: ReleasedModel) -> list[str]:
    """The forms that differ in fewest modules, with what they have in place of the model's."""
    differences = {
        family: _list_differences(composition, family) for family in release_formats().values()
    }
    ordered = sorted(
        differences,
        key=lambda near_format: (len(differences[near_format]), -len(near_format.modules)),
    )
    fewest = len(differences[ordered[0]])
    near = [near_format for near_format in ordered if len(differences[near_format]) == fewest][
        :_NEAR
    ]
    return [f"{near_format.name} has {', '.join(differences[near_format])}" for near_format in near]


def _list_differences(composition: ReleasedModel, family: ReleaseFormat) -> list[str]:
    """What a form has in place of the modules of a model."""
    configs, theirs = composition.configs, family.modules
    names = [*configs, *(name for name in theirs if name not in configs)]
    return [
        f"{_describe_module(name, theirs.get(name))} where the model has "
        f"{_family_of(configs[name])}"
        if name in configs
        else f"{_describe_module(name, theirs[name])}, which the model lacks"
        for name in names
        if name not in theirs or name not in configs or not isinstance(configs[name], theirs[name])
    ]


def _describe_module(name: str, kind: type[Any] | None) -> str:
    """A module of a form, by the values that `family` may have."""
    if kind is None:
        return f"no {name}"
    field = getattr(kind, "model_fields", {}).get("family")
    families = [str(family) for family in get_args(field.annotation)] if field else []
    return f"{name} {' or '.join(families)}".strip()


def _family_of(module: Any) -> str:
    return str(getattr(module, "family", type(module).__name__))
