"""`--where "value.amount > 10 and topic != 'old'"`: parsed, made into an Arrow expression, never run as code."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from samsarrow.cli.times import instant_of

LONGEST = 10_000
FIELDS = "topic, partition, offset, timestamp, key, value, value.NAME, value['NAME'], value.LIST[0], header.NAME"
FUNCTIONS = "startswith, endswith, contains, matches, lower, upper, length, number, text"
NUMBER, TEXT, TRUTH, TIME, ANY = "number", "text", "truth", "time", "any"
COLUMNS = {"topic": TEXT, "partition": NUMBER, "offset": NUMBER, "timestamp": TIME, "key": TEXT}
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}
# Numbers are doubles here: integers would be divided as such, and by 0 not at all.
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.Eq, ast.NotEq: ast.NotEq, ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: pc.add, ast.Sub: pc.subtract, ast.Mult: pc.multiply, ast.Div: pc.divide,
}  # fmt: skip
CONSTANTS = {"true": True, "false": False, "null": None}
ARROW = {NUMBER: pa.float64(), TEXT: pa.string(), TRUTH: pa.bool_()}
Path = tuple[str | int, ...]


class WhereError(click.BadParameter):
    """The expression is none, or asks for something that is not there."""


@dataclass(frozen=True)
class Leaf:
    """A column that the expression reads: a field of the record, or a part of its value as a type."""

    root: str
    path: Path = ()
    kind: str = ANY
    # For a comparison with a number, which is made here: 64-bit ids and 10.5 are in no Arrow type both exact.
    op: type[ast.cmpop] | None = None
    number: float | int | None = None


@dataclass(frozen=True)
class Part:
    """A part of the expression: what makes its Arrow expression, and of which type; a JSON field takes any."""

    kind: str
    make: Callable[[str], Any] = field(compare=False)
    literal: bool = False
    value: Any = None
    # Of a JSON field that has no type yet.
    path: Path | None = None
    # Whether it is a column of integers.
    integer: bool = False

    def as_(self, kind: str) -> Any:
        """As an Arrow expression of a type."""
        return self.make(kind)


class Where:
    """A condition on records.

    A comparison with what a record does not have, or has as another type, is neither true nor false (as SQL's null):
    the record is left out, unless `or` finds another reason to take it.

    Raises:
        WhereError: the text is no such expression.

    Args:
        text: of the condition.
        kinds: what keys and values are as a whole, where that is no text.
        integers: which of these are integers.
    """

    def __init__(self, text: str, kinds: Mapping[str, str] = COLUMNS, integers: Collection[str] = ()) -> None:
        self._kinds = {**COLUMNS, "value": TEXT, **kinds}
        self._integers = ("offset", "partition", *integers)
        if len(text) > LONGEST:
            raise WhereError(f"the expression has more than {LONGEST:,} characters")
        self._text = text
        self._leaves: dict[Leaf, str] = {}
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            why = error.msg if isinstance(error, SyntaxError) else "it cannot be read"
            hint = "; == compares" if re.search(r"(?<![<>=!])=(?!=)", text) else ""
            raise WhereError(f"{text!r} is not an expression: {why}{hint}") from None
        try:
            self._expression = self._truth(tree.body)
        except RecursionError:
            raise WhereError("the expression is nested too deeply") from None

    @property
    def wants_headers(self) -> bool:
        """Whether it reads headers."""
        return any(leaf.root == "header" for leaf in self._leaves)

    def rows(self, batch: pa.RecordBatch) -> pa.Array:
        """The numbers of the rows for which it is true, rising."""
        values: list[Any] | None = None
        columns: dict[str, Any] = {"row": pa.array(range(batch.num_rows), pa.int64())}
        for leaf, name in self._leaves.items():
            if leaf.root == "value":
                values = _parsed(batch.column("value")) if values is None and leaf.path else values
                columns[name] = _column(values if leaf.path else None, batch, leaf)
            elif leaf.root == "header":
                columns[name] = _header(batch, leaf)
            else:
                columns[name] = _plain(batch, leaf.root)
        return pa.table(columns).filter(self._expression)["row"].combine_chunks()

    # From the tree to an expression; each method refuses what it does not know.

    def _truth(self, node: ast.expr) -> Any:
        part = self._part(node)
        if part.kind not in (TRUTH, ANY):
            raise WhereError(f"{self._source(node)} is a {part.kind}, not a condition")
        return part.as_(TRUTH)

    def _part(self, node: ast.expr) -> Part:
        match node:
            case ast.BoolOp(op=op, values=values):
                truths = [self._truth(value) for value in values]
                joined = truths[0]
                for truth in truths[1:]:
                    joined = (joined & truth) if isinstance(op, ast.And) else (joined | truth)
                return _settled(TRUTH, joined)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return _settled(TRUTH, ~self._truth(operand))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return self._constant(-number, node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _settled(NUMBER, pc.negate(self._typed(operand, NUMBER)))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                made = ARITHMETIC[type(op)](_double(self._typed(left, NUMBER)), _double(self._typed(right, NUMBER)))
                return _settled(NUMBER, made)
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                return self._comparison([left, *comparators], ops)
            case ast.Constant(value=value):
                return self._constant(value, node)
            case ast.Name(id=name) if name in CONSTANTS:
                return self._constant(CONSTANTS[name], node)
            case ast.Call():
                return self._call(node)
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self._field(node)
        raise WhereError(
            f"{self._source(node)} is not allowed in a condition, which takes comparisons of {FIELDS} joined by and, "
            f"or, not and in, + - * /, and the functions {FUNCTIONS}"
        )

    def _typed(self, node: ast.expr, kind: str) -> Any:
        part = self._part(node)
        if part.kind not in (kind, ANY):
            raise WhereError(f"{self._source(node)} is a {part.kind}, not a {kind}")
        return part.as_(kind)

    def _constant(self, value: Any, node: ast.expr) -> Part:
        if isinstance(value, bool):
            kind = TRUTH
        elif isinstance(value, int | float):
            kind = NUMBER
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise WhereError(f"{self._source(node)} is a number of more than 64 bits")
        elif isinstance(value, str):
            kind = TEXT
        elif value is None:
            return Part(ANY, lambda _: pc.scalar(None), literal=True)
        else:
            raise WhereError(f"{self._source(node)} is not a number, text, true, false or null")
        return Part(kind, lambda _: pc.scalar(value), literal=True, value=value)

    def _comparison(self, nodes: list[ast.expr], ops: list[ast.cmpop]) -> Part:
        made = None
        for left, op, right in zip(nodes, ops, nodes[1:], strict=False):
            if isinstance(op, ast.In | ast.NotIn):
                one = self._membership(left, right)
                one = ~one if isinstance(op, ast.NotIn) else one
            else:
                one = self._pair(left, op, right)
            made = one if made is None else made & one
        return _settled(TRUTH, made)

    def _membership(self, left: ast.expr, right: ast.expr) -> Any:
        if not isinstance(right, ast.List | ast.Tuple | ast.Set) or not right.elts:
            raise WhereError(
                f"in takes a list, such as ['a', 'b'], not {self._source(right)}; contains() looks into text"
            )
        alike = [self._pair(left, ast.Eq(), one) for one in right.elts]
        made = alike[0]
        for one in alike[1:]:
            made = made | one
        return made

    def _pair(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Any:
        a, b = self._part(left), self._part(right)
        nulls = [part.literal and part.value is None for part in (a, b)]
        if any(nulls):
            if not isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
                raise WhereError("null can only be compared by ==, !=, is and is not")
            other = self._presence(right if nulls[0] else left)
            return ~other if isinstance(op, ast.NotEq | ast.IsNot) else other
        if type(op) not in COMPARE:
            raise WhereError("is and is not compare with null only")
        kind = self._common(left, a, op, right, b)
        if kind == TRUTH and not isinstance(op, ast.Eq | ast.NotEq):
            raise WhereError("true and false have no order")
        if kind == NUMBER:
            return self._numbers(a, type(op), b)
        x, y = (self._instant(p, n) if kind == TIME else p.as_(kind) for p, n in ((a, left), (b, right)))
        return COMPARE[type(op)](x, y)

    def _numbers(self, a: Part, op: type[ast.cmpop], b: Part) -> Any:
        if a.literal and not b.literal:
            a, op, b = b, FLIPPED[op], a
        if b.literal and a.path is not None:
            return self._leaf(Leaf("value", a.path, TRUTH, op, b.value)).as_(TRUTH)
        if b.literal and a.integer and isinstance(b.value, int):
            return COMPARE[op](a.as_(NUMBER), b.as_(NUMBER))
        return COMPARE[op](_double(a.as_(NUMBER)), _double(b.as_(NUMBER)))

    def _presence(self, node: ast.expr) -> Any:
        """Whether something is null, of whatever type it is."""
        part = self._part(node)
        return pc.is_null(part.as_(TEXT if part.kind == ANY else part.kind))

    def _common(self, left: ast.expr, a: Part, op: ast.cmpop, right: ast.expr, b: Part) -> str:
        """The type in which two parts are compared."""
        kinds = {a.kind, b.kind} - {ANY}
        if len(kinds) == 1:
            return kinds.pop()
        if not kinds:
            return TEXT if isinstance(op, ast.Eq | ast.NotEq) else NUMBER
        if TIME in kinds and any(part.literal for part in (a, b)):
            return TIME
        raise WhereError(
            f"{self._source(left)} is a {a.kind} and {self._source(right)} a {b.kind}, which cannot be compared"
        )

    def _instant(self, part: Part, node: ast.expr) -> Any:
        if not part.literal:
            return part.as_(TIME)
        try:
            found = instant_of(str(part.value)) if part.kind == TEXT else int(part.value)
        except (ValueError, OverflowError) as error:
            raise WhereError(f"{self._source(node)}: {error}") from None
        return pc.scalar(pa.scalar(found, pa.timestamp("ms", "UTC")))

    def _call(self, node: ast.Call) -> Part:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        arity = {"lower": 1, "upper": 1, "length": 1, "number": 1, "text": 1, "startswith": 2, "endswith": 2,
                 "contains": 2, "matches": 2}.get(name or "")  # fmt: skip
        if arity is None or name is None:
            raise WhereError(f"there is no function {self._source(node.func)}; there are {FUNCTIONS}")
        if node.keywords or len(node.args) != arity:
            raise WhereError(f"{name} takes {arity} argument{'s' if arity > 1 else ''}")
        if name in ("number", "text"):
            part = self._part(node.args[0])
            kind = NUMBER if name == "number" else TEXT
            if part.kind not in (ANY, kind):
                raise WhereError(f"{self._source(node.args[0])} is a {part.kind}: {name} reads what is in JSON")
            return _settled(kind, part.as_(kind))
        of = self._typed(node.args[0], TEXT)
        if name in ("lower", "upper"):
            return _settled(TEXT, pc.utf8_lower(of) if name == "lower" else pc.utf8_upper(of))
        if name == "length":
            return _settled(NUMBER, pc.utf8_length(of))
        pattern = self._part(node.args[1])
        if not pattern.literal or pattern.kind != TEXT:
            raise WhereError(f"the second argument of {name} must be text in quotes")
        if name == "matches":
            check_pattern(pattern.value)
            return _settled(TRUTH, pc.match_substring_regex(of, pattern.value))
        return _settled(TRUTH, {"startswith": pc.starts_with, "endswith": pc.ends_with, "contains": pc.match_substring}
                        [name](of, pattern.value))  # fmt: skip

    def _field(self, node: ast.expr) -> Part:
        path: list[str | int] = []
        at: ast.expr = node
        while not isinstance(at, ast.Name):
            match at:
                case ast.Attribute(value=inner, attr=name):
                    path.insert(0, name)
                case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as key)):
                    path.insert(0, key)
                case ast.Subscript(
                    value=inner, slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as key))
                ):
                    path.insert(0, -key)
                case _:
                    raise WhereError(f"{self._source(node)} is not a field: there are {FIELDS}")
            at = inner
        root = {"headers": "header"}.get(at.id, at.id)
        if root in self._kinds and not path:
            return self._leaf(Leaf(root, (), self._kinds[root]))
        if root == "header" and len(path) == 1 and isinstance(path[0], str):
            return self._leaf(Leaf(root, tuple(path), TEXT))
        if root != "value":
            raise WhereError(f"there is no field {self._source(node)}; there are {FIELDS}")
        if self._kinds[root] != TEXT:
            raise WhereError(f"{self._source(node)} is not a field: value is a {self._kinds[root]}")
        its = tuple(path)
        return Part(ANY, lambda kind: self._leaf(Leaf("value", its, kind)).as_(kind), path=its)

    def _leaf(self, leaf: Leaf) -> Part:
        name = self._leaves.setdefault(leaf, f"c{len(self._leaves)}")
        column = pc.field(name)
        return Part(leaf.kind, lambda _: column, integer=leaf.root in self._integers)

    def _source(self, node: ast.AST) -> str:
        return ast.get_source_segment(self._text.strip(), node) or "this"


def check_pattern(pattern: str) -> None:
    """Refuses what is no regular expression of RE2.

    Raises:
        WhereError: it is none.
    """
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        raise WhereError(f"{pattern!r} is not a regular expression: {str(error).splitlines()[0]}") from None


def _settled(kind: str, expression: Any) -> Part:
    return Part(kind, lambda _: expression)


def _double(expression: Any) -> Any:
    return expression.cast(pa.float64(), safe=False)


def _parsed(values: pa.Array) -> list[Any]:
    return [_json(value) for value in values.to_pylist()]


def _json(value: bytes | None) -> Any:
    try:
        return None if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return None


def _at(value: Any, path: Path) -> Any:
    for key in path:
        if isinstance(key, str):
            value = value.get(key) if isinstance(value, dict) else None
        else:
            value = value[key] if isinstance(value, list) and -len(value) <= key < len(value) else None
    return value


def _column(values: list[Any] | None, batch: pa.RecordBatch, leaf: Leaf) -> pa.Array:
    if values is None:
        return _plain(batch, "value")
    if leaf.op is not None:
        compare = COMPARE[leaf.op]
        numbers = [_as(_at(value, leaf.path), NUMBER) for value in values]
        return pa.array([None if one is None else compare(one, leaf.number) for one in numbers], pa.bool_())
    found = [_as(_at(value, leaf.path), leaf.kind) for value in values]
    if leaf.kind == TIME:
        return pa.array(found, pa.timestamp("ms", "UTC"))
    if leaf.kind == NUMBER:
        found = [None if one is None else float(one) for one in found]
    return pa.array(found, ARROW[leaf.kind])


def _as(value: Any, kind: str) -> Any:
    """A part of a JSON value as a type; None for what is of another."""
    if kind == TRUTH:
        return value if isinstance(value, bool) else None
    if kind == NUMBER:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        # Numbers of any length are JSON; what is longer than a double is infinite there, too.
        return value if isinstance(value, float) or value.bit_length() <= 1000 else math.copysign(math.inf, value)
    if kind == TIME:
        try:
            return value if isinstance(value, int) else instant_of(value)
        except (ValueError, TypeError, AttributeError):
            return None
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def texts(column: pa.Array) -> pa.Array:
    """Bytes as text; what is no UTF-8 in them becomes U+FFFD."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if b is None else b.decode(errors="replace") for b in column.to_pylist()], pa.string())


def _plain(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = batch.column(name)
    if name == "topic":
        return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return texts(column) if pa.types.is_binary(column.type) else column


def _header(batch: pa.RecordBatch, leaf: Leaf) -> pa.Array:
    """The last header of a name, as text."""
    name = leaf.path[0]
    found: list[str | None] = []
    for row in batch.column("headers").to_pylist():
        value = next((h["value"] for h in reversed(row or ()) if h["key"] == name), None)
        found.append(None if value is None else value.decode(errors="replace"))
    return pa.array(found, pa.string())
