"""What objectives need of a sample.

An objective has a `TargetSpec`, which refuses samples that the objective cannot learn from. The
next token needs a conversation that ends with an answer, some of which is learnt; an objective
that compares a text with an image needs none::

    class Captions:
        def check(self, sample: Sample) -> None:
            if not sample.of("image"):
                raise ConversationError("the sample has no image to compare with")
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from data.batch import NEXT_TOKEN
from data.sample import ConversationError, Sample


class TargetSpec(Protocol):
    """What an objective needs of a sample; picklable."""

    def check(self, sample: Sample) -> None:
        """See that the objective can learn from a sample.

        Raises:
            ConversationError: it cannot; the message says why.
        """


class NextTokenSpec:
    """The next token of every answer that is learnt."""

    def check(self, sample: Sample) -> None:
        """See that the sample ends with an answer, and that one is learnt.

        Raises:
            ConversationError: it does not, or none is.
        """
        if not sample.turns or sample.turns[-1].role != "assistant":
            raise ConversationError("the conversation does not end with an answer")
        if not any(turn.is_learnt for turn in sample.turns):
            raise ConversationError("no answer is learnt, as each has a weight of 0")


#: The objectives of a language model.
NEXT_TOKEN_ONLY: Mapping[str, TargetSpec] = MappingProxyType({NEXT_TOKEN: NextTokenSpec()})
