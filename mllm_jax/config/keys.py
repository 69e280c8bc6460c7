"""The public keys of the configuration, read off the typed models.

One walk over the pydantic models serves the error for an unknown key, the pages of
`docs/reference/keys` and their test, so that none of them can go stale.
"""

from __future__ import annotations

import difflib
import inspect
import json
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from mllm_jax.layers.config.parts import LISTED_ABOVE, ConfigChoice

KeyPath = tuple[str, ...]
#: Stands in a path for any key of a mapping, e.g. `model.encoders.<name>.layers`.
ANY = "<name>"
#: Stands in a path for the number of an item of a list, e.g. `model.edges.<number>.source`.
EACH = "<number>"
#: The first line of every table of keys.
TABLE_HEAD = "| key | type | default | meaning |\n"


@dataclass(frozen=True)
class ConfigKey:
    """One public key.

    Attributes:
        path: components; `ANY` stands for any key of a mapping.
        owner: class of the section that has it.
    """

    path: KeyPath
    owner: type[BaseModel]

    @property
    def name(self) -> str:
        """The dotted path."""
        return ".".join(self.path)

    @property
    def field(self) -> FieldInfo:
        """The declaration of the key."""
        return fields_by_key(self.owner)[self.path[-1]]

    @property
    def type(self) -> str:
        """Type in words with its bounds, e.g. `int >= 1`."""
        signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
        bounds = [
            f"{sign} {getattr(item, name)}"
            for item in self.field.metadata
            for name, sign in signs.items()
            if getattr(item, name, None) is not None
        ]
        return " ".join([type_text(self.field.annotation), ", ".join(bounds)]).strip()

    @property
    def default(self) -> str:
        """Default as JSON, the source of a derived default, or `required`."""
        extra = self.field.json_schema_extra
        if isinstance(extra, dict) and "derived" in extra:
            return str(extra["derived"])
        if self.field.is_required():
            return "required"
        return json.dumps(to_jsonable_python(self.field.get_default(call_default_factory=True)))

    @property
    def description(self) -> str:
        """Meaning of the key, from the place where its author wrote it down.

        That is the description of the field, its entry under Args in the docstring of the class or
        of a base, or the comment after its declaration.
        """
        name = self.path[-1]
        bases = self.owner.__mro__[: self.owner.__mro__.index(BaseModel)]
        texts = [self.field.description]
        texts += [docstring_entry(inspect.getdoc(base) or "", name) for base in bases]
        texts += [] if any(texts) else [_key_comment(base, name) for base in bases]
        return " ".join(next(filter(None, texts), "").split())


def iterate_keys(model: type[BaseModel], prefix: KeyPath = ()) -> Iterator[ConfigKey]:
    """All leaf keys of `model` in the order of declaration; a key of several families once each."""
    for name, field in fields_by_key(model).items():
        path = (*prefix, name)
        listed = field.json_schema_extra == LISTED_ABOVE
        inner = [] if listed else list(_section_classes(_field_annotation(field)))
        for suffix, child in inner:
            yield from iterate_keys(child, path + suffix)
        if not inner:
            yield ConfigKey(path, model)


def fields_by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a section by their keys in files."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def sibling_keys(model: type[BaseModel], path: KeyPath, data: object) -> list[str]:
    """Valid keys next to `path`, e.g. all of `model.decoder` for `model.decoder.laiers`.

    Args:
        model: class of the configuration.
        path: components of the key in question.
        data: the values as read; they say which family a section has.
    """
    owners = [owner for owner, admitted in _owner_classes(model, path[:-1], data) if admitted]
    return list(dict.fromkeys(name for owner in owners for name in fields_by_key(owner)))


def key_choices(model: type[BaseModel], path: KeyPath, data: object) -> list[str]:
    """Values that the key at `path` may have, for a key that chooses a family or kind."""
    owners = (fields_by_key(owner) for owner, _ in _owner_classes(model, path[:-1], data))
    fields = [keys[path[-1]] for keys in owners if path[-1] in keys]
    return [str(choice) for field in fields for choice in get_args(field.annotation)]


