"""A layer that is cut at its products, so that gradients of weights are apart from those of inputs.

After Qi et al., "Zero bubble pipeline parallelism" (arXiv 2401.10241, section 2). A product is an
equation of the traced layer that multiplies something that depends on the layer's input with
something that depends on parameters alone. The backward goes through products by their inputs, and
keeps a pair for each: its input, and the gradient of its output. All gradients of the products'
parameters are computed from these pairs, whenever that suits::

    forward     x ---- a ----> [a k] ---- b ----> [b l] ----> y
    backward   dx <----------- k^T p <----------- l^T q <---- dy      keeps (a, p) and (b, q)
    weights                    dk = a^T p         dl = b^T q

Parameters that something else reads, too (the scales of norms, biases), are small: the backward
makes their gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, jaxpr_as_fun

from sharding.collectives import vary
from sharding.traced import (
    Evaluate,
    Values,
    combine_equations,
    evaluate_program,
    is_or_contains,
    run_program,
    variables_read,
    variables_written,
)

PyTree = Any
#: A layer: from parameters, input and everything else to outputs.
Layer = Callable[[PyTree, jax.Array, PyTree], PyTree]
#: Inputs of the products of a layer, and the gradients of their outputs.
SavedOperands = tuple[list[jax.Array], list[jax.Array]]

#: Primitives that multiply matrices.
MULTIPLY = frozenset({"conv_general_dilated", "dot_general", "ragged_dot_general"})


@dataclass(frozen=True, eq=False)
class SplitLayer:
    """A traced layer, cut at its products.

    Attributes:
        program: the traced layer; it reads leaves of parameters, of the input, and all others.
        structure: structure of its outputs.
        count: number of leaves of parameters.
        deferred: numbers of the leaves whose gradients are computed from pairs.
    """

    program: ClosedJaxpr
    structure: Any
    count: int
    deferred: frozenset[int]

    @classmethod
    def trace_layer(
        cls,
        layer: Layer,
        params: PyTree,
        x: jax.Array,
        others: PyTree,
        deferred: frozenset[int] | None,
    ) -> SplitLayer:
        """`layer`, traced for arguments like these.

        Args:
            deferred: see the attribute; None stands for all parameters that products alone read.
        """
        program, shapes = jax.make_jaxpr(layer, return_shape=True)(params, x, others)
        structure, count = jax.tree.structure(shapes), len(jax.tree.leaves(params))
        undivided = cls(program, structure, count, frozenset(range(count)))
        return cls(
            program,
            structure,
            count,
            undivided._product_parameters() if deferred is None else deferred,
        )

    def linearize(self, leaves: Values, x: jax.Array, others: PyTree) -> tuple[PyTree, PyTree]:
        """The outputs, and what `backward` needs.

        Args:
            leaves: leaves of the parameters.
        """

        def outputs(
            immediate: Values, x: jax.Array, zeros: Values
        ) -> tuple[PyTree, list[jax.Array]]:
            inputs: dict[Any, jax.Array] = {}
            waiting = iter(zeros)
            special = partial(self._is_special, partial(self._run_product, inputs, waiting))
            values = [*self._merge_leaves(leaves, immediate), x, *jax.tree.leaves(others)]
            results = evaluate_program(self.program, values, special)
            return jax.tree.unflatten(self.structure, results), [
                inputs[variable] for variable in self._inputs
            ]

        immediate = [leaf for number, leaf in enumerate(leaves) if number not in self.deferred]
        zeros = [_zeros_of(variable.aval) for variable in self._outputs]
        primals, pull, inputs = jax.vjp(outputs, immediate, x, zeros, has_aux=True)
        return primals, (pull, inputs)

    @staticmethod
    def backward(
        linearized: PyTree, gradients: PyTree
    ) -> tuple[list[jax.Array], jax.Array, SavedOperands]:
        """Gradients of the parameters that are not deferred and of the input, and the pairs.

        Args:
            linearized: from `linearize`.
            gradients: of the outputs.
        """
        pull, inputs = linearized
        immediate, dx, of_products = pull(gradients)
        return immediate, dx, (inputs, of_products)

    def weight_gradients(self, leaves: Values, pairs: SavedOperands) -> list[jax.Array]:
        """Gradients of the deferred parameters.

        Args:
            leaves: leaves of the parameters.
            pairs: from `backward`.
        """
        inputs, gradients = pairs
        deferred = [leaf for number, leaf in enumerate(leaves) if number in self.deferred]

        def products(deferred: Values) -> list[jax.Array]:
            deferred_leaves = iter(deferred)
            merged = [
                next(deferred_leaves) if n in self.deferred else leaf
                for n, leaf in enumerate(leaves)
            ]
            operands = jaxpr_as_fun(self._of_parameters)(*merged)
            known = dict(zip(self._operands, operands, strict=True))
            known |= zip(self._inputs, inputs, strict=True)
            return [
                product for eqn in self._products for product in self._evaluate_equation(eqn, known)
            ]

        (weight_grads,) = jax.vjp(products, deferred)[1](gradients)
        return weight_grads

    # ---- the traced layer --------------------------------------------------------------------

    @cached_property
    def _reads(self) -> dict[Any, frozenset[int] | None]:
        """By variable the leaves of parameters that it depends on; None if on any data."""
        jaxpr = self.program.jaxpr
        known: dict[Any, frozenset[int] | None] = dict.fromkeys(jaxpr.constvars, frozenset())
        for number, variable in enumerate(jaxpr.invars):
            known[variable] = frozenset({number}) if number < self.count else None
        for eqn in jaxpr.eqns:
            read = [known[variable] for variable in variables_read(eqn)]
            numbers = (
                None if None in read else _union_sets(variable for variable in read if variable)
            )
            constant = eqn.primitive.name == "stop_gradient" and numbers is not None
            known.update(dict.fromkeys(eqn.outvars, frozenset() if constant else numbers))
        return known

    def _read_parameters(self, eqn: JaxprEqn) -> frozenset[int]:
        """Leaves that an equation reads together with data."""
        read = [self._reads[variable] for variable in variables_read(eqn)]
        return _union_sets(filter(None, read)) if None in read else frozenset()

    def _product_parameters(self) -> frozenset[int]:
        """Leaves of parameters that products alone read."""
        mixed = [(eqn, self._read_parameters(eqn)) for eqn in self.program.jaxpr.eqns]
        parameters = (self._reads[variable] for variable in self._outvars)
        elsewhere = _union_sets(filter(None, parameters)) | _union_sets(
            variable for eqn, variable in mixed if not is_or_contains(eqn, MULTIPLY)
        )
        deferred = _union_sets(variable for _, variable in mixed)
        while deferred & elsewhere:
            deferred -= elsewhere
            elsewhere = _union_sets(variable for _, variable in mixed if not variable <= deferred)
        return deferred

    @property
    def _outvars(self) -> list[Any]:
        return [
            variable for variable in self.program.jaxpr.outvars if not isinstance(variable, Literal)
        ]

    @cached_property
    def _products(self) -> list[JaxprEqn]:
        """The equations whose pairs are saved."""
        return [eqn for eqn in self.program.jaxpr.eqns if self._is_product(eqn)]

    def _is_product(self, eqn: JaxprEqn) -> bool:
        read = self._read_parameters(eqn)
        return bool(read) and read <= self.deferred and is_or_contains(eqn, MULTIPLY)

    @cached_property
    def _inputs(self) -> list[Any]:
        """The data that products read."""
        data = (variable for eqn in self._products for variable in variables_read(eqn))
        return list(dict.fromkeys(variable for variable in data if self._reads[variable] is None))

    @cached_property
    def _outputs(self) -> list[Any]:
        """What products make."""
        return [variable for eqn in self._products for variable in variables_written(eqn)]

    @cached_property
    def _operands(self) -> list[Any]:
        """What products read of parameters."""
        variable = dict.fromkeys(
            variable for eqn in self._products for variable in variables_read(eqn)
        )
        return [operand for operand in variable if self._reads[operand] is not None]

    @cached_property
    def _of_parameters(self) -> ClosedJaxpr:
        """From the leaves of parameters to what products read of them."""
        jaxpr, reads = self.program.jaxpr, self._reads
        equations = [
            e
            for e in jaxpr.eqns
            if all(reads[variable] is not None for variable in variables_read(e))
        ]
        leaves = jaxpr.invars[: self.count]
        variable = jaxpr.replace(invars=leaves, outvars=self._operands, eqns=equations)
        return ClosedJaxpr(variable, self.program.consts)

    def _merge_leaves(self, leaves: Values, immediate: Values) -> list[Any]:
        """All leaves, `immediate` among them."""
        immediate_leaves = iter(immediate)
        return [
            leaf if n in self.deferred else next(immediate_leaves) for n, leaf in enumerate(leaves)
        ]

    def _is_special(self, product: Evaluate, eqn: JaxprEqn) -> Evaluate | None:
        return product if self._is_product(eqn) else None

    def _run_product(
        self, inputs: dict[Any, jax.Array], zeros: Iterator[Any], eqn: JaxprEqn, values: Values
    ) -> Values:
        """The results of a product; `inputs` gets the data that it reads."""
        pairs = zip(eqn.invars, values, strict=True)
        known = {variable: value for variable, value in pairs if not isinstance(variable, Literal)}
        inputs.update(
            {variable: known[variable] for variable in known if self._reads[variable] is None}
        )
        seen = map(_with_gradient_tap, self._evaluate_equation(eqn, known), zeros)
        written = dict(zip(variables_written(eqn), seen, strict=True))
        return [written.get(variable) for variable in eqn.outvars]

    def _evaluate_equation(self, eqn: JaxprEqn, known: Mapping[Any, Any]) -> Values:
        """What an equation makes of the values of what it reads."""
        alone = combine_equations(self.program.jaxpr, [eqn])
        return run_program(alone, [known[variable] for variable in alone.invars])


@jax.custom_vjp
def _with_gradient_tap(x: jax.Array, zero: jax.Array) -> jax.Array:
    """`x`; the gradient of `zero`, which nothing reads, is that of `x`."""
    del zero
    return x


_with_gradient_tap.defvjp(lambda x, zero: (x, None), lambda _, gradient: (gradient, gradient))


def _zeros_of(aval: Any) -> jax.Array:
    """Zeros of a traced value's type."""
    return vary(jnp.zeros(aval.shape, aval.dtype), tuple(sorted(aval.mat.varying)))


def _union_sets(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset[int]().union(*sets)
