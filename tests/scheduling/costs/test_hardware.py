"""Descriptions of hardware: the shipped files, the times that links take, what errors say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jax.experimental import topologies
from pydantic import BaseModel, ValidationError

from mllm_jax.config import hardware
from mllm_jax.config.hardware import hardware_names, load_hardware, of_kind, read_hardware
from scheduling.costs.hardware import Efficiency, Hardware, HardwareError, HardwareLink

SHIPPED = ["a100", "b200", "h100", "h100_pcie", "h200", "h800", "v4", "v5e", "v5p", "v6e"]

#: Round figures, so that times can be computed by hand.
VALUES: dict[str, Any] = {
    "name": "abacus",
    "title": "Abacus 9",
    "platform": "gpu",
    "kinds": ["Abacus"],
    "flops": {"bfloat16": 1e12},
    "memory": 1e9,
    "memory_bandwidth": 1e10,
    "host": 4,
    "domain": 8,
    "link": {"bandwidth": 1000.0, "latency": 0.25},
    "network": {"bandwidth": 100.0, "latency": 2.0},
    "efficiency": {"matmul": 0.5, "attention": 0.5, "memory": 0.5, "link": 0.8, "network": 0.5},
}
ABACUS = Hardware.model_validate(VALUES)

bandwidths = st.floats(1e3, 1e12)
latencies = st.floats(0, 1e-3)
directions = st.sampled_from([1, 2])
sizes = st.floats(0, 1e12)
groups = st.integers(1, 512)
links = st.builds(HardwareLink, bandwidth=bandwidths, latency=latencies, directions=directions)


def changed(**changes: Any) -> Hardware:
    return ABACUS.model_copy(update=changes)


def written(folder: Path, values: Any) -> Path:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


# The shipped files


def test_these_are_shipped() -> None:
    assert hardware_names() == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_file(name: str) -> None:
    device = load_hardware(name)
    assert device.name == name
    # MFU is reported against it.
    assert device.flops["bfloat16"] >= device.flops["float32"]
    assert device.link.bandwidth > device.network.bandwidth
    assert (device.platform == "gpu") == (device.target_config is not None)
    assert (device.platform == "tpu") == (device.topology is not None)
    assert (device.platform == "tpu") == (device.link.directions == 2)
    assert (device.platform == "tpu") == (device.link.axes is not None)
    assert device.network.axes is None


@pytest.mark.parametrize("name", SHIPPED)
def test_every_figure_has_a_source(name: str) -> None:
    lines = (hardware.FOLDER / f"{name}.yaml").read_text().partition("target_config:")[0]
    before = ""
    for line in lines.splitlines():
        if re.search(r": *\S*\d", line.partition("#")[0]) and not line.startswith(
            ("name", "title")
        ):
            assert "#" in line or before.lstrip().startswith("#"), line
        before = line


def row(device: Hardware) -> str:
    giga = (device.memory, device.memory_bandwidth, device.link.bandwidth, device.network.bandwidth)
    memory, memory_bandwidth, link, network = (f"{value / 1e9:g}" for value in giga)
    cells = (
        f"[{device.name}](../../configs/hardware/{device.name}.yaml)",
        device.title,
        f"{device.flops['bfloat16'] / 1e12:g}",
        memory,
        memory_bandwidth,
        device.host,
        device.domain,
        link,
        network,
    )
    return f"| {' | '.join(map(str, cells))} |"


def test_the_table_of_the_page_is_that_of_the_files() -> None:
    page = (hardware.FOLDER.parents[1] / "docs" / "reference" / "hardware.md").read_text()
    assert [
        line for line in page.splitlines() if "../../configs/hardware/" in line and "|" in line
    ] == [row(load_hardware(name)) for name in SHIPPED]


def test_the_page_names_every_field() -> None:
    page = (hardware.FOLDER.parents[1] / "docs" / "reference" / "hardware.md").read_text()
    for model in (Hardware, HardwareLink, Efficiency):
        for field in model.model_fields:
            assert re.search(rf"`([a-z]+\.)?{field}`", page), field


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100_pcie"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA H800", "h800"),
        ("NVIDIA B200", "b200"),
        # As libtpu reports them.
        ("TPU v4", "v4"),
        ("TPU v5", "v5p"),
        ("TPU v5 lite", "v5e"),
        ("TPU v6 lite", "v6e"),
        ("TPU v5p", "v5p"),
        ("TPU v5e", "v5e"),
    ],
)
def test_a_kind_of_device(kind: str, name: str) -> None:
    found = of_kind(kind)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("kind", ["cpu", "NVIDIA H100 NVL", "TPU", ""])
def test_a_kind_that_is_not_described(kind: str) -> None:
    assert of_kind(kind) is None


def test_each_kind_is_of_one_file() -> None:
    kinds = [kind for name in SHIPPED for kind in load_hardware(name).kinds]
    assert len(kinds) == len(set(kinds))
    for name in SHIPPED:
        for kind in load_hardware(name).kinds:
            assert of_kind(kind) is load_hardware(name)


@pytest.mark.tpu_compile
@pytest.mark.parametrize(
    "slices", ["v4:4x4x4", "v5e:4x4", "v5e:16x16", "v5p:2x2x1", "v5p:16x16x24", "v6e:2x4"]
)
def test_the_tpu_compiler_knows_the_topology(slices: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("libtpu")
    # There is no metadata server to ask, and other processes may compile for TPUs at the same time.
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    monkeypatch.setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    device = load_hardware(slices.partition(":")[0])
    assert slices.startswith(f"{device.topology}:")
    topology: Any = topologies.get_topology_desc(platform="tpu", topology_name=slices)
    assert of_kind(topology.devices[0].device_kind) is device


@pytest.mark.gpu_compile
@pytest.mark.parametrize(
    "name", [name for name in SHIPPED if load_hardware(name).platform == "gpu"]
)
def test_the_gpu_compiler_knows_the_card(name: str) -> None:
    pytest.importorskip("jax_plugins.xla_cuda13")
    device = load_hardware(name)
    options: dict[str, Any] = {
        "target_config": device.target_config,
        "topology": f"1x1x{device.domain}",
    }
    topology: Any = topologies.get_topology_desc(name, "cuda", **options)
    assert len(topology.devices) == device.domain
    assert of_kind(topology.devices[0].device_kind) is device


# Times of links, by hand


def test_a_ring() -> None:
    link = HardwareLink(bandwidth=100.0, latency=0.5)
    # Three steps, each with a quarter of the data.
    assert link.ring_seconds(800.0, 4) == 3 * (0.5 + 2.0)
    assert link.ring_seconds(800.0, 1) == 0


def test_a_ring_both_ways_round() -> None:
    link = HardwareLink(bandwidth=100.0, latency=0.5, directions=2)
    # Two steps reach the three others; the bandwidth is of both ways together.
    assert link.ring_seconds(800.0, 4) == 2 * 0.5 + 6.0
    assert link.send_seconds(800.0) == 0.5 + 800 / 50


def test_a_group_within_a_domain() -> None:
    # Three steps, a quarter of 3200 bytes each, at 0.8 of 1000 bytes/s.
    assert ABACUS.group_seconds(3200.0, 4, span=4) == pytest.approx(3 * (0.25 + 1.0))


def test_a_group_over_two_domains() -> None:
    # Rings of eight in each domain, at 0.8 of 1000 bytes/s: seven steps of an eighth.
    inside = 7 * (0.25 + 200 / 800)
    # Between the domains rings of two with an eighth of the data, at 0.5 of 100 bytes/s.
    outside = 2.0 + 100 / 50
    assert ABACUS.group_seconds(1600.0, 16, span=16) == pytest.approx(inside + outside)


def test_a_group_of_strangers_uses_the_network_alone() -> None:
    # Two devices that are 8 or more apart share no domain.
    for span in (9, 16, 100):
        assert ABACUS.group_seconds(100.0, 2, span) == pytest.approx(2.0 + 1.0)


def test_an_exchange_within_a_domain() -> None:
    # A quarter of 3200 bytes to each of three others, at 0.8 of 1000 bytes/s.
    assert ABACUS.exchange_seconds(3200.0, [(1, 4)]) == pytest.approx(3 * (0.25 + 1.0))
    assert ABACUS.exchange_seconds(3200.0, []) == ABACUS.exchange_seconds(0.0, [(1, 4)]) == 0


@pytest.mark.parametrize(
    ("spans", "inside", "domains"),
    [([(1, 16)], 8, 2), ([(1, 2), (8, 32)], 2, 4), ([(2, 64)], 4, 8), ([(8, 32)], 1, 4)],
)
def test_all_bytes_for_other_domains_cross_the_network(
    spans: list[tuple[int, int]], inside: int, domains: int
) -> None:
    """Each of a group sends 1600 bytes, as many to each; no two devices get the same bytes."""
    each = 1600 / (inside * domains)
    # To those of its own domain at 0.8 of 1000 bytes/s, to all others at 0.5 of 100 bytes/s.
    near = (inside - 1) * (0.25 + each / 800)
    far = (domains - 1) * (2.0 + inside * each / 50)
    assert ABACUS.exchange_seconds(1600.0, spans) == pytest.approx(near + far)


@pytest.mark.parametrize("devices", [2, 3, 4, 8, 9])
def test_bytes_pass_the_links_between_round_an_axis(devices: int) -> None:
    """By hand: every part goes the shorter way, and both ways round have half the bandwidth."""
    ring = HardwareLink(bandwidth=100.0, latency=0.5, directions=2, axes=1)
    passed = sum(min(hops, devices - hops) for hops in range(devices)) / devices
    hops = devices // 2 * 0.5
    assert ring.exchange_seconds(800.0, devices) == pytest.approx(hops + 800 * passed / 100)


@pytest.mark.parametrize(
    ("axes", "devices", "side"),
    [(3, 4, 4), (3, 8, 4), (3, 64, 4), (3, 512, 8), (2, 16, 4), (2, 256, 16), (3, 2, 2), (2, 1, 1)],
)
def test_the_longest_side_of_a_torus_counts(axes: Any, devices: int, side: int) -> None:
    ring = HardwareLink(bandwidth=100.0, latency=0.5, directions=2, axes=1)
    torus = ring.model_copy(update={"axes": axes})
    assert torus.exchange_seconds(800.0, devices) == ring.exchange_seconds(800.0, side)


@pytest.mark.parametrize("axes", [None, 1, 3])
@pytest.mark.parametrize("devices", [2, 8])
def test_a_fraction_that_is_reached_divides_the_bandwidth(axes: Any, devices: int) -> None:
    """A quarter of it is as a quarter of the bandwidth, in rings and in exchanges."""
    whole = HardwareLink(bandwidth=100.0, latency=0.5, directions=2, axes=axes)
    quarter = whole.model_copy(update={"bandwidth": 25.0})
    for name in ("ring_seconds", "exchange_seconds"):
        found = getattr(whole, name)(800.0, devices, 0.25)
        assert (
            found == getattr(quarter, name)(800.0, devices) > getattr(whole, name)(800.0, devices)
        )


@pytest.mark.parametrize(
    ("platform", "memory", "room"),
    [
        ("cpu", 1e9, 1e9),
        ("tpu", 16e9, 16e9 - 2**29),
        ("gpu", 16e9, 16e9 - 2**31),
        ("gpu", 160e9, 0.975 * 160e9),
    ],
)
def test_programs_have_what_the_runtime_of_a_device_leaves(
    platform: Any, memory: float, room: float
) -> None:
    assert changed(platform=platform, memory=memory).usable_memory == pytest.approx(room)


@pytest.mark.parametrize(
    ("devices", "stride", "inside"), [(4, 4, 2), (8, 2, 4), (3, 8, 1), (16, 1, 8), (12, 1, 8)]
)
def test_a_group_is_counted_alike_with_and_without_its_last_gap(
    devices: int, stride: int, inside: int
) -> None:
    outside = -(-devices // inside)
    link, network = ABACUS.reached_link, ABACUS.reached_network
    seconds = link.ring_seconds(960.0, inside) + network.ring_seconds(960.0 / inside, outside)
    for span in (devices * stride, (devices - 1) * stride + 1):
        assert ABACUS.group_seconds(960.0, devices, span) == pytest.approx(seconds)


def test_sending() -> None:
    assert ABACUS.send_seconds(800.0, distance=7) == pytest.approx(0.25 + 1.0)
    assert ABACUS.send_seconds(800.0, distance=8) == pytest.approx(2.0 + 16.0)


# Properties


@given(links, sizes, groups, st.floats(1, 10))
def test_more_bandwidth_is_never_slower(
    link: HardwareLink, data: float, devices: int, more: float
) -> None:
    faster = link.with_fraction(more)
    assert faster.ring_seconds(data, devices) <= link.ring_seconds(data, devices)
    assert faster.send_seconds(data) <= link.send_seconds(data)


@given(links, links, sizes, groups, st.integers(1, 8), st.integers(1, 64))
def test_a_group_takes_one_ring_in_a_domain_and_two_beyond(
    link: HardwareLink, network: HardwareLink, data: float, devices: int, stride: int, domain: int
) -> None:
    device = changed(link=link, network=network, domain=domain)
    seconds = device.group_seconds(data, devices, devices * stride)
    if devices * stride <= domain:
        assert seconds == (device.reached_link.ring_seconds(data, devices) if data else 0)
    elif devices > 1 and data:
        inside = min(devices, max(1, domain // stride))
        shares = device.reached_network.ring_seconds(data / inside, -(-devices // inside))
        assert seconds == pytest.approx(device.reached_link.ring_seconds(data, inside) + shares)


@given(sizes, sizes, groups, st.integers(1, 8))
def test_more_data_is_never_faster(one: float, other: float, devices: int, stride: int) -> None:
    less, more = sorted((one, other))
    span = devices * stride
    assert ABACUS.group_seconds(less, devices, span) <= ABACUS.group_seconds(more, devices, span)


@given(sizes, groups, st.integers(1, 8))
def test_a_better_network_never_slows_a_group(data: float, devices: int, stride: int) -> None:
    better = changed(network=ABACUS.network.with_fraction(2.0))
    span = devices * stride
    assert better.group_seconds(data, devices, span) <= ABACUS.group_seconds(data, devices, span)


# Reading


def test_a_file_that_someone_has_written(tmp_path: Path) -> None:
    path = written(tmp_path, VALUES)
    assert load_hardware(str(path)) == ABACUS
    # It may be measured again meanwhile.
    written(tmp_path, {**VALUES, "memory": 2e9})
    assert load_hardware(str(path)).memory == 2e9


def test_an_unknown_name_lists_the_valid_ones() -> None:
    with pytest.raises(HardwareError, match=r"'h1000' is unknown; valid: a100, b200, h100, .*v6e"):
        load_hardware("h1000")
    with pytest.raises(HardwareError, match=r"'\.\./hardware/h100' is unknown"):
        load_hardware("../hardware/h100")


def wrong() -> Iterator[tuple[str, dict[str, Any], str]]:
    """Name of the case, values, and what the message must say beside the file."""
    yield "unknown", {**VALUES, "colour": 1}, r"colour: unknown key; valid: name, title, .*domain"
    link = {**VALUES["link"], "width": 3}
    yield "nested", {**VALUES, "link": link}, r"link\.width: unknown key; valid: bandwidth, latency"
    less = {key: value for key, value in VALUES.items() if key != "memory"}
    yield "missing", less, "memory: required, but not given"
    yield "negative", {**VALUES, "memory": -1}, "memory: -1 is refused: .*greater than 0"
    yield "no number", {**VALUES, "host": "many"}, "host: 'many' is refused: .*integer"
    yield "infinite", {**VALUES, "memory": float("inf")}, "memory: inf is refused: .*finite"
    half = {**VALUES["efficiency"], "matmul": 1.5}
    yield "range", {**VALUES, "efficiency": half}, r"efficiency\.matmul: 1\.5 .* equal to 1"
    yield "platform", {**VALUES, "platform": "npu"}, "platform: 'npu' is refused: .*'cpu', 'gpu'"
    yield "type", {**VALUES, "flops": {"int3": 1.0}}, "flops: .*int3: unknown type; valid: bfloat16"
    yield "types", {**VALUES, "flops": {}}, "flops: .*names no type; valid: bfloat16"
    peak = {"bfloat16": 0.0}
    yield "flops", {**VALUES, "flops": peak}, r"flops\.bfloat16: 0\.0 is refused: .*greater"
    three = {**VALUES["link"], "directions": 3}
    yield "ways", {**VALUES, "link": three}, r"link\.directions: 3 is refused: .* 1 or 2"


@pytest.mark.parametrize(("values", "message"), [pytest.param(*c[1:], id=c[0]) for c in wrong()])
def test_wrong_values(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    path = written(tmp_path, values)
    with pytest.raises(HardwareError, match=f"^{re.escape(str(path))}: {message}"):
        read_hardware(path)


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(HardwareError, match=r"(?s)memory: .*; host: "):
        read_hardware(written(tmp_path, {**VALUES, "memory": 0, "host": 0}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"flops: [", "is not YAML"),
        (b"", "must hold keys such as `flops:`, not None"),
        (b"- a\n- b\n", r"must hold keys such as `flops:`, not \['a', 'b'\]"),
        (b"\xff\xfe\xff", "cannot be read: .*utf-8"),
    ],
)
def test_what_is_no_description(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(HardwareError, match=f"^{re.escape(str(path))}: {message}"):
        load_hardware(str(path))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HardwareError, match=r"none\.yaml: cannot be read: .*No such file"):
        load_hardware(str(tmp_path / "none.yaml"))


def test_a_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "FOLDER", tmp_path / "configs" / "hardware")
    for ask in (hardware_names, lambda: load_hardware("h100"), lambda: of_kind("TPU v4")):
        with pytest.raises(HardwareError, match=r"holds no descriptions .* install it again"):
            ask()


def test_a_description_never_changes_and_has_finite_numbers() -> None:
    own = load_hardware("h100")
    parts = [own, *(part for _, part in own if isinstance(part, BaseModel))]
    assert len(parts) > 1
    for part in parts:
        key, value = next(iter(part))
        with pytest.raises(ValidationError, match="frozen"):
            setattr(part, key, value)
        with pytest.raises(ValidationError, match="extra"):
            type(part).model_validate({**part.model_dump(), "strange": 1})
    link = next(part for part in parts if isinstance(part, HardwareLink))
    for number in (float("inf"), float("nan")):
        with pytest.raises(ValidationError, match="finite"):
            HardwareLink.model_validate({**link.model_dump(), "bandwidth": number})
