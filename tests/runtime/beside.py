"""A process that believes to be one of two."""

from __future__ import annotations

from typing import Any

from mllm_jax.runtime.run_peers import RunPeers


class Beside(RunPeers):
    """Process 0 beside one that says the same, but where `differs` gives it other facts.

    Args:
        differs: by the name of what is compared, facts that the other one has of its own.

    Attributes:
        did: what was gathered, with what this process did then and whether that was limited.
    """

    count = 2

    def __init__(self, **differs: dict[str, Any]) -> None:
        super().__init__()
        self._differs = differs
        self.did: list[tuple[str, str, bool]] = []
        self.doing_now = ("step 1", True)

    def note_activity(self, event: str, *, limited: bool = True, key: str = "") -> None:
        self.doing_now = (event, limited)

    def gather_values(self, name: str, value: Any) -> list[Any]:
        self.did.append((name, *self.doing_now))
        other = self._differs.get(name.removesuffix(", in detail"))
        if other is None:
            return [value, value]
        return [value, value | other if isinstance(value, dict) else "another digest"]
