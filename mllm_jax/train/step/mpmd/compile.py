"""Programs of groups, which processes with devices of the group alone compile and start.

All processes start the tasks of a step in the same order. A process that has none of a program's
devices does not compile it: the program's results are arrays without shards there, which have the
shapes and layouts that transfers read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding

from sharding.mesh import named_shardings


def compile_on(
    mesh: Mesh,
    function: Callable[..., Any],
    out_specs: Any,
    *,
    donated: tuple[int, ...] = (),
    placed: bool = False,
) -> Callable[..., Any]:
    """A program on the devices of a mesh.

    Args:
        mesh: mesh of the group.
        function: function of arrays on these devices.
        out_specs: layouts of the results, or of subtrees of them.
        donated: numbers of the arguments whose memory is taken.
        placed: whether the results have to be laid out so, as the function does not say how.
    """
    layouts = named_shardings(mesh, out_specs)
    if not mesh.local_devices:
        return _AbsentProgram(function, layouts)
    if placed:
        return jax.jit(function, donate_argnums=donated, out_shardings=layouts)
    return jax.jit(function, donate_argnums=donated)


class _AbsentProgram:
    """A program on devices of other processes.

    Args:
        function: function of arrays on these devices.
        layouts: layouts of the results, or of subtrees of them.
    """

    def __init__(self, function: Callable[..., Any], layouts: Any) -> None:
        self._function, self._layouts = function, layouts
        self._results: dict[Any, Any] = {}

    def __call__(self, *arguments: Any) -> Any:
        """The results, without shards."""
        leaves, tree = jax.tree.flatten(arguments)
        shapes = tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        if shapes not in self._results:
            self._results[shapes] = self._make_results(arguments)
        return self._results[shapes]

    def _make_results(self, arguments: Any) -> Any:
        shapes = jax.eval_shape(self._function, *arguments)

        def without_shards(layout: NamedSharding, part: Any) -> Any:
            return jax.tree.map(
                lambda x: jax.make_array_from_single_device_arrays(
                    x.shape, layout, [], dtype=x.dtype
                ),
                part,
            )

        return jax.tree.map(without_shards, self._layouts, shapes)
