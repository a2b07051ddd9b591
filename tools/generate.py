"""Generates code from tables of the Rust client: exceptions of the protocol and types of the options.

`make generate` runs this after the extension is built; tests/house checks that the files are current.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from samsarrow import _core

PACKAGE = Path(__file__).resolve().parents[1] / "python" / "samsarrow"
MARK = "# Below: the protocol's errors, by `make generate` from the table in rust/wire.\n"
# Names of the errors raised because another client has taken over.
FENCED = {"InvalidProducerEpochError", "FencedInstanceIdError", "ProducerFencedError", "FencedMemberEpochError"}
LOGINS = {"UnsupportedSaslMechanismError", "IllegalSaslStateError", "SaslAuthenticationFailedError"}
# Python types of options that accept more than text.
WIDER = {
    "partitioner": "{} | Partitioner",
    "partition.assignment.strategy": "str | Sequence[str | Assignor]",
    "sasl.oauthbearer.token.provider": "TokenProvider",
}
TYPES = {
    "str": "str",
    "secret": "str",
    "path": "str | PathLike[str]",
    "list": "str | Sequence[str]",
    "bool": "bool",
    "int": "int",
    "duration": "int | timedelta",
    "float": "float",
}
WIDTH = 120


def exceptions() -> str:
    """Returns the text of exceptions.py: the hand-written part, then a class for each error."""
    own, mark, _ = (PACKAGE / "exceptions.py").read_text().partition(MARK)
    if not mark:
        raise SystemExit(f"exceptions.py has no line {MARK!r}")
    return own + MARK + "".join(f"\n\n{_exception(*row)}" for row in _core.error_table())


def _exception(code: int, name: str, retriable: bool, fatal: bool, meaning: str, kafka: str) -> str:
    base = (
        "AuthorizationError"
        if "Authorization" in name
        else "AuthenticationError"
        if name in LOGINS
        else "FencedError"
        if name in FENCED
        else "RetriableError"
        if retriable
        else "KafkaError"
    )
    lines = [f"class {name}({base}):", f'    """{meaning[0].upper()}{meaning[1:]}."""', ""]
    lines += [f'    name = "{kafka}"', f"    code = {code}"]
    if fatal != (base == "AuthenticationError"):
        lines.append(f"    fatal = {fatal}")
    if name == "TransactionAbortableError":
        lines.append("    abortable = True")
    return "\n".join(lines) + "\n"


def options() -> str:
    """Returns the text of options.py."""
    types = {name: (words, meaning) for name, words, meaning in _core.option_types()}
    table = _core.option_table()
    shared = {name for name, _, _, clients in table if len(clients) == 3}
    parts = [_HEAD]
    for client in (None, "consumer", "producer", "admin"):
        of = [
            row for row in table if (row[0] in shared if client is None else row[0] not in shared and client in row[3])
        ]
        parts.append("\n".join(_dictionary(client, of, types)))
    return "\n\n".join(parts)


def _dictionary(
    client: str | None, table: list[tuple[str, list[str], str, list[str]]], types: dict[str, tuple[list[str], str]]
) -> Iterator[str]:
    if client is None:
        yield "class CommonOptions(TypedDict, total=False):"
        yield '    """Keywords of every client."""\n'
        yield "    ssl_context: SSLContext | None"
        yield '    """Whom to trust, who we are, which versions of TLS: instead of the options `ssl.*`."""'
        yield "    on_event: OnEvent | None"
        yield '    """Called for what happens seldom: connections, throttling, rebalances, offsets reset, fencing."""'
    else:
        yield f"class {client.capitalize()}Options(CommonOptions, total=False):"
        yield f'    """Keywords of `{client.capitalize()}`."""\n'
    for name, aliases, _, _ in table:
        words, meaning = types[name]
        result = TYPES[words[0]] if len(words) == 1 and words[0] in TYPES else _literal(name, words)
        result = WIDER.get(name, "{}").format(result) + " | None"
        yield from _key(name, result, meaning)
        for alias in aliases:
            if alias.replace(".", "_") != name.replace(".", "_"):
                yield from _key(alias, result, f"`{name}`.")
    yield ""


def _literal(name: str, words: list[str]) -> str:
    numbers = ", 0, 1, -1" if name == "acks" else ""
    return f"Literal[{', '.join(repr(word).replace(chr(39), chr(34)) for word in words)}{numbers}]"


def _key(name: str, found: str, meaning: str) -> Iterator[str]:
    line = f"    {name.replace('.', '_')}: {found}"
    if len(line) > WIDTH and "Literal[" in found:
        head, _, rest = found.partition("Literal[")
        inside, _, tail = rest.rpartition("]")
        line = f"    {name.replace('.', '_')}: {head}Literal[\n        {inside}\n    ]{tail}"
    yield line
    text = meaning.replace("\\", "\\\\")
    if len(text) + 10 <= WIDTH:
        yield f'    """{text}"""'
    else:
        wrapped = textwrap.wrap(text, WIDTH - 4, initial_indent='"""', break_long_words=False, break_on_hyphens=False)
        yield from (f"    {item}" for item in wrapped)
        yield '    """'


_HEAD = '''"""What clients take as keywords, for type checkers and editors: `**options: Unpack[ConsumerOptions]`.

By `make generate` from the table of options. In a mapping the names have dots: `{"group.id": "g"}`. None is the
default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from os import PathLike
    from ssl import SSLContext

    from samsarrow.group import Assignor
    from samsarrow.metrics.events import OnEvent
    from samsarrow.partitioner import Partitioner
    from samsarrow.tokens import TokenProvider
'''

FILES = {PACKAGE / "exceptions.py": exceptions, PACKAGE / "options.py": options}


def formatted(source: str) -> str:
    """Formats source as `make format` does."""
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "-"]
    done = subprocess.run(command, input=source, text=True, capture_output=True, check=True, cwd=PACKAGE.parents[1])
    return done.stdout


if __name__ == "__main__":
    for path, content in FILES.items():
        path.write_text(formatted(content()))
