"""Writers of the same samples in every format."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import msgpack
import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
from array_record.python.array_record_module import ArrayRecordWriter
from numpy.typing import NDArray

MARKS = {"image": "<image>", "audio": "<audio>", "video": "<video>"}
#: Endings of the files of media, by kind.
ENDINGS = {"image": "png", "audio": "wav", "video": "mkv"}
SPEAKERS = {"user": "human", "assistant": "gpt", "system": "system"}
Options = dict[str, Any]  # of `data.source`


@dataclass(frozen=True)
class Part:
    """Text, or the encoded bytes of a medium."""

    kind: str
    value: Any


@dataclass(frozen=True)
class Plain:
    """A sample of no format: roles and what is said."""

    messages: tuple[tuple[str, tuple[Part, ...]], ...]

    def media(self, kind: str) -> list[bytes]:
        """The media of a sample in their order."""
        return [p.value for _, parts in self.messages for p in parts if p.kind == kind]

    def texts(self) -> list[tuple[str, str]]:
        """Roles and texts with placeholders."""
        return [
            (role, "".join(MARKS.get(p.kind, p.value) for p in parts))
            for role, parts in self.messages
        ]

    @property
    def conversations(self) -> list[dict[str, str]]:
        """The turns of a sample in LLaVA's form."""
        return [{"from": SPEAKERS[role], "value": text} for role, text in self.texts()]


def encoded_image(size: tuple[int, int] = (40, 16), form: str = "PNG") -> bytes:
    """An image of (width, height)."""
    pixels = np.random.default_rng(size).integers(0, 256, (size[1], size[0], 3)).astype(np.uint8)
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, form)
    return file.getvalue()


def encoded_clip(samples: int = 1600, form: str = "WAV", channels: int = 1) -> bytes:
    """A clip of 8000 Hz."""
    file = io.BytesIO()
    wave = np.random.default_rng(samples).normal(0, 0.1, (samples, channels))
    soundfile.write(file, wave, 8000, format=form)
    return file.getvalue()


def encoded_video(frames: NDArray[np.uint8]) -> bytes:
    """A video from which just these frames come, [frames, height, width, 3]."""
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as container:
        stream: Any = container.add_stream("ffv1", rate=5)
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], "bgr0"
        for frame in frames:
            for packet in stream.encode(av.VideoFrame.from_ndarray(frame)):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return file.getvalue()


def text(value: str) -> Part:
    """A piece of text."""
    return Part("text", value)


def image(width: int) -> Part:
    """An image."""
    return Part("image", encoded_image((width, 16)))


def clip(samples: int) -> Part:
    """A clip."""
    return Part("audio", encoded_clip(samples))


def video(frames: int) -> Part:
    """A video."""
    rng = np.random.default_rng(frames)
    pixels = rng.integers(0, 256, (frames, 20, 26, 3), np.uint8)
    return Part("video", encoded_video(pixels))


def plain(*messages: tuple[Part, ...]) -> Plain:
    """User and assistant in turn."""
    roles = ("user", "assistant")
    return Plain(tuple((roles[i % 2], parts) for i, parts in enumerate(messages)))


#: Text alone, an image, several, interleaved ones over several turns, a clip, and all of it.
SAMPLES = (
    plain((text("SupervisorHello"),), (text("Hi."),)),
    plain((image(24), text("\nWhat?")), (text("A cat."),)),
    plain((image(16), image(48), text("Same?")), (text("No."),)),
    plain(
        (text("Is "), image(30), text(" or "), image(20), text(" it?")),
        (text("First."),),
        (text("and "), image(10)),
        (text("Yes."),),
    ),
    plain((clip(800), text(" heard?")), (text("Ünïcode — 7."),)),
    Plain(
        (
            ("system", (text("Be brief."),)),
            ("user", (clip(1601), text(" like "), image(33), text(" and "), clip(400))),
            ("assistant", (text("No."),)),
        )
    ),
)


#: A video, and videos before and after an image.
FILMED = (
    plain((video(3), text("\nWhat?")), (text("A cat."),)),
    plain((video(1), image(24), video(2), text(" moves?")), (text("The first."),)),
)


# ---- JSON ----------------------------------------------------------------------------------------


def _files(folder: Path, number: int, sample: Plain) -> dict[str, list[str]]:
    """Write the media of a sample into files; their names by kind."""
    names: dict[str, list[str]] = {}
    for kind, ending in ENDINGS.items():
        names[kind] = [f"{kind}-{number}-{i}.{ending}" for i in range(len(sample.media(kind)))]
        for name, data in zip(names[kind], sample.media(kind), strict=True):
            (folder / name).write_bytes(data)
    return names


