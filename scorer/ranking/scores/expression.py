"""Expression: prefers machines where an expression over their columns is large."""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from schemas.resources import RESOURCES
from schemas.values.numbers import finite
from scorer.ranking.kernel.layout import SHARE
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request

LENGTH_MAX = 500
BY_RESOURCE = (
    "allocatable", "allocated", "amounts", "capacity", "credit", "deviation", "estimated", "expected", "limited",
    "max", "mean", "std", "taken", "utilization",
)  # fmt: skip
"""Columns by resource: ``mean.cpu``. `amounts` and `expected` are the request's."""
BY_MACHINE = ("count", "coverage", "maxmemory")
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {"min": np.minimum, "max": np.maximum}
_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: np.divide,
}  # fmt: skip


@dataclass(frozen=True)
class Expression(Plugin):
    """Prefer machines with a large ``value``: 100 for the largest of the feasible ones, the others in proportion.

    ``value`` has numbers, ``+ - * /``, parentheses, ``min(a, b)``, ``max(a, b)``, columns by resource
    (``allocatable.memory``: `BY_RESOURCE`) and by machine (``count``: `BY_MACHINE`), in base units: cores, bytes, bytes
    a second. A value below 0, or one that is not known, scores 0. By default the memory that is neither promised nor
    used.
    """

    name = "expression"

    value: str = "allocatable.memory - taken.memory"

    def __post_init__(self) -> None:
        self._of(_Checked())
        if not any(isinstance(x, ast.Attribute) or getattr(x, "id", "") in BY_MACHINE for x in ast.walk(self._tree)):
            raise ValueError(f"value: {self.value!r} names no column, so it is the same for all machines")

    @cached_property
    def _tree(self) -> ast.expr:
        return ast.parse(self.value, mode="eval").body

    @property
    def inner(self) -> int:
        """Compare with the largest value among the feasible machines."""
        return SHARE

    def needs(self, rules: object) -> frozenset[str]:
        attributes = (node.value for node in ast.walk(self._tree) if isinstance(node, ast.Attribute))
        named = any(isinstance(each, ast.Name) and each.id == "max" for each in attributes)
        return frozenset(["statistics"] if named else [])

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        found = np.array(np.broadcast_to(self._of(machines), len(machines)), np.float64)
        return (np.where(np.isfinite(found), found, np.nan),)

    def far(self, request: Request, machines: Machines) -> bool:
        """Return True: a copy's effect on its machine's value is not linear, so each copy is evaluated anew."""
        return True

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        return {"amount": finite(said[0])}

    def _of(self, machines: Any) -> Any:
        """Return the value over these machines. Raises ValueError."""
        if not 0 < len(self.value) <= LENGTH_MAX:
            raise ValueError(f"value: expected an expression of at most {LENGTH_MAX} characters")
        try:
            with np.errstate(all="ignore"):
                return _value(self._tree, machines)
        except (SyntaxError, MemoryError, RecursionError, OverflowError) as error:
            raise ValueError(f"value: {self.value!r} cannot be read: {getattr(error, 'msg', 'too deep')}") from None


class _Checked:
    """A machine whose columns are all 1, to check a formula."""

    def __getattr__(self, name: str) -> Any:
        return np.ones((len(RESOURCES), 1)) if name in BY_RESOURCE else np.ones(1)


def _value(node: ast.expr, machines: Any) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.Name(id=name) if name in BY_MACHINE:
            return getattr(machines, name)
        case ast.Attribute(value=ast.Name(id=name), attr=resource) if name in BY_RESOURCE and resource in RESOURCES:
            return getattr(machines, name)[RESOURCES.index(resource)]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, machines), _value(right, machines))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, machines)
        case ast.Call(func=ast.Name(id=name), args=[first, second], keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(first, machines), _value(second, machines))
    columns = f"{', '.join(BY_RESOURCE)} by resource ({', '.join(RESOURCES)}), {', '.join(BY_MACHINE)}"
    raise ValueError(f"value: {ast.unparse(node)!r} is no number, column, + - * /, min(a, b) or max(a, b); {columns}")
