"""Which encoders the media of a sample go to, by `data.routes` and by what records say."""

from __future__ import annotations

from collections.abc import Mapping

from data.config import DataConfig
from data.faults import FaultKind
from data.rows.spec import Kind, MediaRowSpec
from data.sample import DataError, MediaError, Sample


class MediaRoutes:
    """The routes between the encoders of a model.

    Args:
        config: configuration of the data.
        encoders: row specs of whole encoders, by name.

    Attributes:
        by_kind: by kind of media, the encoders that take it.

    Raises:
        DataError: a route names an encoder that does not exist, or takes no such media.
    """

    def __init__(self, config: DataConfig, encoders: Mapping[str, MediaRowSpec]) -> None:
        self._config, self._encoders = config, encoders
        self.by_kind: dict[Kind, list[MediaRowSpec]] = {}
        for spec in encoders.values():
            for kind in spec.kinds:
                self.by_kind.setdefault(kind, []).append(spec)
        self._defaults = {kind: self._default_encoders(kind) for kind in self.by_kind}

    def encoders_of(self, sample: Sample, kind: Kind) -> list[tuple[MediaRowSpec, ...]]:
        """The encoders that each medium of a kind goes to. Raises MediaError."""
        default, named = self._defaults[kind], sample.encoders.get(kind, ())
        names = named or (None,) * len(sample.of(kind))
        return [default if name is None else (self._encoder_named(kind, name),) for name in names]

    def places_of(self, sample: Sample) -> dict[str, list[tuple[Kind, int]]]:
        """The media that each encoder takes, if it takes any: kinds, and indices among these.

        Raises:
            MediaError: a record names an encoder that does not take its medium; or an encoder of
                which an objective reads one output takes several media, or none.
        """
        encoders = {kind: self.encoders_of(sample, kind) for kind in self.by_kind}
        media = {
            name: [
                (kind, number)
                for kind in spec.kinds
                for number, specs in enumerate(encoders[kind])
                if spec in specs
            ]
            for name, spec in self._encoders.items()
        }
        for name, places in media.items():
            if self._encoders[name].one_per_sample and len(places) != 1:
                raise MediaError(
                    FaultKind.MEDIA,
                    f"{len(places)} media of {name}, of which an objective reads one; valid: one "
                    f"{' or '.join(self._encoders[name].kinds)} in every sample",
                )
        return {name: places for name, places in media.items() if places}

    def _default_encoders(self, kind: Kind) -> tuple[MediaRowSpec, ...]:
        """Encoders that take a medium whose record names none. Raises DataError."""
        names, specs = self._config.route_of(kind).encoders, self.by_kind[kind]
        known = {spec.name: spec for spec in specs}
        for name in names or ():
            if name not in known:
                raise DataError(
                    f"data.routes.{kind}.encoders: {name!r} takes no {kind}; valid: "
                    f"{', '.join(known)}"
                )
        return tuple(specs) if names is None else tuple(known[name] for name in names)

    def _encoder_named(self, kind: Kind, name: str) -> MediaRowSpec:
        spec = self._encoders.get(name)
        if spec is None or kind not in spec.kinds:
            valid = ", ".join(other.name for other in self.by_kind[kind])
            text = f"{with_article(kind)} is for the encoder {name!r}, which takes none; valid: "
            raise MediaError(FaultKind.MEDIA, text + valid)
        return spec


def with_article(kind: Kind) -> str:
    """`an image`, or `a video`."""
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def check_same_tokens(
    kind: Kind, spec: MediaRowSpec, first: MediaRowSpec, tokens: list[int], others: list[int]
) -> None:
    """Raise MediaError unless two encoders make the same tokens of a medium."""
    if tokens != others:
        raise MediaError(
            FaultKind.MEDIA,
            f"{first.name} and {spec.name} make {len(tokens)} and {len(others)} tokens of "
            f"{with_article(kind)}, which cannot be added up; valid: data.routes.{kind}.join "
            "tokens, or encoders and connectors that make as many",
        )
