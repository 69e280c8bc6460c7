"""Whisper (arXiv 2212.04356)."""

from mllm_jax.families.family import Family, FamilyModule
from mllm_jax.families.whisper.config import WhisperConfig

FAMILY = Family(
    "whisper",
    {
        "whisper": FamilyModule(
            WhisperConfig,
            functions=f"{__name__}.model:FUNCTIONS",
            processor=f"{__name__}.processor:make_row_spec",
        )
    },
    formats=f"{__name__}.release:FORMATS",
    released_processors={"WhisperFeatureExtractor": f"{__name__}.processor:AudioSettings"},
)
