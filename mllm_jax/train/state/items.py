"""The items of a checkpoint as Orbax handlers, each with checksums of its files.

An item is summed before Orbax gives its folder the final name: each process sums the arrays that it
wrote after its writes, and process 0 what is made at the end. Neither holds up training.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import jax
import orbax.checkpoint as ocp

from mllm_jax.train.state.checksums import write_checksums

T = TypeVar("T")

#: The part of a save that is not even tried once another part has failed.
_UNTRIED = "coroutine 'async_serialize_from_host"


class DrainingArrayHandler(ocp.type_handlers.ArrayHandler):
    """A handler that reports an error of one array after the reads of all have ended.

    Orbax closes the event loop at the first error. Reads under way would then complain one by one,
    hundreds of them, when they end.
    """

    async def deserialize(
        self,
        infos: Sequence[ocp.type_handlers.ParamInfo],
        args: Sequence[ocp.type_handlers.RestoreArgs] | None = None,
    ) -> Sequence[jax.Array]:
        return await _ended(super().deserialize(infos, args))

    async def metadata(self, infos: Sequence[ocp.type_handlers.ParamInfo]) -> Sequence[Any]:
        return await _ended(super().metadata(infos))


async def _ended(reads: Awaitable[T]) -> T:
    """The result of `reads`; its error when all tasks that it has begun have ended."""
    before = asyncio.all_tasks()
    try:
        return await reads
    except Exception:
        # An array that has been opened begins reads of its own, which it does not wait for if one
        # of them fails.
        while others := asyncio.all_tasks() - before:
            await asyncio.gather(*others, return_exceptions=True)
        raise


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a message is new, not a repetition of a failure by another task of Orbax."""
    return not (
        "exception was never retrieved" in record.getMessage() and "orbax" in record.getMessage()
    )


class StateHandler(ocp.PyTreeCheckpointHandler):
    """A tree of arrays, see `StateSave` and `StateRestore`."""

    def __init__(self) -> None:
        logging.getLogger("asyncio").addFilter(_is_news)
        warnings.filterwarnings("ignore", _UNTRIED, RuntimeWarning)
        known = ocp.type_handlers.create_type_handler_registry(
            (jax.Array, DrainingArrayHandler()),
            (type(ocp.PLACEHOLDER), ocp.type_handlers.get_type_handler(type(ocp.PLACEHOLDER))),
        )
        super().__init__(type_handler_registry=known)

    async def async_save(
        self, directory: Any, *args: Any, **kwargs: Any
    ) -> list[ocp.future.Future]:
        writes = await super().async_save(directory, *args, **kwargs)
        return [_ChecksummedWrites(writes or [], Path(getattr(directory, "path", directory)))]

    def finalize(self, directory: Any) -> None:
        super().finalize(directory)
        write_checksums(Path(directory))


class JsonHandler(ocp.JsonCheckpointHandler):
    """JSON, see `JsonSave` and `JsonRestore`."""

    def finalize(self, directory: Any) -> None:
        super().finalize(directory)
        write_checksums(Path(directory))


@dataclass
class _ChecksummedWrites:
    """Writes of this process, followed by checksums of the written files."""

    writes: Sequence[ocp.future.Future]
    folder: Path

    def result(self, timeout: float | None = None) -> None:
        """Wait for the writes and sum their files."""
        ocp.future.ChainedFuture(self.writes, self._write_checksums).result(timeout)

    def cancel(self) -> None:
        """Give the writes up."""
        for write in self.writes:
            write.cancel()

    def _write_checksums(self) -> None:
        process = jax.process_index()
        write_checksums(self.folder, f"ocdbt.process_{process}", process)


@ocp.args.register_with_handler(StateHandler, for_save=True)
@dataclass
class StateSave(ocp.args.PyTreeSave):
    """`item`: the tree to save."""


@ocp.args.register_with_handler(StateHandler, for_restore=True)
@dataclass
class StateRestore(ocp.args.PyTreeRestore):
    """`item`: the tree of `jax.ShapeDtypeStruct` to restore, `restore_args`: how."""


@ocp.args.register_with_handler(JsonHandler, for_save=True)
@dataclass
class JsonSave(ocp.args.JsonSave):
    """`item`: what to save."""


@ocp.args.register_with_handler(JsonHandler, for_restore=True)
@dataclass
class JsonRestore(ocp.args.JsonRestore):
    """Arguments to restore the JSON item that was saved."""
