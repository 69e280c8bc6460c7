"""The peer of `bench generate`: transformers answers greedily, with its cache.

A worker (`benchmarks.turns`) without jax. Takes the folder of a released decoder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.turns import serve_requests


class GeneratingPeer:
    """A model of transformers that answers.

    Args:
        folder: folder of the released checkpoint.
    """

    def __init__(self, folder: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self._torch = torch
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        # Nothing ends an answer sooner.
        self._model.generation_config.eos_token_id = None

    def generate(self, prompts: Sequence[Sequence[int]], tokens: int) -> dict[str, Any]:
        """Answers of so many tokens to prompts of one length, and the seconds of the call."""
        ids = self._torch.tensor(prompts)
        began = time.perf_counter()
        with self._torch.inference_mode():
            answers = self._model.generate(
                ids,
                attention_mask=self._torch.ones_like(ids),
                max_new_tokens=tokens,
                do_sample=False,
                use_cache=True,
                pad_token_id=0,
            )
        seconds = time.perf_counter() - began
        return {"seconds": seconds, "answers": answers[:, ids.shape[1] :].tolist()}


def main() -> None:
    """Answer the benchmark's requests until there are no more."""
    serve_requests({"generate": GeneratingPeer(sys.argv[1]).generate})


if __name__ == "__main__":
    main()
