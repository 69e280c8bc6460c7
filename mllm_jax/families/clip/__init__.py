"""CLIP (arXiv 2103.00020)."""

from mllm_jax.families.clip.config import ClipConfig
from mllm_jax.families.family import Family, FamilyModule

FAMILY = Family(
    "clip",
    {
        "clip": FamilyModule(
            ClipConfig,
            functions=f"{__name__}.model:FUNCTIONS",
            processor="mllm_jax.families.image_processor:make_row_spec",
        )
    },
    formats=f"{__name__}.release:FORMATS",
    released_processors=dict.fromkeys(
        ("CLIPImageProcessor", "CLIPFeatureExtractor"), f"{__name__}.processor:ClipImages"
    ),
)
