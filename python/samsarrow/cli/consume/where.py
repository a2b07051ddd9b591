"""Conditions of `--where`, which are parsed as Python, translated to Arrow expressions, and never run as code."""

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

MAX_LENGTH = 10_000
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
# Comparison operators with swapped operands.
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.Eq, ast.NotEq: ast.NotEq, ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE,
}  # fmt: skip
# Operands are converted to doubles, because Arrow's integer division truncates and fails for a zero divisor.
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: pc.add, ast.Sub: pc.subtract, ast.Mult: pc.multiply, ast.Div: pc.divide,
}  # fmt: skip
CONSTANTS = {"true": True, "false": False, "null": None}
ARROW = {NUMBER: pa.float64(), TEXT: pa.string(), TRUTH: pa.bool_()}
Path = tuple[str | int, ...]


class WhereError(click.BadParameter):
    """The text is not a valid condition, or refers to an unknown field or function."""

    def __init__(self, message: str) -> None:
        super().__init__(message, param_hint="--where")


@dataclass(frozen=True)
class ColumnRef:
    """A column that the expression reads: a field of the record, or a member of its JSON value, converted to a type."""

    root: str
    path: Path = ()
    kind: str = ANY
    # Operator and constant of a comparison with a JSON number. Python evaluates it, because no Arrow type represents
    # both 64-bit ids and fractions exactly.
    op: type[ast.cmpop] | None = None
    number: float | int | None = None


@dataclass(frozen=True)
class Operand:
    """An operand of the condition. `make` returns its Arrow expression; a JSON field can be converted to any type."""

    kind: str
    make: Callable[[str], Any] = field(compare=False)
    literal: bool = False
    value: Any = None
    # Path of a JSON field that has not been converted to a type.
    path: Path | None = None
    # True if the operand is a column of integers.
    integer: bool = False

    def to_type(self, kind: str) -> Any:
        """Returns the Arrow expression of the operand, converted to a type."""
        return self.make(kind)


