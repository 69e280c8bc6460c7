"""Descriptions of clusters: what they say, and what is refused."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.submit.backends import FOLDER, BackendError, backend_names, load_backend, read_backend
from tests.configs import ROOT
from tests.submit.jobs import KUBERNETES, slurm


def described(path: Path, **keys: object) -> Path:
    path.write_text(yaml.safe_dump(keys))
    return path


def refusal(path: Path, **keys: object) -> str:
    with pytest.raises(BackendError) as told:
        read_backend(described(path, **keys))
    return str(told.value)


@pytest.mark.parametrize("name", backend_names())
def test_a_shipped_description_names_its_command(name: str) -> None:
    assert load_backend(name) == load_backend(str(FOLDER / f"{name}.yaml"))
    head = (FOLDER / f"{name}.yaml").read_text().replace("\\\n#", " ")
    (command,) = re.findall(r"^#   command   (.*)$", head, re.MULTILINE)
    words = shlex.split(command)
    assert words[1:4] == ["launch.py", "submit", "--cluster"]
    assert words[4] == name
    assert (ROOT / words[words.index("--config") + 1]).is_file()


def test_what_is_unknown_is_refused_with_the_valid_choices(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    with pytest.raises(BackendError, match=r"--cluster pbs: unknown; valid: kubernetes, .*slurm"):
        load_backend("pbs")
    with pytest.raises(BackendError, match=r"mine.yaml: cannot be read"):
        load_backend(str(path))
    assert "kind: 'pbs' is refused; valid: slurm, kubernetes" in refusal(path, kind="pbs")
    assert "kind: required, but not given" in refusal(path, partition="gpu")
    said = refusal(path, kind="slurm", partion="gpu")
    assert "partion: unknown key; valid: devices_per_node, " in said
    assert "partition, " in said
    tpu = {"accelerator": "tpu-v5p-slice", "chips": 4}
    said = refusal(path, **KUBERNETES, tpu=tpu)
    assert "tpu.topology: required" in said
    assert "tpu.chips: unknown key; valid: accelerator, topology" in said
    assert "image: required" in refusal(path, kind="kubernetes")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("partition", "gpu\n#SBATCH --uid=0"),
        ("partition", "gpu cpu"),
        ("time_limit", "tomorrow"),
        ("devices_per_node", "8"),
        ("devices_per_node", 0),
        ("options", ["-p gpu"]),
        ("setup", ["module load cuda\nrm -r x"]),
        ("environment", {"A B": "1"}),
        ("environment", {"A": "1\n2"}),
        ("pass_environment", ["HOME,PATH=x"]),
        ("port", 80),
    ],
)
def test_values_that_would_say_more_than_they_may_are_refused(
    tmp_path: Path, key: str, value: object
) -> None:
    said = refusal(tmp_path / "mine.yaml", kind="slurm", **{key: value})
    assert f"mine.yaml: {key}" in said
    assert "is refused" in said


def test_a_number_for_a_text_is_refused_with_the_form_in_quotes(tmp_path: Path) -> None:
    said = refusal(tmp_path / "mine.yaml", kind="slurm", time_limit=60, environment={"A": 1})
    assert "time_limit: 60 is refused; valid: a text in quotes, of minutes, minutes:seco" in said
    assert "environment.A: 1 is refused; valid: a text in quotes, of one line of text" in said


@pytest.mark.parametrize(
    ("key", "value", "form"),
    [
        (
            "namespace",
            "My_Space",
            "1 to 63 of a to z, 0 to 9 and -, with a letter or digit at both",
        ),
        ("queue", "team-", "1 to 63 of a to z, 0 to 9 and -, with a letter or digit at both"),
        ("cluster_domain", "a..b", "labels with dots between them"),
        ("gpu_resource", "gpu", "DOMAIN/NAME, such as nvidia.com/gpu"),
        ("secrets", {"A": "hub"}, "SECRET/KEY, the name of a Secret and a key in it"),
        ("volumes", {"runs": "mine"}, "an absolute path of letters"),
        ("node_selector", {"my pool": "a"}, "1 to 63 letters, digits, -, _ and ., with a letter"),
        ("node_selector", {"A.com/pool": "a"}, "after a domain and / where it has one (example."),
        ("node_selector", {"pool": "a b"}, "empty, or 1 to 63 letters, digits, -, _ and ."),
        ("node_selector", {"pool": "x" * 64}, "empty, or 1 to 63 letters"),
        ("resources", {"rdma": 8}, "DOMAIN/NAME, such as rdma/ib, ephemeral-storage, or hugepage"),
        ("resources", {"rdma/ib": "some"}, "a whole number above 0, or bytes, such as 100Gi or"),
        ("annotations", {"a b": "1"}, "1 to 63 letters, digits, -, _ and ., with a letter or dig"),
        ("priority_class", "High!", "labels with dots between them"),
        ("image_pull_secrets", ["My_Key"], "labels with dots between them"),
        ("tolerations", ["gpu present"], "KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT as in ku"),
        ("tolerations", ["gpu:NoWay"], "EFFECT NoSchedule, PreferNoSchedule, NoExecute"),
        ("tolerations", ["gpu=a/b:NoSchedule"], "VALUE likewise without a domain"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_with_the_form_in_words(
    tmp_path: Path, key: str, value: object, form: str
) -> None:
    said = refusal(tmp_path / "mine.yaml", **KUBERNETES | {key: value})
    assert re.search(
        rf"mine.yaml: {key}[\w. /]*: '.*' is refused; valid: .*{re.escape(form)}", said
    )
    assert "pattern" not in said
    assert "[key]" not in said


@pytest.mark.parametrize(
    ("key", "option", "why"),
    [
        ("options", "--comment=mine", "the job sets --comment itself; valid: left out"),
        ("options", "--nodes=4", "the job sets --nodes itself; valid: --nodes of submit"),
        ("options", "--part=gpu", "the job sets --partition itself; valid: the key partition"),
        ("options", "--array 0-3", "the job sets --array itself; valid: left out"),
        ("options", "--no-requeue", "the job sets --no-requeue itself; valid: left out"),
        ("options", "--export=ALL", "itself; valid: the key pass_environment"),
        ("options", "--signal=USR1@10", "itself; valid: the key grace_seconds"),
        ("options", "--mem=10G", "the job has its nodes' memory to itself; valid: left out, or ex"),
        ("launch_options", "--nodes=1", "the job sets --nodes itself; valid: --nodes of submit"),
        ("launch_options", "-N1", "the job sets -N itself; valid: --nodes of submit"),
        ("launch_options", "--kill-on-bad-exit", "the job sets --kill-on-bad-exit itself; valid"),
        ("launch_options", "-k", "the job sets -k itself; valid: left out"),
        ("options", "--no-kill", "the job sets --no-kill itself; valid: left out"),
    ],
)
def test_what_the_job_sets_itself_is_no_option(
    tmp_path: Path, key: str, option: str, why: str
) -> None:
    said = refusal(tmp_path / "mine.yaml", kind="slurm", **{key: [option]})
    assert f"{key}: {option} is refused: " in said
    assert why in said


def test_options_of_similar_names_are_taken() -> None:
    own = ("--nodelist=n1", "--exclude=n2", "--time-min=1", "--mem-bind=local", "--nice=5")
    assert slurm(options=own).options == own
    assert slurm(options=("--mem=10G",), exclusive=False)
    slurm(launch_options=("--container-image=a", "--no-container-mount-home", "--wait=5"))


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        (
            {"environment": {"A": "1"}, "secrets": {"A": "hub/token"}},
            "A is in environment and in secrets; valid: in one of them",
        ),
        ({"environment": {"MLLM_JAX_PROCESS": "0"}}, "MLLM_JAX_PROCESS: a variable that pods"),
        (
            {"secrets": {"MLLM_JAX_LIVENESS_FILE": "a/b"}},
            "MLLM_JAX_LIVENESS_FILE: a variable that pods have",
        ),
        ({"resources": {"nvidia.com/gpu": 8}}, "nvidia.com/gpu is asked for by the plan; valid: l"),
        ({"resources": {"google.com/tpu": 4}}, "google.com/tpu is asked for by the plan; valid: "),
        ({"resources": {"rdma/ib": "8Gi"}}, "rdma/ib: 8Gi is refused; valid: a whole number, such"),
        ({"resources": {"ephemeral-storage": 8}}, "8 is refused; valid: bytes, such as 100Gi"),
        (
            {"annotations": {"a": "https://me:abc@site"}},
            "annotations.a: a secret has no value in a file; valid: secrets: {NAME: NAME_OF_SECRET",
        ),
        ({"volumes": {"/etc/mllm-jax": "a"}}, "/etc/mllm-jax is where pods have their config"),
        ({"volumes": {"/dev/shm": "a"}, "shared_memory": 4}, "/dev/shm is where pods have their"),
    ],
)
def test_what_pods_have_for_themselves_is_refused(
    tmp_path: Path, keys: dict[str, object], why: str
) -> None:
    assert why in refusal(tmp_path / "mine.yaml", **KUBERNETES | keys)


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "db_password", "WANDB_KEY", "PGPASS", "DB_PWD"),
        *("WANDB_AUTH", "APIKEY", "GITHUB_PAT", "PROXY_AUTHORIZATION", "SESSION_COOKIE"),
        *("SSH_PASSPHRASE", "SENTRY_DSN", "AZURE_STORAGE_CONNECTION_STRING", "SSH_PKEY"),
    ],
)
def test_secrets_are_passed_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "mine.yaml"
    said = refusal(path, kind="slurm", environment={name: "abc123"})
    assert f"environment.{name}: a secret has no value in a file; valid: pass_envi" in said
    assert "abc123" not in said
    said = refusal(path, **KUBERNETES, environment={name: "abc123"})
    assert f"valid: secrets: {{{name}: NAME_OF_SECRET/key}}" in said
    for line in (f"export {name}=abc123", f"--container-env={name}=abc123"):
        key = "setup" if line.startswith("export") else "options"
        said = refusal(path, kind="slurm", **{key: [line]})
        assert f"{name} is given a value" in said
        assert "abc123" not in said
    read_backend(described(path, kind="slurm", pass_environment=[name]))
    read_backend(described(path, **KUBERNETES, secrets={name: "hub/token"}))
    read_backend(described(path, kind="slurm", setup=[f"export {name}=$(cat ~/.secret)"]))


@pytest.mark.parametrize(
    "line",
    [
        "export HTTPS_PROXY=http://user:abc123@proxy:80",
        "git clone https://abc123@github.com/a/b",
        "wandb login abc1230123456789abcdef",
        "huggingface-cli login --token abc123",
        "docker login -u me -p abc123",
        "curl -H 'Authorization: Bearer abc1230123' host",
        "echo hf_abc1230123456789 > token",
        "export MINE=ghp_abc1230123456789",
        "export MINE=AKIAABC1230123456789",
    ],
)
def test_secrets_in_lines_and_values_are_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "mine.yaml"
    said = refusal(path, kind="slurm", setup=[line])
    assert "a line holds a secret, which has no value in a file; valid: a variable" in said
    assert "abc123" not in said
    if "://" in line or "MINE=" in line:
        said = refusal(path, **KUBERNETES, environment={"PLACE": line.rpartition("=")[2]})
        assert "environment.PLACE: a secret has no value in a file" in said
        assert "abc123" not in said


@pytest.mark.parametrize("key", ["AccountKey", "SharedAccessSignature", "Password"])
def test_connection_strings_with_a_secret_are_refused(tmp_path: Path, key: str) -> None:
    path, text = tmp_path / "mine.yaml", "AccountName=me;Endpoint=https://a"
    read_backend(described(path, kind="slurm", environment={"STORE": text}))
    said = refusal(path, kind="slurm", environment={"STORE": f"{text};{key}=abc123=="})
    assert "environment.STORE: a secret has no value in a file" in said
    assert "abc123" not in said


def test_the_python_is_one_program_and_no_secret(tmp_path: Path) -> None:
    """It is one word of the command."""
    path = tmp_path / "mine.yaml"
    for kind in ({"kind": "slurm"}, KUBERNETES):
        for own in ("python3 -u", "apptainer exec a.sif python3"):
            said = refusal(path, **kind, python=own)
            assert f"python: '{own}' is refused; valid: the name or path of one program" in said
        said = refusal(path, **kind, python="python3 --token=hf_abc1230123456789")
        assert "python: a secret is refused; valid: the name or path of one program" in said
        said = refusal(path, **kind, python="/opt/hf_abc1230123456789/python3")
        assert "python: the text holds a secret, which has no value in a file" in said
        assert "abc123" not in said


def test_what_only_looks_like_a_secret_is_taken(tmp_path: Path) -> None:
    path, own = tmp_path / "mine.yaml", {"TOKENIZERS_PARALLELISM": "false", "KEYBOARD": "us"}
    own |= {
        "MY_PATH": "/a",
        "NCCL_IB_PKEY": "1",
        "PATTERN": "sk",
        "BASIC": "basic auth",
        "STYLE": "task-abcdefghijklmnop",
    }
    read_backend(described(path, **KUBERNETES, environment=own))
    lines = [
        "export TOKENIZERS_PARALLELISM=false NCCL_IB_PKEY=1",
        "wandb login $WANDB",
        "git clone ssh://git@host/a",
    ]
    read_backend(described(path, kind="slurm", setup=[*lines, "curl https://$USER:$PW@host"]))


@given(st.integers(0, 9), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_limits_of_time_are_read_as_sbatch_reads_them(days: int, h: int, m: int, s: int) -> None:
    def seconds(text: str) -> int:
        return slurm(time_limit=text).limit_seconds or 0  # a limit of 0 is none

    assert seconds(f"{days}-{h}:{m}:{s}") == ((days * 24 + h) * 60 + m) * 60 + s
    assert seconds(f"{days}-{h}:{m}") == ((days * 24 + h) * 60 + m) * 60
    assert seconds(f"{days}-{h}") == (days * 24 + h) * 3600
    assert seconds(f"{h}:{m}:{s}") == (h * 60 + m) * 60 + s
    assert seconds(f"{m}:{s}") == m * 60 + s
    assert seconds(f"{m}") == m * 60
