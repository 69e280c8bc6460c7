"""Every part of a state is on two machines once its copies are made, and is copied once."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from mllm_jax.train.state.snapshots.array_box import ArrayBox
from mllm_jax.train.state.snapshots.copying import leaves_by_name, parts_elsewhere, plan_parts
from mllm_jax.train.state.snapshots.shard import (
    ShardIndex,
    ShardLeaf,
    ShardOrigin,
    ShardPart,
    lay_out_parts,
)
from tests.train.state.test_damage import state

BOX = ArrayBox((0,), (4,))


@dataclass(frozen=True)
class Device:
    process_index: int


def held_by(processes: set[int]) -> Any:
    """A leaf in one part, which devices of these processes hold."""
    held = {Device(process): (slice(0, 4),) for process in processes}
    layout = SimpleNamespace(devices_indices_map=lambda shape: held)
    return SimpleNamespace(shape=(4,), sharding=layout)


@given(
    machines=st.lists(st.sampled_from("abc"), min_size=2, max_size=6),
    data=st.data(),
)
@example(machines=["a", "a", "b", "b"], data=None)
def test_what_one_machine_alone_holds_is_copied_by_one_of_its_processes(
    machines: list[str], data: st.DataObject | None
) -> None:
    everyone = range(len(machines))
    drawn = st.sets(st.sampled_from(everyone), min_size=1)
    for held in [data.draw(drawn)] if data else [{0, 1}, {1}, {2, 3}, {0, 2}, {0, 1, 2}]:
        leaf = {"leaf": held_by(held)}
        copying = [own for own in held if BOX not in parts_elsewhere(leaf, machines, own)["leaf"]]
        alone = len({machines[own] for own in held}) == 1
        assert copying == ([min(held)] if alone else [])


def index_of(leaves: dict[str, ShardLeaf]) -> ShardIndex:
    origin = ShardOrigin(run="r", folder="f", series="s", step=3, process=0)
    return ShardIndex(origin=origin, progress={}, config={}, leaves=leaves)


def test_the_pieces_of_a_state_lie_after_each_other() -> None:
    leaves = leaves_by_name(state(1))
    index = index_of(plan_parts(leaves))
    assert {name: leaf.shape for name, leaf in index.leaves.items()} == {
        name: leaf.shape for name, leaf in leaves.items()
    }
    end = 0
    for leaf, part in index.parts:
        assert part.offset == -(-end // 64) * 64
        end = part.offset + leaf.bytes_of(part.box)
    assert index.bytes == end


@given(
    lengths=st.lists(st.lists(st.integers(1, 70), max_size=3), min_size=1, max_size=4),
    data=st.data(),
)
def test_an_index_without_some_pieces_has_the_others_closer_together(
    lengths: list[list[int]], data: st.DataObject
) -> None:
    leaves, left, gone = {}, {}, {}
    for number, own in enumerate(lengths):
        starts = [sum(own[:i]) for i in range(len(own))]
        parts = tuple(
            ShardPart(start=(a,), stop=(a + n,), offset=0, crc32=a + n)
            for a, n in zip(starts, own, strict=True)
        )
        name = f"leaf{number}"
        leaves[name] = ShardLeaf(shape=(sum(own),), dtype="float32", parts=parts)
        gone[name] = {p.box for p in parts if data.draw(st.booleans())}
        left[name] = [p for p in parts if p.box not in gone[name]]
    found = index_of(
        lay_out_parts(leaves, {n: leaf.parts for n, leaf in leaves.items()})
    ).without_parts(gone)
    end = 0
    for name, leaf in found.leaves.items():
        assert leaf.shape == leaves[name].shape
        assert [(p.box, p.crc32) for p in leaf.parts] == [(p.box, p.crc32) for p in left[name]]
    for _, part in found.parts:
        assert part.offset == -(-end // 64) * 64
        end = part.offset + 4 * part.box.size
    assert found.bytes == end
