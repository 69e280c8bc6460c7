"""ViT-22B (arXiv 2302.05442)."""

from mllm_jax.families.family import Family, FamilyModule
from mllm_jax.families.vit22b.config import Vit22bConfig

FAMILY = Family(
    "vit22b",
    {
        "vit22b": FamilyModule(
            Vit22bConfig,
            functions=f"{__name__}.model:FUNCTIONS",
            processor="mllm_jax.families.image_processor:make_row_spec",
        )
    },
)
