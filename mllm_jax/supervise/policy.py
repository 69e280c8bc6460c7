"""When training is started again, after which pause, and when it is given up."""

from __future__ import annotations

from dataclasses import dataclass

#: Seconds of the longest pause between two attempts.
LONGEST = 300.0


@dataclass(frozen=True)
class RestartPolicy:
    """Bounds on attempts.

    Attributes:
        restarts: restarts in a row that may follow attempts without a step that is new.
        backoff: seconds before the first restart of a row; doubled with each, up to `LONGEST`.
    """

    restarts: int = 5
    backoff: float = 1.0

    def pause_seconds(self, failed: int) -> float:
        """Seconds before the restart that follows `failed` attempts without a new step."""
        return min(LONGEST, self.backoff * 2.0 ** min(max(0, failed - 1), 30))


#: The bounds of a run that sets none.
POLICY = RestartPolicy()


@dataclass(frozen=True)
class AttemptHistory:
    """The attempts so far.

    Attributes:
        best: newest step that any of them has taken; 0 if none.
        failed: attempts since the last one that took a step newer than all before.
    """

    best: int = 0
    failed: int = 0

    def after_attempt(self, step: int) -> AttemptHistory:
        """The value after one more attempt, whose newest step is `step`."""
        return (
            AttemptHistory(step, 0)
            if step > self.best
            else AttemptHistory(self.best, self.failed + 1)
        )

    def is_exhausted(self, policy: RestartPolicy) -> bool:
        """Whether no restart is left."""
        return self.failed > policy.restarts or policy.restarts == 0


#: No attempt so far.
NONE = AttemptHistory()
