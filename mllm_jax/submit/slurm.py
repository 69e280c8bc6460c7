"""The script of a job of Slurm, which starts one process on each node and judges how it ends.

    submitted -> runs ---> 0, 2, 3, 4, 5 ........ ends for good
                  |---> 130 (limit) ............ is queued again, and goes on from its save
                  |---> 1, 6, 137, ... ......... likewise, at most `restarts` times
                  |---> cancelled .............. ends for good, once it has saved
                  `---> preempted, node lost ... Slurm itself queues the job again

The text depends on the job and the cluster alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.messages.secret import VARIABLE as SECRET
from mllm_jax.submit.backends import SlurmBackend
from mllm_jax.submit.job import FINAL, ClusterJob
from mllm_jax.supervise.agent import SUPERVISE

#: Ports from the first one on, of which each job has one by its number.
PORTS = 1000
#: Seconds between the end of one process and the end of the others, beside `hang_seconds`: they
#: find out by themselves, and say why.
END_SPREAD = 60
#: Times that the address of process 0 is looked for, and seconds between two of them.
TRIES, PAUSE = 6, 10
#: What a job always has of the environment in which it is submitted. With names in `--export` the
#: node adds the environment of a login there (sbatch, "--get-user-env").
PASSED = ("HOME", "PATH", "USER")
#: Name of the table of attempts in the folder of the run.
ATTEMPTS = "attempts.tsv"


def job_script(job: ClusterJob, cluster: SlurmBackend, python: str, root: Path) -> str:
    """The text of the script.

    Args:
        job: what to run.
        cluster: where to run it.
        python: the Python that runs `launch.py`, unless the cluster names another.
        root: folder of `launch.py`.
    """
    parts = (
        [
            "#!/usr/bin/env bash",
            f"# Run {job.name} on {job.nodes} nodes, written by launch.py submit.",
            f"# Made as {job.environment_file.name} beside this file says.",
            *(f"#SBATCH {option}" for option in sbatch_options(job, cluster)),
        ],
        [
            "set -u",
            "# SIGTERM is for the training, which saves and ends; this script sees how.",
            "trap : TERM",
            *_verdict_lines(job),
        ],
        [f"export {name}={shlex.quote(text)}" for name, text in cluster.environment.items()],
        _setup_lines(cluster),
        [*_secret_lines(), *_coordinator_lines()] if job.nodes > 1 else [],
        _launch_lines(job, cluster, cluster.python or python, root),
    )
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def sbatch_options(job: ClusterJob, cluster: SlurmBackend) -> Iterator[str]:
    """The options of sbatch."""
    log = str(job.folder).replace("%", "%%")
    values = {
        "--job-name": job.name,
        # By which a submission finds who has the folder.
        "--comment": _quote_value(str(job.folder)),
        "--partition": cluster.partition,
        "--account": cluster.account,
        "--qos": cluster.qos,
        "--time": cluster.time_limit,
        "--nodes": job.nodes,
        "--ntasks-per-node": 1,
        "--cpus-per-task": cluster.cpus_per_node,
        "--gres": _gpu_option(job, cluster) if job.platform == "gpu" else None,
        "--output": _quote_value(f"{log}/slurm-%j.out"),
        "--open-mode": "append",
        "--signal": f"TERM@{job.grace}",
        "--export": ",".join(dict.fromkeys((*PASSED, *cluster.pass_environment))),
    }
    yield from (f"{name}={value}" for name, value in values.items() if value is not None)
    yield "--requeue"
    if cluster.exclusive:
        yield from ("--exclusive", "--mem=0")
    yield from cluster.options


def _gpu_option(job: ClusterJob, cluster: SlurmBackend) -> str:
    kind = f":{cluster.gpu_type}" if cluster.gpu_type else ""
    return f"gpu{kind}:{job.devices}"


def _quote_value(text: str) -> str:
    """A value in a line of options, whose quotes are not the shell's.

    Folders with quotes are refused before (`mllm_jax.submit.job`).
    """
    return text if re.fullmatch(r"[\w@%+=:,./-]*", text) else f'"{text}"'


def _setup_lines(cluster: SlurmBackend) -> list[str]:
    """Lines that run the setup lines of the description, each of which must end with 0.

    They are run without this script's own options, under which many a script of others fails, and
    leave none of theirs behind.
    """
    if not cluster.setup:
        return []
    return [
        "setup=(",
        *(f"  {shlex.quote(line)}" for line in cluster.setup),
        ")",
        "shell_options=$(set +o)",
        'for setup_line in "${setup[@]}"; do',
        "  set +eu",
        '  eval "$setup_line" || exit',
        "done",
        "setup_line=",
        'eval "$shell_options"',
    ]


def _secret_lines() -> list[str]:
    """Lines that make the secret with which the processes of an attempt recognise each other."""
    random = "od -An -N32 -tx1 /dev/urandom | tr -d ' \\n'"
    return [f'export {SECRET}="${{{SECRET}:-$({random})}}"']


def _coordinator_lines() -> list[str]:
    """Lines that define a function to find the address of process 0.

    The last node is asked for the address of the first one: a machine may take its own name for a
    loopback address, which no other machine reaches. Slurm may start no step for some seconds on a
    node that has just come back, and `getent` ends with 2 both for a name that is unknown and for a
    name service that does not answer: all failures are tried again, and then the job is.
    """
    return [
        "find_address() {",
        "  local nodes name find found code try",
        '  nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))',
        '  name=$(scontrol --oneliner show node "${nodes[0]}" | grep -o " NodeAddr=[^ ]*")',
        "  name=${name#*=}",
        '  find=(srun --export=ALL --nodes=1 --ntasks=1 --nodelist="${nodes[-1]}")',
        f"  for try in {{1..{TRIES}}}; do",
        '    found=$("${find[@]}" getent ahosts "$name"); code=$?',
        "    ((code == 0)) && break",
        f"    sleep {PAUSE}",
        "  done",
        '  read -r address _ <<<"$found"',
        '  [[ $address == *:* ]] && address="[$address]"',
        "  ((code == 0)) && return",
        '  echo "error: ${nodes[-1]} finds no address of ${nodes[0]} ($name): $code" >&2',
        f"  return {ExitCode.FAILED:d}",
        "}",
    ]


def _launch_lines(job: ClusterJob, cluster: SlurmBackend, python: str, root: Path) -> list[str]:
    """Lines that run the training on all nodes."""
    words = job.training_command(python, str(root / "launch.py"), str(job.config_file))
    supervise = [
        "# Under proctrack/linuxproc SIGTERM reaches all processes: a training that is supervised",
        "# would hear it twice, and end before it has saved.",
        f"supervise={SUPERVISE}",
        "scontrol show config | grep -q 'ProctrackType *= proctrack/linuxproc' && supervise=",
    ]
    launcher = (
        *("srun", "--export=ALL", "--cpu-bind=none", "--kill-on-bad-exit=0"),
        f"--wait={round(job.hang_seconds) + END_SPREAD}",
        *cluster.launch_options,
    )
    begin = f"cd {shlex.quote(str(job.directory))} || exit {ExitCode.BAD_INPUT:d}"
    if job.nodes == 1:
        command = f"  {shlex.join(words)} $supervise"
        return [*supervise, begin, f"{shlex.join(launcher)} \\", command]
    return [
        *supervise,
        begin,
        f"port=$(({job.port} + SLURM_JOB_ID % {PORTS}))",
        f"find_address && {shlex.join(launcher)} \\",
        '  bash -c \'exec "$@" --process "$SLURM_PROCID"\' process \\',
        f"  {shlex.join(words)} \\",
        f'  --coordinator "$address:$port" {shlex.join(job.process_options)} $supervise',
    ]


def _verdict_lines(job: ClusterJob) -> list[str]:
    """Lines that report the end of the attempt, and queue the job again if it should restart."""
    attempts = shlex.quote(str(job.folder / ATTEMPTS))
    final = " | ".join(str(int(code)) for code in (ExitCode.OK, *FINAL))
    interrupted = int(ExitCode.INTERRUPTED)
    return [
        "verdict() {",
        "  local code=$? recorded failed state",
        "  set +eu",
        "  if [[ $setup_line ]]; then",
        '    echo "error: setup: exit code $code of: $setup_line" >&2',
        f"    code={ExitCode.FAILED:d}",
        "  fi",
        f"  attempts={attempts}",
        '  printf "%s\\t%s\\t%s\\t%s\\t%s\\n" "$(date +%Y-%m-%dT%H:%M:%S%z)" "$SLURM_JOB_ID" \\',
        '    "${SLURM_RESTART_COUNT:-0}" "$code" "$SLURM_JOB_NODELIST" >>"$attempts"',
        "  recorded=$?",
        "  case $code in",
        f'    {final}) exit "$code" ;;',
        f"    {interrupted}) ;;",
        "    *)",
        '      failed=$(awk -F "\\t" -v job="$SLURM_JOB_ID" \\',
        f"        '$2 == job && $4 != {interrupted} {{n++}} END {{print n}}' \"$attempts\")",
        "      # Without a record every start counts as one after a failure.",
        "      ((recorded == 0 && failed > 0)) || failed=$((${SLURM_RESTART_COUNT:-0} + 1))",
        f"      if ((failed > {job.restarts})); then",
        f'        echo "error: failure $failed, exit code $code; restarts: {job.restarts}" >&2',
        '        exit "$code"',
        "      fi ;;",
        "  esac",
        "  # A job that was cancelled, or that Slurm queues again itself, does not run any more.",
        '  state=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T)',
        "  if [[ $state != RUNNING ]]; then",
        '    echo "exit code $code: job $SLURM_JOB_ID is $state, and not queued again" >&2',
        '    exit "$code"',
        "  fi",
        '  echo "exit code $code: job $SLURM_JOB_ID is queued again" >&2',
        '  scontrol requeue "$SLURM_JOB_ID" && exit 0',
        '  exit "$code"',
        "}",
        "setup_line=",
        "trap verdict EXIT",
    ]
