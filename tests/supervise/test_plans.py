"""Plans that are searched beside a run: those that are found are used, the others are told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mllm_jax.supervise.plans import FallbackPlans, FallbackSearch
from tests.configs import ROOT
from tests.timing import soon

#: Writes its devices to the file, or fails for six of them, or takes its time for two.
PROGRAM = """
import sys, time
devices, file = int(sys.argv[1].partition("=")[2]), sys.argv[3]
if devices == 6:
    sys.exit("error: no plan fits")
if devices == 2:
    time.sleep(3600)
open(file, "w").write(f"for {devices}")
"""


def read(file: Path, devices: int) -> tuple[str, ...]:
    if devices == 4:
        raise ValueError("the plan has 2 devices")
    return (f"{file.read_text()} of {devices}",)


def test_plans_are_found_told_and_given_up(tmp_path, caplog):
    plans = FallbackPlans({3: ("before",), 2: ("before",)})
    command, devices = [sys.executable, "-c", PROGRAM], {4: 8, 3: 6, 2: 4, 1: 2}
    planning = FallbackSearch(command, devices, tmp_path, read, plans)
    soon(lambda: "(4 devices)" in caplog.text)
    planning.close()  # which does not wait for the search
    assert plans == {4: ("for 8 of 8",), 3: ("before",), 2: ("before",)}
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "no plan exists for 3 hosts (6 devices): error: no plan fits",
        "no plan exists for 2 hosts (4 devices): the plan has 2 devices",
    ]


def test_plans_are_added_while_others_go_through_them():
    plans = FallbackPlans({3: ("three",)})
    for hosts in plans:
        plans.add_plan(hosts - 1, ("fewer",))
    assert (plans, len(plans)) == ({3: ("three",), 2: ("fewer",)}, 2)


#: Begins a search that takes its time, and tells its process.
SEARCHING = """
import sys, time
from pathlib import Path
from mllm_jax.supervise.plans import FallbackSearch, FallbackPlans
search = (
    "import os, pathlib, time; pathlib.Path(r'{told}').write_text(str(os.getpid()));"
    "time.sleep(60)"
)
command = [sys.executable, "-c", search]
FallbackSearch(command, {{1: 1}}, Path("."), lambda file, devices: (), FallbackPlans({{}}))
time.sleep(60)
"""


def test_a_search_ends_with_a_supervisor_that_is_killed(tmp_path):
    told = tmp_path / "pid"
    own = subprocess.Popen([sys.executable, "-c", SEARCHING.format(told=told)], cwd=ROOT)
    try:
        soon(lambda: told.exists() and told.read_text() != "")
        assert Path(f"/proc/{told.read_text()}").exists()
    finally:
        own.kill()
        own.wait()
    soon(lambda: not Path(f"/proc/{told.read_text()}").exists())
