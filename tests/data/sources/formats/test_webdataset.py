"""Tar files: members with one key are a sample, and nothing in them is dangerous."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.processing.processor import make_processor
from data.sample import DataError, SampleError, StorageError
from data.sources.formats.storage import local_file
from data.sources.formats.webdataset import _members_of
from data.sources.make import make_source
from tests.data.samples import AUDIO, VISION, MakeConfig
from tests.data.sources.formats.writers import SAMPLES, encoded_clip, encoded_image, members_of, tar

PNG, WAV = encoded_image((40, 16)), encoded_clip(800)
TOLD = json.dumps(
    {"conversations": [{"from": "human", "value": "<image> What?"}, {"from": "gpt", "value": "A."}]}
).encode()
GOOD = [("7.json", TOLD), ("7.png", PNG)]


@pytest.fixture
def opened(make_config: MakeConfig, tmp_path: Path) -> Any:
    """Writes members into an archive and opens it as a source."""

    def make(members: Any = None, **options: Any) -> Any:
        if members is not None:
            tar(tmp_path / "a.tar", members)
        source = {"kind": "webdataset", "path": tmp_path} | options
        config = make_config(source=source, tokenizer="bytes", cache=tmp_path / "cache")
        return make_source(config), make_processor(config, [VISION, AUDIO])

    return make


def texts(sample: Any) -> list[str]:
    return [turn.text for turn in sample.turns]


def test_keys_are_paths_up_to_the_first_dot(opened: Any) -> None:
    members = [
        ("b/0.0.png", PNG),
        ("b/0.1.PNG", PNG),
        ("b/0.txt", b"Two."),
        ("c/0.wav", WAV),
        ("c/0.cls", b"7"),
        ("c/0.txt", b"One."),
        ("d.v2/README", b""),
        ("._e.png", b"from a Mac"),
    ]
    source, processor = opened(members)
    assert [source.name(i) for i in range(len(source))] == ["a.tar:b/0", "a.tar:c/0"]
    assert texts(source[0]) == ["<image>\n<image>\n", "Two."]
    assert texts(source[1]) == ["<audio>\n", "One."]
    assert processor.measure(source[0]).media == {"vision": (5, 5)}
    assert processor.measure(source[1]).media == {"audio": (10,)}


def test_images_of_a_sample_are_in_the_order_of_their_numbers(opened: Any) -> None:
    wide = {number: encoded_image((8 * (number + 1), 16)) for number in range(12)}
    members = [(f"0.{number}.png", wide[number]) for number in sorted(wide, key=str)]
    source, _ = opened([("0.txt", b"A."), ("0.front.png", PNG), *members])
    sizes = [image.size() for image in source[0].of("image")]
    assert sizes == [(16, 40), *((16, 8 * (number + 1)) for number in range(12))]


def test_a_byte_order_mark_is_no_part_of_a_text(opened: Any) -> None:
    mark = b"\xef\xbb\xbf"
    members = [("0.png", PNG), ("0.txt", mark + b"A."), ("1.png", PNG), ("1.json", mark + TOLD)]
    source, _ = opened(members)
    assert [texts(source[i])[-1] for i in range(2)] == ["A.", "A."]


def test_a_caption_is_read_where_the_record_tells_nothing(opened: Any) -> None:
    members = [("0.json", b'{"url": "http://x"}'), ("0.txt", b"A."), ("0.png", PNG)]
    assert texts(opened(members)[0][0]) == ["<image>\n", "A."]
    told = [("0.json", TOLD), ("0.txt", b"no"), ("0.png", PNG)]
    assert texts(opened(told)[0][0]) == ["<image> What?", "A."]
    named = [("0.json", b'{"c": "B.", "id": 1}'), ("0.png", PNG)]
    assert texts(opened(named, fields={"answer": "c"})[0][0]) == ["<image>\n", "B."]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("7.png", PNG), ("7.cls", b"")], "has no member .json or .txt; it has cls, png"),
        ([("7.json", b"{"), ("7.png", PNG)], "'7.json' is not JSON"),
        ([("7.json", b"[" * 10**6)], "'7.json' is not JSON: maximum recursion"),
        ([("7.txt", b"\xff"), ("7.png", PNG)], "'7.txt' is not UTF-8"),
        ([("7.json", b"[]")], "a list, not a mapping"),
        ([("7.txt", b"a cat")], "a caption without media"),
        ([("7.txt", b"a cat"), ("7.heic", PNG)], "'7.heic' is not read; .*ignore: \\['.heic'\\]"),
        ([("7.json", b'{"question": "What?", "answer": "A."}')], "no member of the sample is"),
        (
            [("7.json", b'{"mesages": []}'), ("7.txt", b"a"), ("7.png", PNG)],
            "7?json beside a caption: mesages: it is not read, and like messages",
        ),
        ([("7.json", b'{"a": 1}')], "it has a; valid: conversations"),
        ([*GOOD[:1], ("7.png", PNG[:20])], "is not a readable image"),
        ([*GOOD[:1], ("7.0.png", PNG), ("7.1.png", PNG)], "1 <image> placeholders for 2 image"),
        (
            [("7.json", TOLD[:-1] + b', "image": "8.png"}'), ("7.png", PNG)],
            "'8.png' is no member of this sample, which has 7.json, 7.png",
        ),
        ([("7.json", TOLD[:-1] + b', "image": "/etc/hosts"}')], "'/etc/hosts' is no member"),
    ],
)
def test_a_bad_sample_is_one_bad_sample(members: Any, message: str, opened: Any) -> None:
    good = [(name.replace("7", "9"), data) for name, data in GOOD]
    source, processor = opened([*members, *good])
    with pytest.raises(SampleError, match=f"sample a.tar:7: .*{message}"):
        processor.measure(source[0])
    assert processor.measure(source[1]).media == {"vision": (5,)}


# ---- archives ------------------------------------------------------------------------------------


def special(name: str, kind: bytes) -> Callable[[Path], object]:
    """An archive that ends with a member that is no file."""

    def write(path: Path) -> None:
        with tarfile.open(path, "a") as archive:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)

    return write


def member(name: str) -> Callable[[Path], object]:
    """An archive with one more file."""
    return lambda path: tar(path, [*GOOD, (name, b"x")])


def cut(end: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes()[:end])


def flip(at: int) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 0xFF
        path.write_bytes(data)

    return write


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "symbolic link": (special("8.png", tarfile.SYMTYPE), "member '8.png' is no regular file"),
    "hard link": (special("8.png", tarfile.LNKTYPE), "member '8.png' is no regular file"),
    "character device": (special("8.png", tarfile.CHRTYPE), "member '8.png' is no regular file"),
    "block device": (special("8.png", tarfile.BLKTYPE), "member '8.png' is no regular file"),
    "pipe": (special("8.png", tarfile.FIFOTYPE), "member '8.png' is no regular file"),
    "sparse file": (special("8.png", tarfile.GNUTYPE_SPARSE), "no (regular file|whole tar)"),
    "parent path": (member("a/../../8.png"), "has a path that leads out of the archive"),
    "absolute path": (member("/etc/8.png"), "has a path that leads out of the archive"),
    "backslashes": (member("..\\8.png"), "has a path that leads out of the archive"),
    "pickle": (member("8.pkl"), "member '8.pkl' is a pickle, which is never read"),
    "pyd": (member("7.pyd"), "member '7.pyd' is a pickle, which is never read"),
    "torch": (member("8.feature.pth"), "is a pickle, which is never read"),
    "twice": (member("7.png"), "member '7.png' is there twice"),
    "apart": (
        lambda path: tar(path, [*GOOD, ("8.json", TOLD), ("7.wav", WAV)]),
        "member '7.wav' is apart from the others of its sample",
    ),
    "nothing": (cut(0), "a.tar is no whole tar file: empty file"),
    "cut in a header": (cut(700), "a.tar (is no whole|is cut off|is damaged)"),
    "cut in a file": (cut(2000), "member '7.png' goes on behind the end of the file"),
    "cut between members": (cut(1024), "a.tar is cut off at byte 1024"),
    "first header": (flip(3), "a.tar is no whole tar file"),
    "second header": (flip(1030), "a.tar is damaged: no header at byte 1024"),
    "junk": (lambda path: path.write_bytes(b"junk" * 5000), "is no whole tar file"),
    "two in one": (
        lambda path: path.write_bytes(path.read_bytes() * 2),
        "goes on behind its end at byte",
    ),
    "compressed": (
        lambda path: path.write_bytes(gzip.compress(path.read_bytes())),
        r"compressed \(gzip\), so that its members cannot be read in any order; valid: plain .tar",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_archive_that_is_damaged_or_dangerous_is_refused(
    name: str, opened: Any, tmp_path: Path
) -> None:
    damage, message = BROKEN[name]
    tar(tmp_path / "a.tar", GOOD)
    damage(tmp_path / "a.tar")
    with pytest.raises(DataError, match=message):
        opened()
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]


def test_a_compressed_archive_in_a_folder_is_refused_and_not_passed_over(
    opened: Any, tmp_path: Path
) -> None:
    tar(tmp_path / "a.tar", GOOD)
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress((tmp_path / "a.tar").read_bytes()))
    with pytest.raises(DataError, match=r"b.tar.gz is compressed \(gzip\)"):
        opened()


@given(data=st.data())
def test_any_damage_is_an_error_a_bad_sample_or_none(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Random bytes in random places: no other exception, and nothing read outside."""
    path = tmp_path_factory.mktemp("tar") / "a.tar"
    tar(path, [m for i, s in enumerate(SAMPLES[:2]) for m in members_of(str(i), s)])
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    file = local_file(path)
    with suppress(DataError):
        members = list(_members_of(file))
        assert all(0 <= m.offset <= m.offset + m.size <= file.size for m in members)


def test_long_names_and_other_formats_of_tar(opened: Any, tmp_path: Path) -> None:
    name = "é" * 150
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        with tarfile.open(tmp_path / "a.tar", "w", format=form) as archive:
            for ending, data in (("json", TOLD), ("png", PNG)):
                info = tarfile.TarInfo(f"{name}.{ending}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
            archive.addfile(special_folder())
        source, processor = opened()
        assert source.name(0) == f"a.tar:{name}"
        assert processor.measure(source[0]).media == {"vision": (5,)}


def special_folder() -> tarfile.TarInfo:
    info = tarfile.TarInfo("folder")
    info.type = tarfile.DIRTYPE
    return info


def test_shards_that_change_under_the_run_end_it(opened: Any, tmp_path: Path) -> None:
    source, _ = opened(GOOD)
    (tmp_path / "a.tar").write_bytes(b"")
    with pytest.raises(StorageError, match="it has changed, or is not whole"):
        source[0]