def nearest_key(model: type[BaseModel], path: KeyPath, valid: Sequence[str]) -> str:
    """The dotted key that `path` most probably meant.

    A sibling that looks alike comes first, then the same name in another section, then the most
    similar sibling or full path.
    """
    full_paths = {".".join([*path[:-1], name]): name for name in valid}
    names = [key.name for key in iterate_keys(model) if not _path_matches(key.path, path)]
    same = [name for name in names if name.split(".")[-1] == path[-1]]
    matches = difflib.get_close_matches(path[-1], valid, n=1)
    if matches:
        return next(full for full, name in full_paths.items() if name == matches[0])
    return (same or difflib.get_close_matches(".".join(path), [*full_paths, *names], 1, cutoff=0))[
        0
    ]


def format_table(model: type[BaseModel]) -> str:
    """All keys as Markdown, one table for each top-level section."""
    return "\n".join(f"## {name}\n\n{rows}" for name, rows in format_tables(model).items())


def format_tables(model: type[BaseModel]) -> dict[str, str]:
    """The tables of all keys as Markdown, by top-level section."""
    rows: dict[KeyPath, list[ConfigKey]] = {}
    for key in iterate_keys(model):
        rows.setdefault(key.path, []).append(key)
    pages = dict.fromkeys((path[0] for path in rows), TABLE_HEAD)
    for section in pages:
        rows_of_section = [_format_row(same) for path, same in rows.items() if path[0] == section]
        pages[section] += "\n".join(["|---|---|---|---|", *rows_of_section, ""])
    return pages


def write_tables(model: type[BaseModel], folder: Path) -> list[Path]:
    """Replace the table of every page `<section>.md` in `folder`; the text before it stays.

    Returns:
        The pages that have changed.

    Raises:
        FileNotFoundError: a section has no page, or a page no table; nothing has been written.
    """
    pages = {folder / f"{section}.md": rows for section, rows in format_tables(model).items()}
    texts = {page: page.read_text() for page in pages}
    for page, text in texts.items():
        if TABLE_HEAD not in text:
            raise FileNotFoundError(f"{page} has no table; valid: a line {TABLE_HEAD.strip()!r}")
    changed = []
    for page, text in texts.items():
        new = text[: text.index(TABLE_HEAD)] + pages[page]
        if new != text:
            page.write_text(new)
            changed.append(page)
    return changed


def type_text(annotation: Any) -> str:
    """A type in words: `int | None` to `int or null`, `Literal["a", "b"]` to `a | b`."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_text(args[0])
    if origin is Literal:
        return " | ".join(str(arg) for arg in args)
    if origin in (Union, types.UnionType):
        return " or ".join("null" if arg is type(None) else type_text(arg) for arg in args)
    if origin is tuple or origin is list:
        inner = ", ".join(type_text(arg) for arg in args if arg is not Ellipsis)
        return f"[{inner}, ...]" if origin is list or Ellipsis in args else f"[{inner}]"
    if _is_mapping(origin):
        return f"{{{ANY}: {type_text(args[1])}}}"
    return str(getattr(annotation, "__name__", annotation))


def _path_matches(pattern: KeyPath, path: KeyPath) -> bool:
    """Whether `pattern`, which may hold `ANY`, stands for `path`."""
    pairs = zip(pattern, path, strict=False)
    return len(pattern) == len(path) and all(a in (ANY, EACH, b) for a, b in pairs)


def _format_row(same: Sequence[ConfigKey]) -> str:
    """One line of the table for a key that one or several families have."""
    columns = (
        " \\| ".join(dict.fromkeys(key.type.replace("|", "\\|") for key in same)),
        "`" + " / ".join(dict.fromkeys(key.default for key in same)).replace("|", "\\|") + "`",
        " / ".join(dict.fromkeys(key.description for key in same if key.description)),
    )
    return f"| `{same[0].name}` | " + " | ".join(columns) + " |"


def _field_annotation(field: FieldInfo) -> Any:
    """The annotation of a field, with the choice of classes that pydantic takes from it."""
    choices = [metadata for metadata in field.metadata if isinstance(metadata, ConfigChoice)]
    return Annotated[field.annotation, choices[0]] if choices else field.annotation


def _is_model(annotation: Any) -> bool:
    return inspect.isclass(annotation) and issubclass(annotation, BaseModel)


def _is_mapping(origin: Any) -> bool:
    return inspect.isclass(origin) and issubclass(origin, Mapping)


def _annotation_options(annotation: Any) -> Iterator[Any]:
    """Members of a union, or classes of a choice; else the annotation itself."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        choices = [argument for argument in args[1:] if isinstance(argument, ConfigChoice)]
        for option in choices[0].listed_classes() if choices else [args[0]]:
            yield from _annotation_options(option)
    elif origin in (Union, types.UnionType):
        for arg in args:
            yield from _annotation_options(arg)
    else:
        yield annotation


