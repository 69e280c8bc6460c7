"""Traced programs (jaxprs): evaluated equation by equation, and looked into.

And the platform that a program is traced for, which may not be this process's.

What is rewritten is the traced program
(https://docs.jax.dev/en/latest/notebooks/Writing_custom_interpreters_in_Jax.html).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun

Values = Sequence[Any]
#: From an equation and its inputs to its results.
Evaluate = Callable[[JaxprEqn, Values], Values]


def traced_platform() -> str:
    """`cpu`, `gpu` or `tpu`: the platform of the mesh of the traced `shard_map`, if there is one.

    Outside of one it is this process's. They differ where a program is compiled ahead of time.
    """
    device = jax.sharding.get_abstract_mesh().abstract_device
    return jax.default_backend() if device is None else device.platform


def evaluate_program(
    program: ClosedJaxpr, values: Values, special: Callable[[JaxprEqn], Evaluate | None]
) -> Values:
    """The results of `program`, its equations evaluated by `special`, or else as they stand."""
    jaxpr = program.jaxpr
    known: dict[Any, Any] = dict(
        zip([*jaxpr.constvars, *jaxpr.invars], [*program.consts, *values], strict=True)
    )

    def read(variables: Sequence[Any]) -> list[Any]:
        return [v.val if isinstance(v, Literal) else known[v] for v in variables]

    for evaluate, equations in groupby(jaxpr.eqns, special):
        if evaluate is None:
            block = combine_equations(jaxpr, list(equations))
            known.update(zip(block.outvars, run_program(block, read(block.invars)), strict=True))
            continue
        for eqn in equations:
            with name_scope(eqn):
                results = evaluate(eqn, read(eqn.invars))
            known.update(zip(eqn.outvars, results, strict=True))
    return read(jaxpr.outvars)


def combine_equations(jaxpr: Jaxpr, equations: list[JaxprEqn]) -> Jaxpr:
    """A program of some equations of `jaxpr`, from all that they read to all that they make."""
    outputs = {variable: None for eqn in equations for variable in variables_written(eqn)}
    read = {v: None for eqn in equations for v in variables_read(eqn) if v not in outputs}
    return jaxpr.replace(constvars=[], invars=list(read), outvars=list(outputs), eqns=equations)


def run_program(program: Jaxpr, values: Values) -> Values:
    """The results of a program without constants."""
    return jaxpr_as_fun(ClosedJaxpr(program, ()))(*values)


def variables_read(eqn: JaxprEqn) -> list[Any]:
    """The variables that an equation reads."""
    return [variable for variable in eqn.invars if not isinstance(variable, Literal)]


def variables_written(eqn: JaxprEqn) -> list[Any]:
    """The variables that an equation makes, but for those that nothing reads."""
    return [variable for variable in eqn.outvars if not isinstance(variable, DropVar)]


def results_from(program: Jaxpr, inputs: Sequence[Any]) -> list[bool]:
    """Which results of a program are computed from some of its `inputs`."""
    dependent = {*inputs}
    for eqn in program.eqns:
        if not dependent.isdisjoint(variables_read(eqn)):
            dependent.update(variables_written(eqn))
    return [not isinstance(v, Literal) and v in dependent for v in program.outvars]


def programs_in(eqn: JaxprEqn) -> list[ClosedJaxpr]:
    """The programs inside an equation."""
    programs = []
    for param in eqn.params.values():
        for value in param if isinstance(param, (list, tuple)) else (param,):
            if isinstance(value, ClosedJaxpr):
                programs.append(value)
            elif isinstance(value, Jaxpr):
                programs.append(ClosedJaxpr(value, ()))
    return programs


def contains_primitive(program: ClosedJaxpr, names: frozenset[str]) -> bool:
    """Whether a primitive of `names` is in a program, or in the programs inside it."""
    return any(is_or_contains(eqn, names) for eqn in program.jaxpr.eqns)


def is_or_contains(eqn: JaxprEqn, names: frozenset[str]) -> bool:
    """Whether an equation is of a primitive of `names`, or one in the programs inside it is."""
    return eqn.primitive.name in names or any(
        contains_primitive(inner, names) for inner in programs_in(eqn)
    )


def name_scope(eqn: JaxprEqn) -> AbstractContextManager[Any]:
    """The named scopes in which an equation stands."""
    scopes = str(eqn.source_info.name_stack)
    return jax.named_scope(scopes) if scopes else nullcontext()
