"""AIMv2's vision transformer (arXiv 2411.14402)."""

from mllm_jax.families.family import Family, FamilyModule

from .config import Aimv2Config

FAMILY = Family(
    "aimv2",
    {
        "aimv2": FamilyModule(
            Aimv2Config,
            functions=f"{__name__}.model:FUNCTIONS",
            processor="mllm_jax.families.image_processor:make_row_spec",
        )
    },
    formats=f"{__name__}.release:FORMATS",
)
