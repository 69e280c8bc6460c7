"""Data that one process cannot read end all processes."""

import errno
import json
from pathlib import Path
from typing import Any, NoReturn

import jax
import pytest
from rich.console import Console

from data.config import DataConfig
from data.faults import FaultKind, SampleFault
from data.planning.lengths import LengthTable
from data.planning.stream import LoaderState
from data.sample import DataError, Lengths, SampleError, UnreachableError
from data.sources.cache import in_cache
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.exits import ExitCode, exit_code_of
from mllm_jax.runtime.run_peers import RunPeers
from mllm_jax.train import trainer as loop
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.loading import loader as run_loader
from tests.configs import config
from tests.data.samples import TEXT, make_lengths
from tests.train.llava_folder import write_folder


def fail() -> int:
    raise DataError("no such file")


class Told(RunPeers):
    """One of two processes; it keeps what it tells the other."""

    def __init__(self, other: str = "read") -> None:
        super().__init__()
        self.other, self.told = other, list[str]()

    def gather_values(self, name: str, value: Any) -> list[Any]:
        self.told.append(value)
        return [value, self.other]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    own = Told()
    monkeypatch.setattr(run_loader, "current_peers", lambda: own)
    return own


def bad_sample() -> NoReturn:
    raise SampleError("a[0]", SampleFault(FaultKind.MISSING, "gone"))


def full_disk() -> NoReturn:
    with in_cache(Path("cache")):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("action", "kind", "says"),
    [
        (fail, DataError, "unusable"),
        (bad_sample, SampleError, "unusable"),
        (full_disk, UnreachableError, "away"),
    ],
)
def test_the_others_are_told_of_an_error_before_this_process_gives_up(
    told: Told, action: Any, kind: type[Exception], says: str
) -> None:
    assert run_loader.run_on_all(lambda: 7) == 7
    with pytest.raises(kind, match=r"no such file|a\[0\]: gone|No space left"):
        run_loader.run_on_all(action)
    assert told.told == ["read", says]


@pytest.mark.parametrize(
    ("other", "code"), [("unusable", ExitCode.BAD_DATA), ("away", ExitCode.OUT_OF_REACH)]
)
def test_an_error_elsewhere_ends_this_process(told: Told, other: str, code: ExitCode) -> None:
    """What may pass there is no reason to start no other attempt."""
    told.other = other
    with pytest.raises(DataError, match="another process cannot read the data") as found:
        run_loader.run_on_all(lambda: 7)
    assert exit_code_of(found.value) == code


@pytest.mark.parametrize("primary", [True, False])
def test_one_process_makes_the_index_before_the_others_open_it(
    primary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    source = object()

    class Two(RunPeers):
        def gather_values(self, name: str, value: Any) -> list[Any]:
            done.append("together")
            return [value]

    def opened(*_: object) -> object:
        done.append("opened")
        return source

    monkeypatch.setattr(run_loader, "current_peers", Two)
    monkeypatch.setattr(run_loader, "make_source", opened)
    monkeypatch.setattr(run_loader, "is_primary", lambda: primary)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    assert run_loader.shared_source(DataConfig(budgets={"tokens": 1, "segments": 1})) is source
    first, second = (["opened"], []) if primary else ([], ["opened"])
    assert done == [*first, "together", *second, "together"]


def test_processes_with_other_lengths_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [
        LengthTable.from_lengths([make_lengths(n), SampleFault(FaultKind.RECORD, "bad")], [TEXT])
        for n in (3, 3, 4)
    ]
    assert tables[0].digest == tables[1].digest != tables[2].digest

    class Three(RunPeers):
        def gather_values(self, name: str, value: Any) -> list[Any]:
            return [table.digest for table in tables]

    monkeypatch.setattr(run_loader, "current_peers", Three)
    with pytest.raises(DataError, match="processes 0 and 2 have measured other lengths"):
        run_loader.check_same(tables[0])


def configured(folder: Path, **changes: Any) -> ExperimentConfig:
    """The small configuration on a folder as `write_folder` makes it."""
    source = {
        "kind": "llava",
        "path": str(folder / "train.json"),
        "heldout": str(folder / "heldout.json"),
        "media": str(folder / "media"),
    }
    return config(
        run__directory=str(folder / "runs"),
        data__source=source,
        data__cache=str(folder / "cache"),
        data__tokenizer="bytes",
        data__image={"max_patches": 16},
        data__audio={"sample_rate": 8000, "hop": 80, "window": 200},
        data__budgets={"tokens": 128, "segments": 4, "vision": 32, "audio": 96},
        **changes,
    )


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_a_bad_sample_that_ends_the_run_is_told_before_anything_is_built(
    split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, file = write_folder(tmp_path / "data", bad=False), f"{split}.json"
    records = json.loads((folder / file).read_text())
    records[1] = records[0] | {"image": "gone.png"}
    (folder / file).write_text(json.dumps(records))

    def build(_: object) -> NoReturn:
        raise AssertionError("built before the data were looked at")

    monkeypatch.setattr(Experiment, "build", build)
    with pytest.raises(SampleError, match=rf"^sample {file}\[1\]: 'gone.png' is missing"):
        loop.train(configured(folder, data__on_error="raise"), Console(quiet=True))


@pytest.mark.parametrize(
    ("records", "told"),
    [([], "the split is empty"), ([{"id": 1}], r"the last: .*\[0\]: record of")],
)
def test_a_held_out_split_of_nothing_is_told_at_the_start(
    records: list[Any], told: str, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "data", bad=False)
    (folder / "heldout.json").write_text(json.dumps(records))
    with pytest.raises(DataError, match=f"none of {len(records)} held-out samples .*{told}"):
        run_loader.check_sources(configured(folder))


def test_groups_are_chosen_by_samples_from_all_parts_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of a few samples is looked at once; where lengths are not measured, it is read."""

    class ChosenError(Exception):
        """The samples by which the size of groups is chosen."""

    def choose(_: Any, __: Any, samples: list[Lengths], *___: Any) -> NoReturn:
        raise ChosenError(samples)

    monkeypatch.setattr(run_loader, "choose_group_size", choose)
    folder = write_folder(tmp_path / "data", bad=False)
    found = []
    for lengths in ("cached", "on_read"):
        own = configured(
            folder,
            data__lengths=lengths,
            data__balance="per_phase",
            data__balance_group="auto",
            schedule__hardware="h100",
        )
        with pytest.raises(ChosenError) as chosen:
            run_loader.open_loader(Experiment.build(own), LoaderState(0))
        found.append(chosen.value.args[0])
    assert len(found[0]) == len(json.loads((folder / "train.json").read_text()))
    assert found[0] == found[1]
