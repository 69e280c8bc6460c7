"""Answers to prompts, and the speed of their decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from data.sample import DataError


@dataclass(frozen=True)
class AnswerReply:
    """The answer to a prompt.

    Attributes:
        name: name of the prompt.
        text: the answer, without special tokens; None if there is none.
        tokens: its tokens, with the one that ends it.
        prompt_tokens: tokens of the prompt, outputs of its media included.
        stopped: what ended it: `end`, a token that ends answers, or `length`, as many tokens as are
            allowed.
        error: why there is no answer.
        id: the prompt's own `id`; None if it has none.
    """

    name: str
    text: str | None
    tokens: tuple[int, ...] = ()
    prompt_tokens: int = 0
    stopped: Literal["end", "length"] | None = None
    error: str | None = None
    id: Any = None

    def to_json(self) -> dict[str, Any]:
        """`{"name", "text", "tokens", "prompt_tokens", "stopped"}`, or `{"name", "error"}`.

        With an `id` it comes after the name.
        """
        named = {"name": self.name} | ({} if self.id is None else {"id": self.id})
        if self.error is not None:
            return {**named, "error": self.error}
        return {
            **named,
            "text": self.text,
            "tokens": list(self.tokens),
            "prompt_tokens": self.prompt_tokens,
            "stopped": self.stopped,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`. Raises TypeError: a key is missing or unknown."""
        return cls(**{**value, "tokens": tuple(value.get("tokens", ()))})


@dataclass(frozen=True)
class AnswerTiming:
    """Seconds of the devices, and tokens.

    Attributes:
        prompt_tokens: of all prompts.
        first_tokens: tokens that prompts gave, one of each.
        next_tokens: tokens that were decoded one after the other.
        prefill_seconds, decode_seconds: seconds of the programs; without those of media's files.
        compile_seconds: seconds in which programs were compiled.
    """

    prompt_tokens: int = 0
    first_tokens: int = 0
    next_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    compile_seconds: float = 0.0

    def __add__(self, other: AnswerTiming) -> AnswerTiming:
        terms, more = vars(self), vars(other)
        return AnswerTiming(**{name: value + more[name] for name, value in terms.items()})

    @property
    def prefill_rate(self) -> float:
        """Tokens of prompts per second."""
        return self.prompt_tokens / self.prefill_seconds if self.prefill_seconds else 0.0

    @property
    def decode_rate(self) -> float:
        """Decoded tokens per second; the first token of an answer is not counted."""
        return self.next_tokens / self.decode_seconds if self.decode_seconds else 0.0

    def to_json(self) -> dict[str, float]:
        """All figures by name."""
        rates = {
            "prefill_tokens_per_second": self.prefill_rate,
            "decode_tokens_per_second": self.decode_rate,
        }
        return vars(self) | rates

    def __str__(self) -> str:
        return (
            f"prefill {self.prompt_tokens} tokens, {self.prefill_rate:.0f} tokens/s; decode "
            f"{self.next_tokens} tokens, {self.decode_rate:.0f} tokens/s; compiled in "
            f"{self.compile_seconds:.1f} s"
        )


@dataclass(frozen=True)
class AnswerSet:
    """Answers to prompts, in their order.

    Attributes:
        replies: an answer to each prompt, or why there is none.
        timing: of all of them.
    """

    replies: Sequence[AnswerReply]
    timing: AnswerTiming = field(default_factory=AnswerTiming)

    def checked(self, file: str | Path) -> AnswerSet:
        """Return these answers to the prompts of a file.

        Raises:
            DataError: not one of the prompts has an answer, or there is none.
        """
        if not self.replies:
            raise DataError(f"{file} has no prompts; valid: at least one")
        if all(reply.error is not None for reply in self.replies):
            last = self.replies[-1]
            raise DataError(
                f"none of the {len(self.replies)} prompts of {file} can be used; {last.name}, the "
                f"last one: {last.error}"
            )
        return self

    def to_json(self) -> dict[str, Any]:
        """`{"replies", **timing}`."""
        return {"replies": [reply.to_json() for reply in self.replies], **self.timing.to_json()}
