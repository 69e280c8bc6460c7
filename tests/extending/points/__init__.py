"""An encoder of point clouds, the kind of media of docs/extending/media.md."""

from mllm_jax.families.family import Family, FamilyModule

from .config import PointsConfig

FAMILY = Family(
    "points",
    {
        "points": FamilyModule(
            PointsConfig,
            functions=f"{__name__}.model:FUNCTIONS",
            processor=f"{__name__}.processor:make_row_spec",
        )
    },
)