def json_list(folder: Path, samples: tuple[Plain, ...]) -> Options:
    """LLaVA's records, one medium not in a list."""
    records = [
        {"conversations": s.conversations}
        | {k: v[0] if len(v) == 1 else v for k, v in _files(folder, i, s).items()}
        for i, s in enumerate(samples)
    ]
    (folder / "train.json").write_text(json.dumps(records))
    return {"kind": "llava", "path": str(folder / "train.json")}


def json_lines(folder: Path, samples: tuple[Plain, ...]) -> Options:
    """Chat messages whose parts name files."""
    lines = []
    for number, sample in enumerate(samples):
        names = {k: iter(v) for k, v in _files(folder, number, sample).items()}
        messages = [
            {"role": role, "content": [_named(part, names) for part in parts]}
            for role, parts in sample.messages
        ]
        lines.append(json.dumps({"messages": messages}, ensure_ascii=False))
    (folder / "train.jsonl").write_text("\n".join(lines), "utf-8")
    return {"kind": "llava", "path": str(folder / "train.jsonl")}


def _named(part: Part, names: dict[str, Any]) -> dict[str, str]:
    value = part.value if part.kind == "text" else next(names[part.kind])
    return {"type": part.kind, part.kind: value}


# ---- Parquet -------------------------------------------------------------------------------------

STORED = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def _shards(folder: Path, table: pa.Table) -> Options:
    """Two files of several row groups."""
    (folder / "data").mkdir(exist_ok=True)
    cut = len(table) // 2
    for number, part in enumerate((table[:cut], table[cut:])):
        path = folder / "data" / f"train-{number:05}-of-00002.parquet"
        pq.write_table(part, path, row_group_size=2)
    return {"kind": "parquet", "path": str(folder)}


def _hub(samples: tuple[Plain, ...]) -> pa.Table:
    """Lists of bytes and paths, as a hub has them."""
    columns: dict[str, Any] = {"id": list(range(len(samples)))}
    for kind in ENDINGS:
        cells = [
            [{"bytes": b, "path": f"{i}.x"} for i, b in enumerate(s.media(kind))] for s in samples
        ]
        columns[f"{kind}s"] = pa.array(cells, pa.list_(STORED))
    columns["conversations"] = [s.conversations for s in samples]
    return pa.table(columns)


def parquet_hub(folder: Path, samples: tuple[Plain, ...]) -> Options:
    """Lists of bytes and paths."""
    return _shards(folder, _hub(samples))


def parquet_plain(folder: Path, samples: tuple[Plain, ...]) -> Options:
    """Lists of bytes under other names, and messages in JSON."""
    columns = {
        "chat": [
            json.dumps([{"role": role, "content": text} for role, text in s.texts()])
            for s in samples
        ],
        "pictures": pa.array([s.media("image") or None for s in samples], pa.list_(pa.binary())),
        "sounds": pa.array([s.media("audio") for s in samples], pa.large_list(pa.large_binary())),
        "films": pa.array([s.media("video") for s in samples], pa.list_(pa.binary())),
    }
    fields = {"conversation": "chat", "image": "pictures", "audio": "sounds", "video": "films"}
    return _shards(folder, pa.table(columns)) | {"fields": fields}


def parquet_parts(folder: Path, samples: tuple[Plain, ...]) -> Options:
    """Messages with media in their parts."""
    rows = [
        [
            {
                "role": role,
                "content": [
                    {"type": p.kind, "text": p.value}
                    if p.kind == "text"
                    else {"type": p.kind, p.kind: {"bytes": p.value, "path": None}}
                    for p in parts
                ],
            }
            for role, parts in s.messages
        ]
        for s in samples
    ]
    texts = [("type", pa.string()), ("text", pa.string())]
    part = pa.struct([*texts, *((kind, STORED) for kind in ENDINGS)])
    message = pa.struct([("role", pa.string()), ("content", pa.list_(part))])
    return _shards(folder, pa.table({"messages": pa.array(rows, pa.list_(message))}))


