"""The figures of a report as one list of named numbers, for TensorBoard and for dashboards."""

from __future__ import annotations

from dataclasses import asdict

from mllm_jax.train.records.metrics import StepsReport, content_name, phase_name


def report_scalars(report: StepsReport) -> dict[str, float]:
    """Every known figure, by a name with its group: `train/loss`."""
    values = asdict(report)
    padding, imbalance = values.pop("padding"), values.pop("imbalance")
    aux, experts = values.pop("aux"), values.pop("experts")
    trust, counts = values.pop("trust_ratios"), values.pop("encoder_microbatches")
    for name in ("step", "steps", "eta_seconds"):
        values.pop(name)
    known: dict[str, float] = {
        f"train/{name}": value for name, value in values.items() if value is not None
    }
    known |= {f"aux/{name}": value for name, value in aux.items()}
    known |= {f"trust_ratio/{name}": value for name, value in trust.items()}
    known |= {
        f"experts_{name}/{load['layer']}": load[name]
        for load in experts
        for name in ("imbalance", "entropy")
    }
    known |= {f"encoder_microbatches/{name}": count for name, count in counts.items()}
    known |= {f"padding/{content_name(name)}": share for name, share in padding.items()}
    known |= {
        f"imbalance_{when}/{phase_name(name)}": value
        for name, values in imbalance.items()
        for when, value in values.items()
    }
    return known
