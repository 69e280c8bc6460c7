"""Which tokens of a conversation are learnt, and which stand for media."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from data.config import DataConfig
from data.rows.spec import Kind
from data.sample import Role, Turn
from data.text.chat import ConfiguredChat, marks_of
from data.text.tokenizer import ChatTokenizer
from tests.data.samples import BUDGETS

OWN = {"user": "U:", "assistant": "A:", "end": "<end>", "separator": "\n"}
CONFIG = DataConfig.model_validate(
    {
        "source": {"kind": "demo"},
        "budgets": BUDGETS,
        "rows": 1,
        "tokenizer": "bytes",
        "chat": OWN,
    }
)
MARKS = marks_of(CONFIG)
CHAT = ConfiguredChat(CONFIG, MARKS)
KINDS: dict[str, Kind] = {mark: kind for kind, mark in MARKS.items()}
ROLES: tuple[Role, ...] = ("user", "assistant")
#: The same template and tokens, which are a byte each.
TOKENIZER = ChatTokenizer("bytes", CONFIG.chat, tuple(MARKS.values()))

#: Pieces of a text, some of which are placeholders.
TEXTS = st.lists(st.sampled_from([*KINDS, "ab", "c d", "x"]), min_size=1, max_size=4)


def expected(written: list[list[str]], opened: bool) -> list[tuple[int, bool, Kind | None]]:
    """Token by token: its id, whether it is learnt, and the medium that it stands for."""
    results: list[tuple[int, bool, Kind | None]] = []

    def template(*names: str) -> None:
        results.extend((i, False, None) for name in names for i in TOKENIZER.template_ids(name))

    for number, pieces in enumerate(written):
        role = ROLES[number % 2]
        template(*["separator"] * bool(number), role)
        for piece in pieces:
            if piece in KINDS:
                results.append((TOKENIZER.placeholder_ids[piece], False, KINDS[piece]))
            else:
                results.extend((i, role == "assistant", None) for i in TOKENIZER.encode(piece))
        results.append((TOKENIZER.end_id, role == "assistant", None))
    if opened:
        template(*["separator"] * bool(written), "assistant")
    return results


@given(st.lists(TEXTS, max_size=4), st.booleans())
@example([["<image>", "ab"], ["ab", "<image>", "x"]], False)
@example([["ab"], ["<audio>"]], True)
@example([], True)
def test_answers_are_learnt_with_their_ends_and_placeholders_never(
    written: list[list[str]], opened: bool
) -> None:
    """Outputs of encoders are merged at placeholders: a model that learnt them would write some."""
    turns = [Turn(ROLES[n % 2], "".join(parts)) for n, parts in enumerate(written)]
    rendered, target = CHAT.tokenize_turns(turns, opened), expected(written, opened)
    assert list(rendered.ids) == [i for i, _, _ in target]
    assert list(rendered.learnt) == [learnt for _, learnt, _ in target]
    assert list(rendered.media) == [(at, kind) for at, (_, _, kind) in enumerate(target) if kind]


def test_blanks_around_a_text_are_no_part_of_it() -> None:
    plain, blanks = (
        CHAT.tokenize_turns([Turn("user", text)]) for text in ("ab <image>", "\n ab <image> ")
    )
    assert plain == blanks


def test_what_a_chat_tells_of_itself() -> None:
    assert CHAT.end_ids == (TOKENIZER.end_id,)
    assert CHAT.check_training() == ()
    assert CHAT.vocab_size == 1 + max(TOKENIZER._tokenizer.get_vocab().values())
    assert CHAT.decode(list(CHAT.encode("a b"))) == "a b"
    assert CHAT.token_texts(CHAT.encode("a b")) == ["a", " ", "b"]
    other = ConfiguredChat(CONFIG.model_copy(update={"chat": None}), MARKS)
    assert other.fingerprint != CHAT.fingerprint == ConfiguredChat(CONFIG, MARKS).fingerprint
