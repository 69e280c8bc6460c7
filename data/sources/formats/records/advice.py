"""What can be done about a key that is not read: nothing is advised that would be refused.

For training, `data.source.ignore` and `data.source.fields` are advised where the configuration
takes them; everywhere else the record itself must change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from data.config import FieldsConfig
from data.media.naming import medium_of
from data.media.registry import MEDIA_TYPES
from data.quotes import enumerated
from data.rows.spec import Kind
from data.sample import DataError
from data.sources.formats.records.fields import ANSWERS, OPTIONS, RecordFields
from data.sources.formats.records.keys import (
    MESSAGE,
    PART,
    SYSTEM_WORDS,
    TURNS,
    AllowedKeys,
    ReadPurpose,
    UnreadField,
    check_ignored,
    shorten_path,
    similar_key,
)
from data.sources.formats.records.mentions import ValueMention, mention_of

#: Characters of a name, and of all settings together, that a message writes out: half of one is no
#: advice, and of a long message the end is kept.
_LONGEST, _ALL = 100, 300
_PLAIN = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_YAML_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))


@dataclass(frozen=True)
class RecordReading:
    """How a record is read, and which settings a configuration takes besides those that it has.

    Attributes:
        fields: the fields that are read.
        allowed: keys that are not reported though nobody reads them.
        purpose: what records are read for.
        settled: see `RecordFields.settled_fields`.
    """

    fields: RecordFields
    allowed: AllowedKeys
    purpose: ReadPurpose
    settled: Mapping[str, str]

    def name_fields(self, **names: str) -> str | None:
        """`data.source.fields` with further names; None where they cannot be given."""
        settings = None if self.allowed.others else self._configured_names(names)
        if settings is None or not self._accepts_settings(settings, self.allowed.ignored):
            return None
        return _unless_long(_fields_setting(settings))

    def ignore_path(self, path: str) -> str | None:
        """`data.source.ignore` with a further path; None where it cannot be given."""
        before, paths = self.allowed.ignored, {*self.allowed.ignored, path}
        settings = self._configured_names({})
        if settings is not None and self._accepts_settings(settings, paths):
            return _unless_long(_ignore_setting(path, before))
        settled = self._configured_names(dict(self.settled)) if self.settled else None
        if settled is not None and self._accepts_settings(settled, paths):
            return _unless_long(f"{_fields_setting(settled)} with {_ignore_setting(path, before)}")
        return None

    def choose_fields(self, names: Mapping[str, str], others: Collection[str]) -> str | None:
        """`data.source.fields` with further names, and `data.source.ignore` with the other keys.

        None where the configuration cannot be given both.
        """
        settings = None if self.allowed.others else self._configured_names(dict(names))
        paths = dict.fromkeys((*sorted(self.allowed.ignored), *others))
        if settings is None or not self._accepts_settings(settings, [*paths]):
            return None
        listed = ", ".join(map(_quote_yaml, paths))
        return _unless_long(f"{_fields_setting(settings)} with data.source.ignore: [{listed}]")

    def _configured_names(self, names: dict[str, str]) -> dict[str, str] | None:
        """Names that are given with further ones; None where there is no place for them."""
        configured = self.fields.fields.model_dump(exclude_none=True)
        known = {*names} <= {*FieldsConfig.model_fields}
        return {**configured, **names} if self.purpose.is_learnt and known else None

    def _accepts_settings(self, names: dict[str, str], ignored: Collection[str]) -> bool:
        """Whether the configuration takes names and ignored paths, and a message can name them."""
        if not all(map(_is_writable, (*names.values(), *ignored))):
            return False
        try:
            check_ignored([*ignored], RecordFields(FieldsConfig(**names)).all_fields)
        except (ValidationError, DataError):
            return False
        return True


def advice_for(unread: UnreadField, reading: RecordReading) -> str:
    """What is to be done about a key that is not read."""
    key, level = unread.key, unread.level
    is_record = level is reading.purpose.level
    if unread.mention is not None:
        return _of_mention(unread, unread.mention, reading)
    if is_record and key in SYSTEM_WORDS:
        return _of_system(key, reading)
    if key in level.refused:
        return level.refused[key]
    drop = _drop_advice(unread, reading)
    kind = medium_of(key)
    if kind is not None and is_record and key in MEDIA_TYPES[kind].record_fields:
        reason = f"{kind} media are read from another key, as data.source.fields says"
        return f"{reason}; if this one decides nothing, {drop}"
    if kind is not None:
        valid = _media_places(unread, kind, reading)
        reason = f"{kind} media are not read from this key; valid: {valid}"
        return f"{reason}; or, if it decides nothing, {drop}"
    if level is MESSAGE and key in TURNS:
        others = enumerated(name for name in unread.there if name in TURNS and name in unread.read)
        reason = f"it is not read{' beside ' if others else ''}{others}; valid: role and content, "
        return f"{reason}from and value, or user and assistant"
    if level is PART and key == "text":
        return "only parts of type text have one; valid: a part of its own, {type: text, text: ...}"
    near = similar_key(key, unread.read) or (_of_question(key, reading) if is_record else None)
    if near is not None:
        reason = f"it is not read, and like {near}, which is"
        return f"{reason}; if it is another and decides nothing, {drop}"
    return f"it is not read; read are {enumerated(unread.read)}; if it decides nothing, {drop}"


def _of_mention(unread: UnreadField, mention: ValueMention, reading: RecordReading) -> str:
    """What is to be done about a key that decides nothing, and names something that does."""
    drop, kind = reading.ignore_path(unread.path) or "leave it out", mention.kind
    is_record = unread.level is reading.purpose.level
    if mention.is_talk:
        reason = "a part of the conversation is not read from here; valid: a system message in "
        reason += f"{reading.fields.system_field}, and the rest in texts of messages"
        return f"{reason}; or, if it decides nothing, {drop}"
    if kind is None:
        where = "in a message" if is_record else "in the message itself"
        reason = f"weights are not read from here; valid: weight 0 or 1 {where}"
        return f"{reason}; or, if it decides nothing, {drop}"
    fields = reading.fields.media_fields(kind)
    reason = f"it names {kind} media, and the record has no medium; valid: {kind} media in "
    reason += " or ".join(map(shorten_path, fields))
    is_field = is_record and mention.is_file and not mention.below and isinstance(unread.value, str)
    named = reading.name_fields(**{kind: unread.key}) if is_field and len(fields) > 1 else None
    reason = reason if named is None else f"{reason}, or {named}"
    return f"{reason}; or, if it decides nothing, {drop}"


def _of_question(key: str, reading: RecordReading) -> str | None:
    """What a key of a question is meant as, if it is likely that of an answer or of options."""
    if reading.purpose.is_learnt:
        return None
    return "answer" if key in ANSWERS else "choices" if key in OPTIONS else None


def _of_system(key: str, reading: RecordReading) -> str:
    """What is to be done about a system message under another name."""
    named = None if reading.fields.fields.system else reading.name_fields(system=key)
    valid = reading.fields.system_field
    return f"valid: {valid}" if named is None else f"valid: {valid}, or {named}"


def _media_places(unread: UnreadField, kind: Kind, reading: RecordReading) -> str:
    """Where media under another name would be read."""
    if unread.level is PART:
        return f"a part of its own, {{type: {kind}, {kind}: ...}}"
    is_record = unread.level is reading.purpose.level
    valid = reading.fields.media_fields(kind) if is_record else MEDIA_TYPES[kind].record_fields
    several = [name for name in unread.there if name in valid or medium_of(str(name)) == kind]
    if len(several) > 1:
        return f"all {kind} media in one list, {valid[-1]}"
    names = " or ".join(map(shorten_path, valid))
    named = reading.name_fields(**{kind: unread.key}) if is_record and len(valid) > 1 else None
    return names if named is None else f"{names}, or {named}"


def _drop_advice(unread: UnreadField, reading: RecordReading) -> str:
    """What is to be done about a key that decides nothing."""
    ignore = reading.ignore_path(unread.path)
    if ignore is not None:
        return ignore
    is_mention = mention_of("metadata", {unread.key: unread.value}) is not None
    if not reading.purpose.is_learnt and "metadata" in unread.level.harmless and not is_mention:
        return "write it below metadata, or leave it out"
    return "leave it out"


# ---- the configuration, as it is written ---------------------------------------------------------


def _is_writable(name: str) -> bool:
    return name.isprintable() and len(name) <= _LONGEST


def _unless_long(setting: str) -> str | None:
    return setting if len(setting) <= _ALL else None


def _fields_setting(names: Mapping[str, str]) -> str:
    """`data.source.fields: {answer: caption, image: file_name}`, as YAML reads it."""
    items = ", ".join(f"{name}: {_quote_yaml(value)}" for name, value in names.items())
    return f"data.source.fields: {{{items}}}"


def _ignore_setting(path: str, before: Collection[str]) -> str:
    """`data.source.ignore` with a path besides those that it has before, unless these are many."""
    items = ", ".join(map(_quote_yaml, (*sorted(before), path)))
    if len(items) > _LONGEST and before:
        return f"{_quote_yaml(path)} in data.source.ignore, too"
    return f"data.source.ignore: [{items}]"


def _quote_yaml(name: str) -> str:
    """A text as YAML reads it in a list or a mapping."""
    if _PLAIN.fullmatch(name) and name.lower() not in _YAML_WORDS:
        return name
    return f"'{name}'" if "'" not in name else json.dumps(name, ensure_ascii=False)