class Where:
    """A condition on records.

    A comparison with a missing field, or one of another type, is null as in SQL: the record is excluded, unless another
    operand of `or` is true.

    Raises:
        WhereError: the text is not a valid condition.

    Args:
        text: text of the condition.
        kinds: types of `key` and `value`, if they are decoded to a type other than text.
        integers: names of the columns among these that are integers.
    """

    def __init__(self, text: str, kinds: Mapping[str, str] = COLUMNS, integers: Collection[str] = ()) -> None:
        self._kinds = {**COLUMNS, "value": TEXT, **kinds}
        self._integers = ("offset", "partition", *integers)
        if len(text) > MAX_LENGTH:
            raise WhereError(f"the expression has more than {MAX_LENGTH:,} characters")
        self._text = text
        self._columns: dict[ColumnRef, str] = {}
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else "it cannot be read"
            hint = "; == compares" if re.search(r"(?<![<>=!])=(?!=)", text) else ""
            raise WhereError(f"{text!r} is not an expression: {reason}{hint}") from None
        try:
            self._expression = self._truth(tree.body)
        except RecursionError:
            raise WhereError("the expression is nested too deeply") from None

    @property
    def wants_headers(self) -> bool:
        """True if the condition reads headers."""
        return any(ref.root == "header" for ref in self._columns)

    def rows(self, batch: pa.RecordBatch) -> pa.Array:
        """Returns the numbers of the rows for which the condition is true, in ascending order."""
        values: list[Any] | None = None
        columns: dict[str, Any] = {"row": pa.array(range(batch.num_rows), pa.int64())}
        for ref, name in self._columns.items():
            if ref.root == "value":
                values = _parsed(batch.column("value")) if values is None and ref.path else values
                columns[name] = _column(values if ref.path else None, batch, ref)
            elif ref.root == "header":
                columns[name] = _header(batch, ref)
            else:
                columns[name] = _plain(batch, ref.root)
        return pa.table(columns).filter(self._expression)["row"].combine_chunks()

    # The following methods translate nodes of the syntax tree to Arrow expressions, and reject unsupported nodes.

    def _truth(self, node: ast.expr) -> Any:
        part = self._part(node)
        if part.kind not in (TRUTH, ANY):
            raise WhereError(f"{self._source(node)} is a {part.kind}, not a condition")
        return part.to_type(TRUTH)

    def _part(self, node: ast.expr) -> Operand:
        match node:
            case ast.BoolOp(op=op, values=values):
                truths = [self._truth(value) for value in values]
                joined = truths[0]
                for truth in truths[1:]:
                    joined = (joined & truth) if isinstance(op, ast.And) else (joined | truth)
                return _typed_expression(TRUTH, joined)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return _typed_expression(TRUTH, ~self._truth(operand))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return self._constant(-number, node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _typed_expression(NUMBER, pc.negate(self._typed(operand, NUMBER)))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                made = ARITHMETIC[type(op)](_double(self._typed(left, NUMBER)), _double(self._typed(right, NUMBER)))
                return _typed_expression(NUMBER, made)
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
        return part.to_type(kind)

    def _constant(self, value: Any, node: ast.expr) -> Operand:
        if isinstance(value, bool):
            kind = TRUTH
        elif isinstance(value, int | float):
            kind = NUMBER
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise WhereError(f"{self._source(node)} is a number of more than 64 bits")
        elif isinstance(value, str):
            kind = TEXT
        elif value is None:
            return Operand(ANY, lambda _: pc.scalar(None), literal=True)
        else:
            raise WhereError(f"{self._source(node)} is not a number, text, true, false or null")
        return Operand(kind, lambda _: pc.scalar(value), literal=True, value=value)

    def _comparison(self, nodes: list[ast.expr], ops: list[ast.cmpop]) -> Operand:
        made = None
        for left, op, right in zip(nodes, ops, nodes[1:], strict=False):
            if isinstance(op, ast.In | ast.NotIn):
                result = self._membership(left, right)
                result = ~result if isinstance(op, ast.NotIn) else result
            else:
                result = self._pair(left, op, right)
            made = result if made is None else made & result
        return _typed_expression(TRUTH, made)

    def _membership(self, left: ast.expr, right: ast.expr) -> Any:
        if not isinstance(right, ast.List | ast.Tuple | ast.Set) or not right.elts:
            raise WhereError(
                f"in takes a list, such as ['a', 'b'], not {self._source(right)}; contains() looks into text"
            )
        equal = [self._pair(left, ast.Eq(), item) for item in right.elts]
        joined = equal[0]
        for result in equal[1:]:
            joined = joined | result
        return joined

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
        x, y = (self._instant(p, n) if kind == TIME else p.to_type(kind) for p, n in ((a, left), (b, right)))
        return COMPARE[type(op)](x, y)

    def _numbers(self, a: Operand, op: type[ast.cmpop], b: Operand) -> Any:
        if a.literal and not b.literal:
            a, op, b = b, FLIPPED[op], a
        if b.literal and a.path is not None:
            return self._column_operand(ColumnRef("value", a.path, TRUTH, op, b.value)).to_type(TRUTH)
        if b.literal and a.integer and isinstance(b.value, int):
            return COMPARE[op](a.to_type(NUMBER), b.to_type(NUMBER))
        return COMPARE[op](_double(a.to_type(NUMBER)), _double(b.to_type(NUMBER)))

    def _presence(self, node: ast.expr) -> Any:
        """Returns an expression that is true if an operand is null. The operand may have any type."""
        part = self._part(node)
        return pc.is_null(part.to_type(TEXT if part.kind == ANY else part.kind))

    def _common(self, left: ast.expr, a: Operand, op: ast.cmpop, right: ast.expr, b: Operand) -> str:
        """Returns the type to which two operands are converted before they are compared."""
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

    def _instant(self, part: Operand, node: ast.expr) -> Any:
        if not part.literal:
            return part.to_type(TIME)
        try:
            found = instant_of(str(part.value)) if part.kind == TEXT else int(part.value)
        except (ValueError, OverflowError) as error:
            raise WhereError(f"{self._source(node)}: {error}") from None
        return pc.scalar(pa.scalar(found, pa.timestamp("ms", "UTC")))

    def _call(self, node: ast.Call) -> Operand:
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
            return _typed_expression(kind, part.to_type(kind))
        text = self._typed(node.args[0], TEXT)
        if name in ("lower", "upper"):
            return _typed_expression(TEXT, pc.utf8_lower(text) if name == "lower" else pc.utf8_upper(text))
        if name == "length":
            return _typed_expression(NUMBER, pc.utf8_length(text))
        pattern = self._part(node.args[1])
        if not pattern.literal or pattern.kind != TEXT:
            raise WhereError(f"the second argument of {name} must be text in quotes")
        if name == "matches":
            check_pattern(pattern.value)
            return _typed_expression(TRUTH, pc.match_substring_regex(text, pattern.value))
        functions = {"startswith": pc.starts_with, "endswith": pc.ends_with, "contains": pc.match_substring}
        return _typed_expression(TRUTH, functions[name](text, pattern.value))

    def _field(self, node: ast.expr) -> Operand:
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
            return self._column_operand(ColumnRef(root, (), self._kinds[root]))
        if root == "header" and len(path) == 1 and isinstance(path[0], str):
            return self._column_operand(ColumnRef(root, tuple(path), TEXT))
        if root != "value":
            raise WhereError(f"there is no field {self._source(node)}; there are {FIELDS}")
        if self._kinds[root] != TEXT:
            raise WhereError(f"{self._source(node)} is not a field: value is a {self._kinds[root]}")
        full = tuple(path)
        return Operand(ANY, lambda kind: self._column_operand(ColumnRef("value", full, kind)).to_type(kind), path=full)

    def _column_operand(self, ref: ColumnRef) -> Operand:
        name = self._columns.setdefault(ref, f"c{len(self._columns)}")
        column = pc.field(name)
        return Operand(ref.kind, lambda _: column, integer=ref.root in self._integers)

    def _source(self, node: ast.AST) -> str:
        return ast.get_source_segment(self._text.strip(), node) or "this"


def check_pattern(pattern: str) -> None:
    """Rejects an invalid regular expression (RE2).

    Raises:
        WhereError: the pattern is not a regular expression.
    """
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        raise WhereError(f"{pattern!r} is not a regular expression: {str(error).splitlines()[0]}") from None


def _typed_expression(kind: str, expression: Any) -> Operand:
    return Operand(kind, lambda _: expression)


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


def _column(values: list[Any] | None, batch: pa.RecordBatch, ref: ColumnRef) -> pa.Array:
    if values is None:
        return _plain(batch, "value")
    if ref.op is not None:
        compare = COMPARE[ref.op]
        numbers = [_as(_at(value, ref.path), NUMBER) for value in values]
        return pa.array([None if n is None else compare(n, ref.number) for n in numbers], pa.bool_())
    found = [_as(_at(value, ref.path), ref.kind) for value in values]
    if ref.kind == TIME:
        return pa.array(found, pa.timestamp("ms", "UTC"))
    if ref.kind == NUMBER:
        found = [None if number is None else float(number) for number in found]
    return pa.array(found, ARROW[ref.kind])


def _as(value: Any, kind: str) -> Any:
    """Converts a member of a JSON value to a type; returns None if the member has another type."""
    if kind == TRUTH:
        return value if isinstance(value, bool) else None
    if kind == NUMBER:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        # JSON numbers can have any length. Numbers beyond the range of a double become infinite.
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
    """Returns bytes as text; invalid UTF-8 becomes U+FFFD."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if b is None else b.decode(errors="replace") for b in column.to_pylist()], pa.string())


def _plain(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = batch.column(name)
    if name == "topic":
        return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return texts(column) if pa.types.is_binary(column.type) else column


def _header(batch: pa.RecordBatch, ref: ColumnRef) -> pa.Array:
    """Returns, for each row, the last header with a name as text."""
    name = ref.path[0]
    found: list[str | None] = []
    for row in batch.column("headers").to_pylist():
        value = next((h["value"] for h in reversed(row or ()) if h["key"] == name), None)
        found.append(None if value is None else value.decode(errors="replace"))
    return pa.array(found, pa.string())
