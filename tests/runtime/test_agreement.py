"""Comparisons between processes, and messages about differences."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.runtime.agreement import (
    VERSIONS,
    code_facts,
    config_facts,
    flatten_config,
    installed_versions,
    list_differences,
    package_versions,
    version_of,
)
from mllm_jax.runtime.watch import PeerProcess, WatchLimits, find_fault
from tests.configs import ROOT, config

VALUES = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2))


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_there_is_a_difference_where_facts_differ_and_nowhere_else(every):
    found = list_differences(every)
    assert bool(found) == any(facts != every[0] for facts in every)


def test_the_process_that_differs_is_named_with_the_key_and_both_values():
    usual, other = {"train.seed": 0, "x": 1}, {"train.seed": 7}
    assert list_differences([usual, other, usual]) == [
        "process 1 has train.seed 7, the others 0",
        "process 1 has x (none), the others 1",
    ]
    assert list_differences([usual, usual | {"x": 2}]) == ["process 1 has x 2, process 0 1"]


def test_processes_without_facts_are_left_out_and_keep_their_numbers():
    facts = {"x": 1}
    assert list_differences([None, facts, None, facts]) == []
    assert list_differences([None, facts, facts | {"x": 2}]) == ["process 2 has x 2, process 1 1"]


def test_every_key_counts_but_those_of_the_hosts_files():
    facts = config_facts(config(data__cache="elsewhere").model_dump(mode="json"))
    changes = {"run__compilation_cache": "here", "train__learning_rate": 0.5}
    other = config(data__cache="here", data__workers=3, **changes)
    found = list_differences([facts, config_facts(other.model_dump(mode="json"))])
    assert found == ["process 1 has train.learning_rate 0.5, process 0 0.001"]
    source = {"data": {"source": {"members": {"a": {"source": {"path": "x", "kind": "llava"}}}}}}
    assert config_facts(source) == {"data.source.members.a.source.kind": "llava"}


def test_code_is_told_file_by_file():
    facts = code_facts()
    assert facts["version of jax"][0].isdigit()
    assert "source mllm_jax/runtime/agreement.py" in facts
    assert flatten_config({"a": {"b": 1, "c": {}}}) == {"a.b": 1, "a.c": {}}


def test_who_is_silent_is_at_fault_before_who_stands_still():
    quiet = PeerProcess(1, "there", 7, heard=0.0, event="step 3", since=0.0, limited=True)
    waiting = PeerProcess(0, "here", 5, heard=99.0, event="step 4", since=20.0, limited=True)
    assert "process 1 (host there, pid 7) is stuck or gone" in str(
        find_fault([waiting, quiet], 100.0, WatchLimits(60.0, 50.0))
    )
    quiet.heard = 99.0
    found = find_fault([waiting, quiet], 100.0, WatchLimits(60.0, 50.0))
    assert found
    assert "process 1 (host there, pid 7) is stuck" in found
    assert "its last event: step 3, 100 s ago" in found
    quiet.waiting = True
    found = find_fault([waiting, quiet], 100.0, WatchLimits(60.0, 50.0))
    assert found
    assert "process 0 (host here, pid 5) is stuck" in found
    waiting.waiting = True
    found = find_fault([waiting, quiet], 100.0, WatchLimits(60.0, 50.0))
    assert found
    assert re.search(r"all processes wait for each other.*pid 5.*: step 4.*pid 7.*: step 3", found)
    quiet.waits, waiting.waits = 5, 7  # in the third wait, and in the fourth
    found = find_fault([waiting, quiet], 100.0, WatchLimits(60.0, 50.0))
    assert found
    assert found.startswith("process 1 (host there, pid 7) is stuck: no process goes on since 50 s")
    assert "others are beyond the wait that it is in" in found
    waiting.waiting, waiting.waits = False, 6  # it has come out of the third, and stands after it
    found = find_fault([waiting, quiet], 100.0, WatchLimits(60.0, 50.0))
    assert found
    assert found.startswith("process 1 (host there, pid 7) is stuck: no process goes on since 50 s")
    waiting.waits = quiet.waits = 0
    waiting.limited = waiting.waiting = False  # it compiles: the other may have to wait for that
    assert find_fault([waiting, quiet], 100.0, WatchLimits(60.0, 50.0)) is None
    assert find_fault([waiting, quiet], 100.0, WatchLimits(60.0, None)) is None
    found = find_fault([waiting, quiet], 100.0, WatchLimits(60.0, 50.0, longest=70.0))
    assert found
    assert "process 0 (host here, pid 5) takes longer than 70 s (run.phase_seconds)" in found
    assert find_fault([waiting, quiet], 100.0, WatchLimits(60.0, 50.0, longest=90.0)) is None
    assert find_fault([waiting, quiet], 1e9, WatchLimits(1e10, 50.0, longest=None)) is None


# ---------------------------------------------------------------------------- versions

#: What folders of packages an interrupted installation may leave: the content of METADATA.
HALF = {
    "nameless-1.0": b"Metadata-Version: 2.1\nVersion: 1.0\n",
    "versionless-1.0": b"Metadata-Version: 2.1\nName: versionless\n",
    "blank-1.0": b"",
    "lost-1.0": None,
    "garbled-1.0": b"\xff\xfe\x00Name: garbled\nVersion: 1.0\n",
    # One that is here in whole, too.
    "msgpack-9.9": None,
}

TOLD = """
import json
from mllm_jax.runtime.agreement import installed_versions, version_of
print(json.dumps([installed_versions(), version_of("msgpack"), version_of("lost")]))
"""


def told(before: str, *first: Path) -> Any:
    """What a process of its own finds that has imported `before`, with more folders to search."""
    path = os.pathsep.join(str(own) for own in (*first, ROOT))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", before + TOLD],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("imported", [None, "importlib_metadata"])
def test_a_package_that_was_half_installed_is_none(imported: str | None, tmp_path: Path) -> None:
    """Whoever searches: Python itself, or the backport that dashboards import."""
    if imported:
        pytest.importorskip(imported)
    for name, text in HALF.items():
        folder = tmp_path / f"{name}.dist-info"
        folder.mkdir()
        if text is not None:
            (folder / "METADATA").write_bytes(text)
    found, msgpack, lost = told(f"import {imported}" if imported else "", tmp_path)
    assert found == installed_versions()
    assert (msgpack, lost) == (version("msgpack"), None)


def test_of_two_versions_the_one_that_is_imported_counts(tmp_path: Path) -> None:
    for place, name, number in (("a", "some.thing", "2.0"), ("b", "Some_Thing", "1.0")):
        folder = tmp_path / place / f"{name}-{number}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: {number}\n")
    found, *_ = told("", tmp_path / "a", tmp_path / "b")
    assert found["some-thing"] == "2.0"


def test_versions_that_decide_results_are_those_of_all() -> None:
    every = installed_versions()
    assert package_versions() == {name: every[name.replace("_", "-")] for name in VERSIONS}
    assert version_of("no-such-package") is None
