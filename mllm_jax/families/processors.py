"""What all families know of the processors of released models."""

from __future__ import annotations

from collections.abc import Mapping

from data.hf_format.media import MediaSettings, ReleasedProcessors
from mllm_jax.families import registry
from mllm_jax.families.family import load_reference


def released_processors() -> ReleasedProcessors:
    """The classes of processors of all families; imports their processors, which need no jax.

    Raises:
        TypeError: what a family names is no class of settings.
    """
    families = [registry.find_family(name) for name in registry.family_names()]
    media, placeholders = dict[str, type[MediaSettings]](), dict[str, Mapping[str, str]]()
    for family in families:
        for name, reference in family.released_processors.items():
            media[name] = _load_settings(reference)
        placeholders.update(family.placeholders)
    return ReleasedProcessors(media, placeholders)


def _load_settings(reference: str) -> type[MediaSettings]:
    settings = load_reference(reference)
    if not (isinstance(settings, type) and issubclass(settings, MediaSettings)):
        raise TypeError(f"{reference} is {settings!r:.80}; valid: a class of MediaSettings")
    return settings
