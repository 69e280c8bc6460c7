"""The text of single tokens, for people."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer

#: What stands for a character of which a token has only some bytes.
_PART = "\ufffd"


def token_texts(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The text that each token adds to that of the tokens before it, special tokens by their names.

    A character that several tokens make together is the text of the last of them, and the others
    have none. Decoding begins anew a few tokens back, where the text before is whole.

    Example, bytes: the tokens of "h\N{LATIN SMALL LETTER E WITH ACUTE}" give "h", "" and
    "\N{LATIN SMALL LETTER E WITH ACUTE}".
    """
    texts: list[str] = []
    begin = complete = 0
    for end in range(1, len(ids) + 1):
        before = tokenizer.decode(list(ids[begin:complete]), skip_special_tokens=False)
        after = tokenizer.decode(list(ids[begin:end]), skip_special_tokens=False)
        if after.endswith(_PART) and end < len(ids):
            texts.append("")
            continue
        texts.append(after[len(before) :])
        begin, complete = complete, end
    return texts
