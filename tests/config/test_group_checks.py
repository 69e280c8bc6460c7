"""Groups of modules with devices of their own are refused where they cannot be had."""

from __future__ import annotations

from typing import Any

import pytest

from tests.config.test_load import holds_all, refused
from tests.configs import ENCODERS_HALVED, config

ONE = {"devices": 1, "decoder": {}, "encoders": {"vision": {}, "audio": {}}}
HALVES = {
    "text": {"modules": ["decoder"], "quota": 0.5},
    "media": {"modules": ["vision", "audio"], "quota": 0.5},
}
RANGES = {
    "text": {"modules": ["decoder"], "devices": [0, 1]},
    "media": {"modules": ["vision", "audio"], "devices": [3, 3]},
}
STREAMS = {name: {**group, "quota": "none"} for name, group in HALVES.items()}
STAGES = {
    "text": {"modules": ["decoder", "audio"], "devices": [0, 1]},
    "media": {"modules": ["vision"], "devices": [3, 3]},
}
PAIR = {"vision": {}, "audio": {"data": 2}}
MIXED = ENCODERS_HALVED["groups"]
MEDIA = HALVES["media"]
MEDIA_QUARTER = {**MEDIA, "quota": 0.25}
BUCKETS = {
    "text": {"modules": ["decoder", "short"], "quota": 0.5},
    "media": {"modules": ["long", "audio"], "quota": 0.5},
}
TWO_BUCKETS = {
    "model__encoders__vision__buckets": {"short": 16, "long": None},
    "data__budgets": {"tokens": 64, "segments": 8, "short": 32, "long": 64, "audio": 128},
}
TWO = {"vision": {"data": 2}, "audio": {"data": 2}}


def parallel(groups: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"parallel": {**ONE, "groups": groups, **changes}}


def changed(groups: dict[str, Any], name: str, **values: Any) -> dict[str, Any]:
    return {**groups, name: {**groups[name], **values}}


def test_all_devices_have_a_first_slice_before_any_has_a_second_one() -> None:
    section = config(**parallel(HALVES, devices=2, decoder={"data": 2}, encoders=TWO)).parallel
    assert section.jax_devices == 4
    assert section.module_devices == {"decoder": (0, 1), "vision": (2, 3), "audio": (2, 3)}


def test_ranges_of_devices_are_numbered_as_they_are() -> None:
    section = config(**parallel(RANGES, devices=4, decoder={"data": 2})).parallel
    assert section.jax_devices == 4
    assert section.module_devices == {"decoder": (0, 1), "vision": (3,), "audio": (3,)}


def test_modules_without_quotas_share_the_devices_of_one_program() -> None:
    section = config(**parallel(STREAMS, devices=2, decoder={"data": 2}, encoders=TWO)).parallel
    assert (section.jax_devices, section.module_devices, section.separate_groups) == (2, {}, {})
    assert section.module_streams("decoder") == {"vision": 1, "audio": 1}
    assert section.group_lines[0] == "group text: decoder on streams of devices 0 to 1"


def test_devices_of_a_range_have_slices_beside_whole_devices() -> None:
    section = config(**parallel(MIXED, devices=2)).parallel
    assert section.jax_devices == 3
    assert section.module_devices == {"decoder": (0,), "vision": (1,), "audio": (2,)}
    assert section.group_place("sounds") == "50% of device 1"


