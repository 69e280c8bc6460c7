"""Options of sbatch and srun that a description of a cluster may not give.

The script of a job gives them itself, from the plan and the keys of the description; a second one
would undo the first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

_NODES = "--nodes of submit"
_WITH_ALL = "left out, as a job whose first node is lost would go on without its script"

#: Of sbatch, each with what says the same, or nothing.
OF_THE_JOB: Mapping[str, str] = MappingProxyType(
    {
        "--job-name": "run.name",
        "--comment": "",  # the run's folder, by which a second submission finds the job
        "--partition": "the key partition",
        "--account": "the key account",
        "--qos": "the key qos",
        "--time": "the key time_limit",
        "--nodes": _NODES,
        "--cpus-per-task": "the key cpus_per_node",
        "--signal": "the key grace_seconds",
        "--exclusive": "the key exclusive",
        **dict.fromkeys(("--export", "--export-file"), "the key pass_environment"),
        **dict.fromkeys(("--ntasks", "--ntasks-per-node", "--array", "--wrap", "--chdir"), ""),
        **dict.fromkeys(("--output", "--error", "--open-mode", "--requeue", "--no-requeue"), ""),
        "--no-kill": _WITH_ALL,
    }
)
#: Of srun, which starts one process on each node of the job.
OF_THE_STEP: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("--nodes", "-N"), _NODES),
        **dict.fromkeys(("--exclude", "-x"), "--exclude among the options"),
        "--export": "the key pass_environment",
        **dict.fromkeys(("--ntasks", "-n", "--ntasks-per-node", "--nodelist", "-w"), ""),
        **dict.fromkeys(("--relative", "-r", "--multi-prog", "--chdir", "-D"), ""),
        **dict.fromkeys(("--kill-on-bad-exit", "-K"), ""),
        **dict.fromkeys(("--no-kill", "-k"), _WITH_ALL),
    }
)


def explain_refusal(option: str, reserved: Mapping[str, str]) -> str | None:
    """The reason why an option is refused; None if it is accepted.

    Args:
        option: option with its value.
        reserved: `OF_THE_JOB` or `OF_THE_STEP`.
    """
    for name, instead in reserved.items():
        if names_option(option, name):
            return (
                f"{option} is refused: the job sets {name} itself; valid: {instead or 'left out'}"
            )
    return None


def names_option(option: str, name: str) -> bool:
    """Whether an option is the one of that name: a long one may be cut short, as in `--part=gpu`,
    and a short one has its value at once, as in `-N2`."""
    if not name.startswith("--"):
        return option.startswith(name)
    written = re.split("[= ]", option)[0]
    return written.startswith("--") and name.startswith(written)
