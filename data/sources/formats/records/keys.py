"""The keys of records, of their messages and of parts of messages: all are read, or reported.

A key that is not read, not listed here as harmless and not named in `data.source.ignore` makes a
bad sample, because it may decide what is learnt. Some are known, and refused with the way out;
`records/advice.py` says what can be done about the others. A key whose value is null is as good as
absent, whatever it is called. Questions for a model are read as strictly, and ignore nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from data.faults import FaultKind
from data.media.naming import medium_of
from data.media.registry import MEDIA_TYPES
from data.quotes import quoted
from data.sample import DataError
from data.sources.formats.records.mentions import ValueMention, mention_of


class ShapeError(Exception):
    """A record of wrong shape.

    Attributes:
        kind: kind of the fault.
    """

    def __init__(self, text: str, kind: FaultKind = FaultKind.RECORD) -> None:
        super().__init__(text)
        self.kind = kind


#: Keys of records that decide nothing, in any form, by what they say.
HARMLESS_KEYS: Mapping[str, str] = {
    "names and numbers": "id ids idx index uid uuid key hash md5 sha256 question_id "
    "conversation_id conv_id sample_id image_id video_id audio_id prompt_id __key__ __url__ "
    "__index_level_0__",
    "origin": "source data_source dataset dataset_name subset split config origin url license "
    "author annotator model generator",
    "language and subject": "language lang locale category categories subcategory topic topics "
    "domain task task_name task_type type data_type question_type answer_type tags",
    "judgements": "difficulty level score scores quality rating similarity",
    "sizes": "width height image_width image_height image_size original_width original_height "
    "duration length num_turns num_images num_tokens token_count",
    "times": "timestamp created created_at updated_at date year version",
    "notes": "metadata meta info comment comments note notes status error_message exif",
}
#: Keys of messages and turns that decide nothing.
HARMLESS_OF_MESSAGES = (
    "id message_id uuid parent_id index turn turn_id source model language lang timestamp created "
    "created_at date token_count num_tokens metadata"
)
#: Keys of parts of messages that decide nothing; `detail` and `format` are of OpenAI's parts.
HARMLESS_OF_PARTS = "id detail format mime_type media_type cache_control"
HARMLESS = frozenset(" ".join(HARMLESS_KEYS.values()).split())

#: Keys of messages that say whether an answer is learnt.
WEIGHTS = ("weight", "loss", "train", "trainable", "loss_mask")
#: Keys of turns that say who speaks and what is said, and keys of parts.
TURNS = ("role", "content", "from", "value", "user", "assistant")
_READ_WITHIN = frozenset(
    (
        *WEIGHTS,
        *TURNS,
        "type",
        "text",
        *(name for kind in MEDIA_TYPES.values() for name in kind.record_fields),
    )
)

_TOOLS = (
    "tools and calls of tools are not read yet; valid: records without, or with the call written "
    "as text of an answer and its result as text of the user"
)
_REASONING = (
    "reasoning is not read by itself yet; valid: write it into the text of the answer, or "
    "remove the key"
)
_PREFERENCE = (
    "pairs of a better and a worse answer are not read; valid: messages with the better one"
)
_TOKENS = "texts are read, not tokens; valid: messages"
_WEIGHT = "records have no weights; valid: weight 0 or 1 in a message, or weights of a mixture"
_ANOTHER_WEIGHT = "the weight of an answer has another key; valid: weight 0 or 1"
_NO_WEIGHT = "questions have no weights; valid: without this key"
_OF_MESSAGES = "parts have no weights; valid: weight 0 or 1 in the message"
_REGIONS = "regions of images are not read; valid: write them into the text"
_NAME = "names of speakers are not read; valid: write them into the text, or remove the key"
_SIZES = "sizes of media are set for all by data.image and data.video; valid: without this key"
_ANTHROPIC = (
    "media are under the part's type; valid: {type: image, image: PATH, DATA URI or BASE64}"
)


def _refuse_each(keys: str, reason: str) -> dict[str, str]:
    return dict.fromkeys(keys.split(), reason)


#: Keys that decide what is learnt and are not read, with the way out. They cannot be ignored.
REFUSED: Mapping[str, str] = (
    _refuse_each(
        "tools functions tool_choice tool_calls tool_call function_call function_calls", _TOOLS
    )
    | _refuse_each("tool_call_id tool_responses tool_results", _TOOLS)
    | _refuse_each(
        "reasoning reasoning_content reasoning_details thinking thought thoughts", _REASONING
    )
)
_RECORD_WEIGHTS = " ".join((*WEIGHTS, "loss_weight", "sample_weight"))
#: Keys of a system message that comes before a conversation, which is read from another key.
SYSTEM_WORDS = ("system_prompt", "system_message", "sys")
REFUSED_OF_RECORDS = (
    dict(REFUSED)
    | _refuse_each("chosen rejected rejected_response rejected_messages", _PREFERENCE)
    | _refuse_each("input_ids labels attention_mask", _TOKENS)
    | _refuse_each(_RECORD_WEIGHTS, _WEIGHT)
    | _refuse_each("objects bbox bboxes boxes", _REGIONS)
    | _refuse_each(" ".join(SYSTEM_WORDS), "a system message has another key")
)
REFUSED_OF_QUESTIONS = dict(REFUSED_OF_RECORDS) | _refuse_each(_RECORD_WEIGHTS, _NO_WEIGHT)
REFUSED_OF_MESSAGES = (
    dict(REFUSED)
    | _refuse_each("name", _NAME)
    | _refuse_each("refusal", "a refusal is an answer; valid: its text as content")
    | _refuse_each(
        "train_detail training training_detail masks", "parts of answers have no weights"
    )
    | _refuse_each("loss_weight sample_weight mask masked train_on_turn", _ANOTHER_WEIGHT)
)
REFUSED_OF_PARTS = (
    dict(REFUSED)
    | _refuse_each("source", _ANTHROPIC)
    | _refuse_each(" ".join(WEIGHTS), _OF_MESSAGES)
    | _refuse_each("min_pixels max_pixels total_pixels resized_height resized_width", _SIZES)
    | _refuse_each("fps nframes max_frames video_start video_end", _SIZES)
)


def check_ignored(paths: Sequence[str], read: Collection[str]) -> None:
    """Check that keys which a user declares harmless decide nothing that is known.

    Args:
        paths: paths of keys, such as `messages.seen`; members of WebDataset begin with a dot.
        read: fields that are read of records.

    Raises:
        DataError: one is read, or decides what is learnt.
    """
    for path in paths:
        before, _, key = path.rpartition(".")
        if not key or paths.count(path) > 1:
            raise DataError(f"data.source.ignore: {quoted(path)}; valid: keys, each once")
        if path.startswith("."):  # a member
            continue
        if key in REFUSED or key in (_READ_WITHIN if before else read):
            raise DataError(
                f"data.source.ignore: {quoted(path)} decides what is learnt and cannot be ignored; "
                "valid: keys that decide nothing"
            )


@dataclass(frozen=True)
class KeyLevel:
    """Where keys stand: which decide nothing there, and which are refused by name."""

    name: str
    harmless: frozenset[str]
    refused: Mapping[str, str]


RECORD = KeyLevel("record", HARMLESS, REFUSED_OF_RECORDS)
QUESTION = KeyLevel("record", HARMLESS, REFUSED_OF_QUESTIONS)
MESSAGE = KeyLevel("message", frozenset(HARMLESS_OF_MESSAGES.split()), REFUSED_OF_MESSAGES)
PART = KeyLevel("part", frozenset(HARMLESS_OF_PARTS.split()), REFUSED_OF_PARTS)
MEDIUM = KeyLevel("medium", frozenset(), {})


@dataclass(frozen=True)
class ReadPurpose:
    """What records are read for.

    Attributes:
        level: what is known of keys of records.
        done: what becomes of their texts, in messages.
        which: what is to be done about two keys of which one can be read.
        compared: keys that are read by whoever compares answers.
        is_learnt: whether they are learnt, from a source that `data.source` describes.
    """

    level: KeyLevel
    done: str
    which: str
    compared: tuple[str, ...] = ()
    is_learnt: bool = True


TRAINING = ReadPurpose(RECORD, "learnt", "data.source.fields says which one is meant")


@dataclass
class MetKeys:
    """Keys that were met in a record, by their paths without numbers: `messages.content.type`.

    Attributes:
        read: those that are read.
        passed: those that are not, as they are harmless or ignored.
        mentions: harmless keys that name a medium, which a record without media may be about.
    """

    read: dict[str, None] = field(default_factory=dict)
    passed: dict[str, None] = field(default_factory=dict)
    mentions: list[UnreadField] = field(default_factory=list)


@dataclass(frozen=True)
class AllowedKeys:
    """Keys that are not reported though nobody reads them.

    Attributes:
        ignored: paths of keys that a user has declared harmless.
        others: whether any key of a record may be there that is like none that is read.
    """

    ignored: frozenset[str] = frozenset()
    others: bool = False


NONE_ALLOWED = AllowedKeys()


@dataclass(frozen=True)
class UnreadField:
    """A key that nobody reads, and that is not known as harmless.

    Attributes:
        key: the key.
        place: its place in the record: `messages.1.seen`.
        path: its place without numbers of lists: `messages.seen`.
        level: where it is.
        read: keys that are read there, whether they are there or not.
        there: keys that have a value there.
        value: its value, where that is known.
        mention: what it speaks of, for a key that is harmless else.
    """

    key: str
    place: str
    path: str
    level: KeyLevel
    read: Sequence[str]
    there: Collection[str]
    value: Any = None
    mention: ValueMention | None = None


class UnreadKey(ShapeError):  # noqa: N818  - a record of wrong shape
    """A record with a key that nobody reads; `unread` says which."""

    def __init__(self, unread: UnreadField) -> None:
        super().__init__(f"{shorten_path(unread.place)}: it is not read")
        self.unread = unread


class RecordKeys:
    """The keys of a mapping; `check_unread` reports those that nobody has asked for.

    Args:
        values: the mapping.
        purpose: what the record is read for.
        allowed: see `AllowedKeys`.
        met: takes the keys that are met; None: nobody asks for them.
        level: where the mapping is; None: it is the record itself.
        place: its place in the record: `messages.1`.
        path: its place without numbers of lists.
    """

    def __init__(
        self,
        values: Mapping[Any, Any],
        purpose: ReadPurpose,
        allowed: AllowedKeys = NONE_ALLOWED,
        met: MetKeys | None = None,
        level: KeyLevel | None = None,
        place: str = "",
        path: str = "",
    ) -> None:
        self._values, self.purpose, self._allowed = values, purpose, allowed
        self.met = MetKeys() if met is None else met
        self._level, self.place, self._path = level or purpose.level, place, path
        self._asked: dict[str, None] = {}

    def __contains__(self, key: str) -> bool:
        """Whether the mapping has the key, and not null there."""
        return self._values.get(key) is not None

    def read_value(self, key: str) -> Any:
        """The value of a key, which is read thereby; None if it is not there, or null."""
        self._asked[key] = None
        return self._values.get(key)

    @property
    def values(self) -> Mapping[Any, Any]:
        """The mapping, nothing of which is read thereby."""
        return self._values

    def has_key(self, key: str) -> bool:
        """Whether the mapping has the key, be it with null."""
        return key in self._values

    def one_of(self, keys: Iterable[str], advice: str) -> tuple[str, Any]:
        """The one of `keys` that is there, and its value; the first with None if there is none.

        Raises:
            ShapeError: there are several.
        """
        every = [(key, self.read_value(key)) for key in keys]
        some = [item for item in every if item[1] is not None]
        present = [item for item in some if item[1] not in ("", [])] or some[:1]
        if len(present) > 1:
            both = " and ".join(key for key, _ in present)
            raise ShapeError(f"{self._place_prefix()}it has {both}; {advice}")
        return present[0] if present else (every[0][0], None)

    def inner_keys(
        self, values: Mapping[Any, Any], level: KeyLevel, field: str, number: int | None = None
    ) -> RecordKeys:
        """The keys of a mapping in a field of this one, or in item `number` of the field."""
        place = self.place_of(field if number is None else f"{field}.{number}")
        path = _join_place(self._path, field)
        return RecordKeys(values, self.purpose, self._allowed, self.met, level, place, path)

    def place_of(self, key: object) -> str:
        """The place of a key in the record."""
        return _join_place(self.place, key)

    def check_unread(self) -> None:
        """Tell of the first key that nobody has asked for, and that is not known as harmless.

        Raises:
            UnreadKey: there is one. ShapeError: there is one that is refused by name.
        """
        for key, value in self._values.items():
            if value is None:
                continue
            if not isinstance(key, str):
                raise ShapeError(f"{self._place_prefix()}the key {quoted(key)} is no text")
            path = _join_place(self._path, key)
            if key in self._asked:
                self.met.read[path] = None
            elif path in self._allowed.ignored:
                self.met.passed[path] = None
            elif key in self._level.harmless:
                self.met.passed[path] = None
                self._look_at(key, value, path)
            else:
                self._refuse_key(key, value, path)

    def _look_at(self, key: str, value: Any, path: str) -> None:
        """Note a harmless key that names a medium; raise UnreadKey for one of another matter."""
        mention = mention_of(key, value)
        if mention is None:
            return
        unread = self._make_unread(key, value, path, mention)
        if mention.kind is not None:
            self.met.mentions.append(unread)
        elif self.purpose.is_learnt or mention.is_talk:
            raise UnreadKey(unread)

    def _refuse_key(self, key: str, value: Any, path: str) -> None:
        """Raise ShapeError for a key that is not read, unless it says nothing."""
        if key in self._level.refused and value in ("", [], {}):
            self.met.passed[path] = None
            return
        others = self._allowed.others and not self.place
        if others and key not in self._level.refused and not is_like_one(key, self._asked):
            self.met.passed[path] = None
            return
        raise UnreadKey(self._make_unread(key, value, path))

    def _make_unread(
        self, key: str, value: Any, path: str, mention: ValueMention | None = None
    ) -> UnreadField:
        there = [name for name in self._values if name in self]
        place = self.place_of(key) + (mention.below if mention else "")
        return UnreadField(key, place, path, self._level, [*self._asked], there, value, mention)

    def _place_prefix(self) -> str:
        return f"{self.place}: " if self.place else ""


def _join_place(place: str, key: object) -> str:
    return f"{place}.{key}" if place else str(key)


def shorten_path(path: str) -> str:
    """A path in a message."""
    return path if len(path) <= 100 else f"{path[:100]}..."


# ---- words of keys -------------------------------------------------------------------------------


def is_like_one(key: str, read: Collection[str]) -> bool:
    """Whether a key is like one that is read, or is called as media are."""
    return medium_of(key) is not None or similar_key(key, read) is not None


def similar_key(key: str, read: Collection[str]) -> str | None:
    """A key that is read and that `key` may be meant as."""
    near = {name.lower(): name for name in read}
    matches = difflib.get_close_matches(key.lower()[:100], near, 1, 0.8)
    return near[matches[0]] if matches else None