def parquet_paths(folder: Path, samples: tuple[Plain, ...]) -> Options:
    """Paths of files in place of bytes."""
    columns: dict[str, Any] = {"conversations": [s.conversations for s in samples]}
    named = [_files(folder, i, s) for i, s in enumerate(samples)]
    stored = [[{"bytes": None, "path": n} for n in names["image"]] for names in named]
    columns["image"] = pa.array(stored, pa.list_(STORED))
    for kind in ("audio", "video"):
        columns[kind] = pa.array([names[kind] for names in named], pa.list_(pa.string()))
    return _shards(folder, pa.table(columns)) | {"media": str(folder)}


# ---- Arrow ---------------------------------------------------------------------------------------


def saved(folder: Path, table: pa.Table, rows: int = 2) -> Options:
    """Two files of batches of `rows`, with the list of them, as `datasets` saves a data set."""
    folder.mkdir(exist_ok=True)
    cut = -(-len(table) // 2)
    names = [f"data-{number:05}-of-00002.arrow" for number in range(2)]
    for name, part in zip(names, (table[:cut], table[cut:]), strict=True):
        with pa.ipc.new_stream(folder / name, table.schema) as stream:
            for at in range(0, len(part), rows):
                stream.write_table(part[at : at + rows].combine_chunks())
    state = {"_data_files": [{"filename": name} for name in names], "_split": "train"}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")
    return {"kind": "arrow", "path": str(folder)}


def arrow_saved(folder: Path, samples: tuple[Plain, ...]) -> Options:
    """A folder of a saved data set."""
    return saved(folder / "data", _hub(samples))


# ---- tar -----------------------------------------------------------------------------------------

Members = list[tuple[str, bytes]]


def tar(path: Path, members: Members) -> None:
    """Write an archive."""
    with tarfile.open(path, "w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def members_of(key: str, sample: Plain) -> Members:
    """A record in JSON, then all media."""
    members = [(f"{key}.json", json.dumps({"conversations": sample.conversations}).encode())]
    for kind, ending in ENDINGS.items():
        members += [(f"{key}.{i}.{ending}", data) for i, data in enumerate(sample.media(kind))]
    return members


def webdataset(folder: Path, samples: tuple[Plain, ...]) -> Options:
    """Two shards."""
    for shard in range(2):
        in_shard = [(i, s) for i, s in enumerate(samples) if i * 2 // len(samples) == shard]
        members = [m for i, s in in_shard for m in members_of(f"deep/{i:06}", s)]
        tar(folder / f"{shard}.tar", members)
    return {"kind": "webdataset", "path": str(folder / "*.tar")}


def webdataset_named(folder: Path, samples: tuple[Plain, ...]) -> Options:
    """One shard, media first, whose records name them in the parts of messages."""
    members: Members = []
    for number, sample in enumerate(samples):
        media = [m for m in members_of(str(number), sample) if not m[0].endswith("json")]
        names = {kind: iter([n for n, _ in media if n.endswith(e)]) for kind, e in ENDINGS.items()}
        messages = [
            {"role": role, "content": [_named(part, names) for part in parts]}
            for role, parts in sample.messages
        ]
        members += [*media, (f"{number}.json", json.dumps({"messages": messages}).encode())]
    tar(folder / "a.tar", members)
    return {"kind": "webdataset", "path": str(folder)}


# ---- ArrayRecord ---------------------------------------------------------------------------------


def array_records(path: Path, records: Sequence[bytes], options: str = "group_size:1") -> None:
    """Write a file."""
    writer = ArrayRecordWriter(str(path), options)
    for record in records:
        writer.write(record)
    writer.close()


def arrayrecord(folder: Path, samples: tuple[Plain, ...]) -> Options:
    """Two files, media as bytes."""
    cut = len(samples) // 2
    for number, in_file in enumerate((samples[:cut], samples[cut:])):
        records = [
            {
                "conversations": s.conversations,
                "image": s.media("image"),
                "audios": [{"bytes": data, "path": "x.wav"} for data in s.media("audio")],
                "video": s.media("video"),
            }
            for s in in_file
        ]
        path = folder / f"train-{number:05}-of-00002.array_record"
        array_records(path, [msgpack.packb(record) for record in records])
    return {"kind": "arrayrecord", "path": str(folder / "train-*")}


FORMATS: dict[str, Callable[[Path, tuple[Plain, ...]], Options]] = {
    write.__name__: write
    for write in (
        json_list,
        json_lines,
        parquet_hub,
        parquet_plain,
        parquet_parts,
        parquet_paths,
        arrow_saved,
        webdataset,
        webdataset_named,
        arrayrecord,
    )
}