def _item_type(annotation: Any) -> Any:
    """Type of the items of a list of any length, and of nothing else."""
    args = get_args(annotation)
    return args[0] if get_origin(annotation) is tuple and args[1:] == (Ellipsis,) else None


def _section_classes(annotation: Any) -> Iterator[tuple[KeyPath, type[BaseModel]]]:
    """Model classes that `annotation` holds, with the path that leads to them."""
    if item := _item_type(annotation):
        for suffix, child in _section_classes(item):
            yield (EACH, *suffix), child
    for option in _annotation_options(annotation):
        if _is_model(option):
            yield (), option
        elif _is_mapping(get_origin(option)):
            for suffix, child in _section_classes(get_args(option)[1]):
                yield (ANY, *suffix), child


def _owner_classes(
    model: type[BaseModel], path: KeyPath, data: object
) -> list[tuple[type[BaseModel], bool]]:
    """Classes that a section may be of, and whether `data` chose them."""
    annotation: Any = model
    for part in path:
        annotation = _part_annotation(annotation, part, data)
        data = _value_at(data, part)
    return [
        (option, _is_chosen(option, data))
        for option in _annotation_options(annotation)
        if _is_model(option)
    ]


def _value_at(data: object, part: str) -> object:
    """The value at a key of a mapping, or at the number of an item of a list."""
    if isinstance(data, list) and part.isdigit():
        return data[int(part)] if int(part) < len(data) else None
    return data.get(part) if isinstance(data, Mapping) else None


def _part_annotation(annotation: Any, part: str, data: object) -> Any:
    """Annotation of `part` inside `annotation`."""
    inner_type: Any = _item_type(annotation)
    for option in _annotation_options(annotation):
        if _is_mapping(get_origin(option)):
            inner_type = get_args(option)[1]
        elif _is_model(option) and part in fields_by_key(option) and _is_chosen(option, data):
            inner = _field_annotation(fields_by_key(option)[part])
            inner_type = inner if inner_type is None else Union[inner_type, inner]  # noqa: UP007
    return inner_type


def _is_chosen(owner: type[BaseModel], data: object) -> bool:
    """Whether the choices in `data` (family, kind, ...) are those of `owner`."""
    mapping = data if isinstance(data, Mapping) else {}
    return all(
        mapping[name] in get_args(field.annotation)
        for name, field in owner.model_fields.items()
        if get_origin(field.annotation) is Literal and name in mapping
    )


def docstring_entry(docstring: str, name: str) -> str:
    """Text of `name: text`, continuation lines included, in a Google-style docstring."""
    entry = rf"^    (?:\w+, )*{re.escape(name)}(?:, \w+)*: (.*(?:\n {{5,}}.*)*)"
    match = re.search(entry, docstring, flags=re.MULTILINE)
    return match.group(1) if match else ""


def _key_comment(model: type[BaseModel], name: str) -> str:
    declaration = rf"^    {re.escape(name)}: .*  # (.*)$"
    match = re.search(declaration, _class_source(model), flags=re.MULTILINE)
    return match.group(1) if match else ""


@cache
def _class_source(model: type[BaseModel]) -> str:
    """The text of a class; finding it parses the whole module."""
    return inspect.getsource(model)
