"""SigLIP (arXiv 2303.15343) and SigLIP 2 (arXiv 2502.14786)."""

from mllm_jax.families.family import Family, FamilyModule
from mllm_jax.families.siglip.config import SiglipConfig

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
    released_processors={
        "SiglipImageProcessor": f"{__name__}.processor:SiglipImages",
        "Siglip2ImageProcessor": f"{__name__}.processor:Siglip2Images",
    },
)
