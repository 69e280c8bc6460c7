"""Tar files: members with one key are a sample, and nothing in them is dangerous."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from data.processing.processor import make_processor
from data.sample import DataError, SampleError, StorageError
from data.sources.formats.storage import local_file
from data.sources.formats.webdataset import HARMLESS, _members_of
from data.sources.make import make_source
from tests.data.samples import AUDIO, TEXT, VISION, MakeConfig, media_counts
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
        return make_source(config), make_processor(config, [TEXT, VISION, AUDIO])

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
    assert texts(source[0, 0]) == ["<image>\n<image>\n", "Two."]
    assert texts(source[1, 0]) == ["<audio>\n", "One."]
    assert media_counts(processor.measure(source[0, 0])) == {"vision": (5, 5)}
    assert media_counts(processor.measure(source[1, 0])) == {"audio": (10,)}


def test_images_of_a_sample_are_in_the_order_of_their_numbers(opened: Any) -> None:
    wide = {number: encoded_image((8 * (number + 1), 16)) for number in range(12)}
    members = [(f"0.{number}.png", wide[number]) for number in sorted(wide, key=str)]
    source, _ = opened([("0.txt", b"A."), *members, ("0.png", PNG)])
    sizes = [image.image_size() for image in source[0, 0].of("image")]
    assert sizes == [(16, 40), *((16, 8 * (number + 1)) for number in range(12))]


def test_a_byte_order_mark_is_no_part_of_a_text(opened: Any) -> None:
    mark = b"\xef\xbb\xbf"
    members = [("0.png", PNG), ("0.txt", mark + b"A."), ("1.png", PNG), ("1.json", mark + TOLD)]
    source, _ = opened(members)
    assert [texts(source[i, 0])[-1] for i in range(2)] == ["A.", "A."]


def test_a_caption_is_read_where_the_record_tells_nothing(opened: Any) -> None:
    members = [("0.json", b'{"url": "http://x"}'), ("0.txt", b"A."), ("0.png", PNG)]
    assert texts(opened(members)[0][0, 0]) == ["<image>\n", "A."]
    named = [("0.json", b'{"c": "B.", "id": 1}'), ("0.png", PNG)]
    assert texts(opened(named, fields={"answer": "c"})[0][0, 0]) == ["<image>\n", "B."]


@pytest.mark.parametrize(
    ("caption", "message"),
    [
        (b"A cat <image>.", "caption: '<image>' in an answer, where media belong to the question"),
        (b"<image 1> is a cat.", "caption: '<image 1>': image media have another placeholder"),
        (b"<image_path>a.png</image_path>", "image media are not read from tags in a text"),
    ],
)
def test_a_caption_that_has_the_place_of_a_medium_is_refused(
    caption: bytes, message: str, opened: Any
) -> None:
    with pytest.raises(SampleError, match=message):
        opened([("0.txt", caption), ("0.png", PNG)])[0][0, 0]


def with_keys(**keys: object) -> bytes:
    return json.dumps(json.loads(TOLD) | keys).encode()


TWO = [{"from": "human", "value": "<image><image> Same?"}, {"from": "gpt", "value": "No."}]
#: Members, their order in a sample of a record, and the widths of the images that it has.
READ: dict[str, tuple[list[tuple[str, bytes]], list[int]]] = {
    "an ending in capitals": ([("7.JSON", TOLD), ("7.PNG", PNG)], [40]),
    "members of no meaning": ([*GOOD, ("7.cls", b"1"), ("7.meta.json", b"{}")], [40]),
    "keys of WebDataset": ([*GOOD, ("7.__key__", b"7"), ("7.__url__", b"a.tar")], [40]),
    "a name by its ending": ([("7.json", with_keys(image="seg.png")), ("7.seg.png", PNG)], [40]),
    "all of several by name": (
        [
            ("7.json", with_keys(conversations=TWO, image=["mask.png", "jpg"])),
            ("7.jpg", encoded_image((24, 16), "JPEG")),
            ("7.mask.png", PNG),
        ],
        [40, 24],
    ),
    "a name before an ending": (
        [
            ("0.json", with_keys(conversations=TWO, images=["0.0.png", "0.png"])),
            ("0.0.png", encoded_image((24, 16))),
            ("0.png", PNG),
        ],
        [24, 40],
    ),
    "two kinds": (
        [("7.png", PNG), ("7.wav", WAV), ("7.txt", b"A dog barks.")],
        [40],
    ),
}


@pytest.mark.parametrize("name", READ)
def test_members_of_a_sample_that_are_read(name: str, opened: Any) -> None:
    members, widths = READ[name]
    sample = opened(members)[0][0, 0]
    assert [image.image_size()[1] for image in sample.of("image")] == widths
    read, passed = sample.keys
    message = {own for own in (*read, *passed) if own.startswith(".")}
    assert message == {f".{own.partition('.')[2].lower()}" for own, _ in members}


def numbered(*numbers: str) -> list[tuple[str, bytes]]:
    return [("7.txt", b"A."), *((f"7.{number}.png", PNG) for number in numbers)]


@pytest.mark.parametrize(
    ("numbers", "lost"),
    [
        (("0", "2"), ("2", 1)),
        (("1", "3"), ("3", 2)),
        (("2",), ("2", 1)),
        (("000", "001", "003"), ("003", 2)),
        ((*map(str, range(10)), "11"), ("11", 10)),
        (("0", "1000000"), ("1000000", 999999)),
    ],
)
def test_a_gap_between_numbers_is_told_as_a_member_may_be_lost(
    numbers: tuple[str, ...], lost: tuple[str, int], opened: Any
) -> None:
    source, _ = opened(numbered(*numbers))
    message = (
        rf"'7.{lost[0]}.png' has number {int(lost[0])} among the image media .* number {lost[1]}"
    )
    with pytest.raises(SampleError, match=f"{message}; valid: numbers without a gap from 0 or 1"):
        source[0, 0]


@pytest.mark.parametrize(
    "members",
    [
        numbered("0"),
        numbered("1"),
        numbered("00", "01", "02"),
        numbered("1", "2", "3"),
        [*numbered("1", "2"), ("7.png", PNG)],
        [*numbered("0", "1"), ("7.1.wav", WAV)],  # each kind has numbers of its own
    ],
)
def test_numbers_without_a_gap_are_read(members: Any, opened: Any) -> None:
    images = [name for name, _ in members if name.endswith(".png")]
    assert len(opened(members)[0][0, 0].of("image")) == len(images)


def test_numbers_of_members_that_are_ignored_or_named_leave_no_gap(opened: Any) -> None:
    source, _ = opened(numbered("0", "1", "2"), ignore=[".1.png"])
    assert len(source[0, 0].of("image")) == 2
    named = with_keys(conversations=TWO, images=["0.png", "2.png"])
    members = [("7.json", named), ("7.0.png", PNG), ("7.2.png", PNG)]
    assert len(opened(members)[0][0, 0].of("image")) == 2


MASK = ("7.seg.png", PNG)
CAPTION = [("7.txt", b"A cat."), ("7.png", PNG)]
#: Members, of which one would not be read; what is said of it, and the endings by which it goes.
UNREAD: dict[str, tuple[list[tuple[str, bytes]], str, list[str]]] = {
    "a caption beside a record": (
        [*GOOD, ("7.txt", b"A.")],
        r"'7.json' beside '7.txt': it is a record by itself, so that the caption would not be read",
        [".txt", ".json"],
    ),
    "a caption beside two pairs": (
        [*CAPTION, ("7.json", b'{"question": "", "answer": "", "query": "", "response": ""}')],
        "'7.json' beside '7.txt': it has question, answer and query, response",
        [".json"],
    ),
    "a list": ([*CAPTION, ("7.json", b"[1]")], "'7.json' beside '7.txt' is a list", [".json"]),
    "null": ([*CAPTION, ("7.json", b"null")], "'7.json' beside '7.txt' is null", [".json"]),
    "a question": (
        [*CAPTION, ("7.json", b'{"question": "What?"}')],
        "'7.json' beside '7.txt': question: it is not read beside a caption",
        [".json"],
    ),
    "a system message": (
        [*CAPTION, ("7.json", b'{"system": "Be brief."}')],
        "system: it is not read beside a caption",
        [".json"],
    ),
    "names of media": (
        [*CAPTION, ("7.json", b'{"image": "7.png"}')],
        "image: it is not read beside a caption",
        [".json"],
    ),
    "an encoder": (
        [*CAPTION, ("7.json", b'{"image_encoder": "other"}')],
        "image_encoder: it is not read beside a caption",
        [".json"],
    ),
    "a mask beside a caption": (
        [*CAPTION, MASK],
        r"'7.seg.png' is not read: its ending is 'seg.png'; valid: .png, of several .0.png, or a",
        [".seg.png"],
    ),
    "a mask beside a record": ([*GOOD, MASK], "'7.seg.png' is not read", [".seg.png"]),
    "a mask in capitals": ([*GOOD, ("7.Mask.PNG", PNG)], "'7.Mask.PNG' is not read", [".mask.png"]),
    "a mask of another type": (
        [("7.json", TOLD), ("7.jpg", encoded_image(form="JPEG")), ("7.mask.png", PNG)],
        "'7.mask.png' is not read",
        [".mask.png", ".png"],
    ),
    "a further image": (
        [("7.json", with_keys(images=["0.png"])), ("7.0.png", PNG), ("7.1.png", PNG)],
        "'7.1.png' is not read: the record names the image media of the sample, and not this one",
        [".1.png"],
    ),
    "an image beside one in the record": (
        [("7.json", with_keys(image="data:image/png;base64,")), ("7.png", PNG)],
        "'7.png' is not read: the record names the image media",
        [".png"],
    ),
    "two types": (
        [*CAPTION, ("7.jpg", encoded_image(form="JPEG"))],
        "'7.jpg' is not read: it and '7.png' have the same place among the image media",
        [".jpg"],
    ),
    "a number twice": (
        [("7.txt", b"A."), ("7.0.png", PNG), ("7.00.png", PNG)],
        "'7.00.png' is not read: it and '7.0.png' have the same place",
        [".00.png"],
    ),
    "a part of a clip": (
        [("7.txt", b"A."), ("7.wav", WAV), ("7.left.wav", WAV)],
        "'7.left.wav' is not read: its ending is 'left.wav'",
        [".left.wav"],
    ),
    "an answer by another name": (
        [*GOOD, ("7.caption.txt", b"A.")],
        "'7.caption.txt' is not read: no text and no medium has the ending 'caption.txt'",
        [".caption.txt"],
    ),
    "an array": ([*GOOD, ("7.NPY", b"")], "'7.NPY' is not read", [".npy"]),
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_member_that_nothing_reads_makes_a_bad_sample_unless_it_is_ignored(
    name: str, opened: Any, tmp_path: Path
) -> None:
    members, message, ignored = UNREAD[name]
    source, _ = opened(members)
    with pytest.raises(SampleError, match=f"sample a.tar:7: .*{message}") as raised:
        source[0, 0]
    for ending in ignored:
        assert f"['{ending}']" in str(raised.value) or ending == ".png"
        assert opened(ignore=[ending.upper()])[0][0, 0].turns


def test_a_type_of_members_that_are_read_is_not_to_be_ignored(opened: Any) -> None:
    named = ("7.json", with_keys(images=["0.png"]))
    source, _ = opened([named, ("7.0.png", PNG), ("7.png", PNG)])
    with pytest.raises(SampleError, match=r"'7\.png' is not read") as raised:
        source[0, 0]
    assert str(raised.value).endswith("if it decides nothing, leave it out")


def test_the_page_lists_all_harmless_members() -> None:
    page = (Path(__file__).parents[4] / "docs/how-to/formats.md").read_text()
    listed = page.partition("Harmless are members that\nend in ")[2].partition(".\n")[0]
    assert {*re.findall("`([^`]+)`", listed)} == HARMLESS


def test_what_is_ignored_is_not_read(opened: Any) -> None:
    members = [*GOOD, ("7.seg.png", PNG), ("7.txt", b"A.")]
    source, processor = opened(members, ignore=[".seg.png", ".txt"])
    assert media_counts(processor.measure(source[0, 0])) == {"vision": (5,)}
    assert set(source[0, 0].keys[1]) == {".seg.png", ".txt"}
    source, _ = opened(ignore=[".json", ".txt"])
    with pytest.raises(SampleError, match=r"has no member .json or .txt; it has png, seg.png"):
        source[0, 0]
    named = [("7.json", with_keys(image="seg.png")), MASK]
    with pytest.raises(SampleError, match=r"names 'seg.png', which data.source.ignore leaves out"):
        opened(named, ignore=[".png"])[0][0, 0]


def test_files_that_belong_to_no_sample_are_told_once(
    opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    opened([("README", b""), *GOOD, ("._7.png", b"from a Mac")])
    message = "2 files in the tar files belong to no sample, as their names have no ending"
    assert message in caplog.text
    assert "README, ._7.png" in caplog.text
    caplog.clear()
    opened()
    assert not caplog.text


@pytest.mark.parametrize("ending", ["tools", "image", "seen.weight", "it's", "null", "5"])
def test_a_member_that_decides_nothing_can_be_ignored_as_is_advised(
    ending: str, opened: Any
) -> None:
    members = [("7.txt", b"A."), ("7.png", PNG), (f"7.{ending}", b"")]
    with pytest.raises(SampleError) as caught:
        opened(members)[0][0, 0]
    advised = yaml.safe_load(str(caught.value).partition("data.source.ignore: ")[2])
    assert texts(opened(members, ignore=advised)[0][0, 0]) == ["<image>\n", "A."]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("7.png", PNG), ("7.cls", b"")], "has no member .json or .txt; it has cls, png"),
        ([("7.json", b"{"), ("7.png", PNG)], "'7.json' is not JSON"),
        ([("7.json", b"[" * 10**6)], "'7.json' is not JSON: maximum recursion"),
        ([("7.txt", b"\xff"), ("7.png", PNG)], "'7.txt' is not UTF-8"),
        ([("7.json", b"[]")], "a list, not a mapping"),
        ([("7.txt", b"a cat")], "a caption without media"),
        ([("7.txt", b"a cat"), ("7.heic", PNG)], "'7.heic' is not read: .*ignore: \\['.heic'\\]"),
        ([("7.json", b'{"question": "What?", "answer": "A."}')], "no member of the sample is"),
        (
            [("7.json", b'{"mesages": []}'), ("7.txt", b"a"), ("7.png", PNG)],
            "'7.json' beside '7.txt': mesages: it is not read, and like messages",
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
        processor.measure(source[0, 0])
    assert media_counts(processor.measure(source[1, 0])) == {"vision": (5,)}


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
        "member '7.wav' is separated from the others of its sample",
    ),
    "nothing": (cut(0), "a.tar is no whole tar file: empty file"),
    "cut in a header": (cut(700), "a.tar (is no whole|is cut off|is damaged)"),
    "cut in a file": (cut(2000), "member '7.png' goes on after the end of the file"),
    "cut between members": (cut(1024), "a.tar is cut off at byte 1024"),
    "first header": (flip(3), "a.tar is no whole tar file"),
    "second header": (flip(1030), "a.tar is damaged: no header at byte 1024"),
    "junk": (lambda path: path.write_bytes(b"junk" * 5000), "is no whole tar file"),
    "two in one": (
        lambda path: path.write_bytes(path.read_bytes() * 2),
        "goes on after its end at byte",
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
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
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
        assert media_counts(processor.measure(source[0, 0])) == {"vision": (5,)}


def special_folder() -> tarfile.TarInfo:
    info = tarfile.TarInfo("folder")
    info.type = tarfile.DIRTYPE
    return info


def test_shards_that_change_under_the_run_end_it(opened: Any, tmp_path: Path) -> None:
    source, _ = opened(GOOD)
    (tmp_path / "a.tar").write_bytes(b"")
    with pytest.raises(StorageError, match="it has changed, or is not whole"):
        source[0, 0]
