"""Comparisons between processes, and messages about differences."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.runtime.agreement import code, configured, differences, flat
from mllm_jax.runtime.watch import Limits, Peer, fault
from tests.configs import config

VALUES = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2))


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_there_is_a_difference_where_facts_differ_and_nowhere_else(every):
    found = differences(every)
    assert bool(found) == any(facts != every[0] for facts in every)


def test_the_process_that_differs_is_named_with_the_key_and_both_values():
    usual, other = {"train.seed": 0, "x": 1}, {"train.seed": 7}
    assert differences([usual, other, usual]) == [
        "process 1 has train.seed 7, the others 0",
        "process 1 has x (none), the others 1",
    ]
    assert differences([usual, usual | {"x": 2}]) == ["process 1 has x 2, process 0 1"]


def test_every_key_counts_but_those_of_the_hosts_files():
    facts = configured(config(data__cache="elsewhere").model_dump(mode="json"))
    changes = {"run__compilation_cache": "here", "train__learning_rate": 0.5}
    other = config(data__cache="here", data__workers=3, **changes)
    found = differences([facts, configured(other.model_dump(mode="json"))])
    assert found == ["process 1 has train.learning_rate 0.5, process 0 0.001"]
    source = {"data": {"source": {"members": {"a": {"source": {"path": "x", "kind": "llava"}}}}}}
    assert configured(source) == {"data.source.members.a.source.kind": "llava"}


def test_code_is_told_file_by_file():
    facts = code()
    assert facts["version of jax"][0].isdigit()
    assert "source mllm_jax/runtime/agreement.py" in facts
    assert flat({"a": {"b": 1, "c": {}}}) == {"a.b": 1, "a.c": {}}


def test_who_is_silent_is_at_fault_before_who_stands_still():
    quiet = Peer(1, "there", 7, heard=0.0, event="step 3", since=0.0, limited=True)
    waiting = Peer(0, "here", 5, heard=99.0, event="step 4", since=20.0, limited=True)
    assert "process 1 (host there, pid 7) is stuck or gone" in str(
        fault([waiting, quiet], 100.0, Limits(60.0, 50.0))
    )
    quiet.heard = 99.0
    found = fault([waiting, quiet], 100.0, Limits(60.0, 50.0))
    assert found
    assert "process 1 (host there, pid 7) is stuck" in found
    assert "its last event: step 3, 100 s ago" in found
    quiet.waiting = True
    found = fault([waiting, quiet], 100.0, Limits(60.0, 50.0))
    assert found
    assert "process 0 (host here, pid 5) is stuck" in found
    waiting.waiting = True
    found = fault([waiting, quiet], 100.0, Limits(60.0, 50.0))
    assert found
    assert re.search(r"all processes wait for each other.*pid 5.*: step 4.*pid 7.*: step 3", found)
    waiting.limited = waiting.waiting = False  # it compiles: the other may have to wait for that
    assert fault([waiting, quiet], 100.0, Limits(60.0, 50.0)) is None
    assert fault([waiting, quiet], 100.0, Limits(60.0, None)) is None
    found = fault([waiting, quiet], 100.0, Limits(60.0, 50.0, longest=70.0))
    assert found
    assert "process 0 (host here, pid 5) takes longer than 70 s (run.phase_seconds)" in found
    assert fault([waiting, quiet], 100.0, Limits(60.0, 50.0, longest=90.0)) is None
    assert fault([waiting, quiet], 1e9, Limits(1e10, 50.0, longest=None)) is None