def test_slices_of_gpus_may_be_unequal_and_have_shares_of_memory() -> None:
    text = {**HALVES["text"], "quota": 0.75, "memory": 0.6}
    changes = parallel({"text": text, "media": MEDIA_QUARTER}, platform="gpu")
    assert config(**changes).parallel.jax_devices == 2


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        (
            parallel(changed(HALVES, "media", modules=["vision"])),
            ["parallel.groups: audio is in no group; valid: audio among the modules of one of"],
        ),
        (
            parallel(changed(HALVES, "media", modules=["vision", "audio", "sound"])),
            ["groups.media.modules: sound is no module; valid: decoder, vision, audio"],
        ),
        (
            parallel(changed(HALVES, "text", modules=["decoder", "audio"])),
            ["audio is in 2 groups; valid: audio in one of them"],
        ),
        (
            parallel(changed(HALVES, "text", quota=0.75)),
            ["quotas of the same devices, text 0.75, media 0.5, sum to 1.25; valid: quotas that"],
        ),
        (
            parallel({"text": {**HALVES["text"], "quota": 0.75}, "media": MEDIA_QUARTER}),
            ["quotas text 0.75, media 0.25 are unequal", "valid: quota 0.5 for each group"],
        ),
        (
            parallel(changed(HALVES, "text", quota=None)),
            ["groups.media.devices: device 0 belongs to text, too", "or a quota for each"],
        ),
        (
            parallel(HALVES, platform="tpu"),
            ["quotas are refused, as TPUs have no slices; valid: devices of its own for each"],
        ),
        (
            parallel(
                {"text": {**HALVES["text"], "quota": 0.625}, "media": {**MEDIA, "quota": 0.375}},
                platform="gpu",
            ),
            ["groups.text.quota: 0.625 is no whole number of percents", "valid: 0.62 or 0.63"],
        ),
        (
            parallel(changed(HALVES, "text", quota="none"), platform="gpu"),
            ["text with quota none beside media of other", "valid: quota none for each group, or"],
        ),
        (
            parallel(STREAMS, platform="tpu"),
            ["quota none is refused, as streams are of GPUs; valid: devices of its own for each"],
        ),
        (
            parallel(changed(STREAMS, "text", devices=[0, 0])),
            ["a group has devices and quota none, by which all groups share", "devices null"],
        ),
        (
            parallel({"all": {"modules": ["decoder", "vision", "audio"], "quota": "none"}}),
            ["all with quota none is the only group", "valid: two groups or more, or no groups"],
        ),
        (
            parallel(changed(STREAMS, "text", memory=0.5), platform="gpu"),
            ["groups.text.memory: 0.5 has no effect, as text has no slice of a GPU; valid: null"],
        ),
        (
            parallel(changed(HALVES, "text", quota="all"), platform="gpu"),
            ["parallel.groups.text.quota", "none"],
        ),
        (
            {
                **parallel(STREAMS, devices=2, decoder={"stage": 2}, encoders=TWO),
                "train__accumulate": 2,
            },
            ["decoder.stage: 2 is refused, as modules in groups with quota none have no stages"],
        ),
        (
            parallel(changed(HALVES, "text", memory=0.75), platform="gpu"),
            ["shares of memory text 0.75, media 0.5 sum to 1.25 (memory, or else quota)"],
        ),
        (
            {**parallel(HALVES), "train__gradient_caching": True},
            ["train.gradient_caching: true is refused, as programs of groups", "valid: null"],
        ),
        (
            parallel(changed(HALVES, "text", memory=0.75)),
            ["groups.text.memory: 0.75 has no effect, as text has no slice of a GPU; valid: null"],
        ),
        (
            parallel(changed(RANGES, "media", devices=[1, 1]), devices=4, decoder={"data": 2}),
            ["groups.media.devices: device 1 belongs to text, too; valid: devices of media alone"],
        ),
        (
            parallel(changed(RANGES, "media", devices=[4, 4]), devices=4, decoder={"data": 2}),
            ["[4, 4] are no devices of 4; valid: first and last of 0 to 3"],
        ),
        (
            parallel(changed(RANGES, "text", devices=[1, 0]), devices=4, decoder={"data": 2}),
            ["groups.text.devices: [1, 0] are no devices of 4; valid: first and last of 0 to 3"],
        ),
        (
            parallel(changed(MIXED, "images", devices=[0, 1]), devices=2),
            ["groups.images.devices: device 0 belongs to text, too; valid: devices of images"],
        ),
        (
            parallel(changed(MIXED, "sounds", devices=[0, 1]), devices=2),
            [
                "groups.sounds.devices: device 0 belongs to text, too; valid: devices of sounds",
                "or a quota for each of the groups, on the same devices",
            ],
        ),
        (
            parallel(changed(MIXED, "images", quota=0.25), devices=2),
            ["quotas of the same devices, images 0.25, sounds 0.5, sum to 0.75"],
        ),
        (
            parallel(MIXED, devices=2, platform="gpu"),
            ["slices of some GPUs alone are refused", "valid: a quota of all devices for each"],
        ),
        (
            parallel(changed(HALVES, "text", quota=1.5)),
            ["parallel.groups.text.quota: 1.5 is refused", "less than 1"],
        ),
        (
            parallel(changed(RANGES, "text", devices=None), devices=4, decoder={"data": 4}),
            ["groups.media.devices: device 3 belongs to text, too", "or a quota for each"],
        ),
        (
            {
                **parallel(BUCKETS, encoders={"short": {}, "long": {}, "audio": {}}),
                **TWO_BUCKETS,
            },
            [
                "short is in text and long in media, but both are of vision and share its",
                "valid: one group for both",
            ],
        ),
        (
            parallel(RANGES, devices=4, encoders={"vision": {"stage": 2}, "audio": {}}),
            ["vision.stage: 2 is refused, as in groups decoder alone has stages"],
        ),
        (
            parallel(STAGES, devices=4, decoder={"stage": 2}, encoders=PAIR),
            ["parallel.decoder.stage: 2 is refused, as stages in a group have no place for audio"],
        ),
        (
            parallel(RANGES, devices=4, decoder={"stage": 2}) | {"schedule__kind": "gpipe"},
            ["schedule.kind: gpipe is refused, as stages in a group run 1f1b with one chunk each"],
        ),
        (
            parallel(RANGES, devices=4, decoder={"stage": 2}) | {"train__check_schedules": True},
            ["train.check_schedules: true has no effect, as stages are in a group; valid: false"],
        ),
        (
            parallel(RANGES, devices=4, decoder={"data": 4}),
            ["parallel.decoder: data 4 covers 4 devices, but decoder has 2; valid: "],
        ),
    ],
)
def test_groups_are_refused_by_name(changes: dict[str, Any], parts: list[str]) -> None:
    message = refused(**changes)
    assert holds_all(message, parts), message
