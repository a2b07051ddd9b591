"""Generates docs/migrating/options.md: the equivalent of each option of other installed clients."""

from __future__ import annotations

import ctypes
import importlib.metadata
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from samsarrow import Consumer, _core
from samsarrow.cli.config.defaults_diff import JAVA, LIBRDKAFKA
from samsarrow.exceptions import ConfigurationError

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "migrating" / "options.md"
ROWS = {known: row for row in _core.option_table() for known in (row[0], *row[1])}
# Effects of defaults that differ, by option. Options in QUIET need no explanation: synonyms, invented names, and retry
# delays.
MEANINGS = {
    "allow.auto.create.topics": "subscribing to a topic that is missing does not create it",
    "acks": "a record is delivered once all in-sync replicas have it",
    "batch.size": "batches are larger where many records wait for one partition",
    "enable.idempotence": "retries neither duplicate nor reorder records",
    "linger.ms": "behind a request, a record waits up to 5 ms for others of its batch",
    "max.partition.fetch.bytes": "one partition may fill more of a response",
    "max.poll.records": "a poll returns columns, not objects",
    "partition.assignment.strategy": "members of one group need a strategy in common",
    "partitioner": "records without a key fill a batch of one partition before the next; keys go where they went",
    "receive.message.max.bytes": "larger responses are accepted",
    "request.timeout.ms": "requests time out sooner",
    "sasl.mechanism": "name it where you log in",
    "session.timeout.ms": "a member that died is noticed later, one that was only slow keeps its partitions",
}
QUIET = {"bootstrap.servers", "client.id", "reconnect.backoff.max.ms", "receive.buffer.bytes", "send.buffer.bytes"}
# Returned by librdkafka for an unknown name (RD_KAFKA_CONF_UNKNOWN).
UNKNOWN = -2
# Function arguments that are not options, with the client that has them.
OF = {"oauth.cb": "confluent-kafka", "ssl.cadata": "aiokafka"}
WORDS = {"-1": "all", "inf": "2147483647", "None": ""}


def peers() -> dict[str, dict[str, dict[str, Any]]]:
    """Returns the defaults of other clients by client, kind (consumer or producer) and name."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    from kafka import KafkaConsumer, KafkaProducer

    def arguments(made: type) -> dict[str, Any]:
        result = inspect.signature(made).parameters.values()
        return {item.name: item.default for item in result if item.default is not item.empty}

    return {
        "kafka-python": {"consumer": KafkaConsumer.DEFAULT_CONFIG, "producer": KafkaProducer.DEFAULT_CONFIG},
        "aiokafka": {
            "consumer": arguments(AIOKafkaConsumer),
            # Replaces a sentinel object, which stands for a default that depends on idempotence.
            "producer": arguments(AIOKafkaProducer) | {"acks": 1},
        },
    }


def librdkafka() -> set[str]:
    """Returns the options of librdkafka for producers, consumers and topics."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.librdkafka import library

    lib, result = library(), set()
    for kind in ("topic_conf", "conf"):
        new, dump = getattr(lib, f"rd_kafka_{kind}_new"), getattr(lib, f"rd_kafka_{kind}_dump")
        new.restype, dump.restype = ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p)
        count = ctypes.c_size_t()
        texts = dump(ctypes.c_void_p(new()), ctypes.byref(count))
        result |= {texts[at].decode() for at in range(0, count.value, 2)}
    # The dump omits options that are not set; setting an option shows if librdkafka knows it.
    conf, text = ctypes.c_void_p(new()), ctypes.create_string_buffer(512)
    known = [name for name in ROWS if lib.rd_kafka_conf_set(conf, name.encode(), b"x", text, 512) != UNKNOWN]
    return result | set(known)


def _instead(name: str) -> str | None:
    """Returns a substitute for an option; None if none exists."""
    try:
        Consumer({"bootstrap.servers": "localhost:1", name: "1"}).close()
    except ConfigurationError as error:
        return str(error).partition(" is not supported by this client: ")[2] or None
    return None


def versions() -> dict[str, str]:
    """Returns the versions of the compared clients."""
    return {name: importlib.metadata.version(name) for name in ("confluent-kafka", "kafka-python", "aiokafka")}


def page() -> str:
    """Returns the text of the page."""
    python = peers()
    names = {client: {name for kind in kinds.values() for name in kind} for client, kinds in python.items()}
    dotted = {client: {name.replace("_", ".") for name in of} for client, of in names.items()}
    everyone = {"confluent-kafka": librdkafka(), **dotted}
    against = ", ".join(f"{name} {version}" for name, version in versions().items())
    lines = [
        "# Options of other clients",
        "",
        "Options of other clients keep their names if samsarrow has the same option, with dots in a mapping and with "
        "underscores as keywords. An unknown option is an error that suggests the nearest name; no option is silently "
        "ignored. `samsarrow config check FILE` checks a file of settings in the same way.",
        "",
        f"`make generate` generates this page from the table of options, and compares it with {against}.",
        "",
        "## Other names",
        "",
        "Both names are accepted, but not together.",
        "",
        "| name there | of | name here |",
        "|---|---|---|",
        *_aliases(everyone),
        "",
        "## Other defaults",
        "",
        "This concerns only options that you do not set.",
        "",
        *_defaults(python),
        "## Unsupported options and replacements",
        "",
        "| option | of | instead |",
        "|---|---|---|",
        *_refused(everyone),
        "",
        "## Unknown options",
        "",
        "Remove these options: they concern internals of the other client, and are an error in samsarrow.",
        "",
        *_unknown(everyone),
    ]
    return "\n".join(lines) + "\n"


def _aliases(everyone: dict[str, set[str]]) -> Iterator[str]:
    for name, aliases, _, _ in _core.option_table():
        for alias in aliases:
            of = ", ".join(client for client, names in everyone.items() if alias in names)
            yield f"| `{alias}` | {of or OF.get(alias, '')} | `{name}` |"


def _defaults(python: dict[str, dict[str, dict[str, Any]]]) -> Iterator[str]:
    head = ["| option | default there | default here | effect |", "|---|---|---|---|"]
    known = {"confluent-kafka": LIBRDKAFKA, "Java": JAVA}
    for client, differences in known.items():
        yield from (f"### {client}", "", *head)
        for difference in sorted(differences):
            if difference.name not in QUIET:
                yield f"| `{difference.name}` | `{difference.theirs}` | `{difference.ours}` | {difference.meaning} |"
        yield ""
    ours = _our_defaults()
    for client, kinds in python.items():
        yield from (f"### {client}", "", *head)
        results = {
            ROWS[dotted][0]: text
            for kind in kinds.values()
            for name, default in kind.items()
            if (dotted := name.replace("_", ".")) in ROWS and (text := _text(default))
        }
        for name, theirs in sorted(results.items()):
            if name not in QUIET and theirs != ours[name]:
                yield f"| `{name}` | `{theirs}` | `{ours[name]}` | {MEANINGS[name]} |"
        yield ""


def _text(default: Any) -> str:
    """Formats a default as the table of options does."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple | list):
        classes = [re.sub("PartitionAssignor$", "", item.__name__) for item in default if inspect.isclass(item)]
        return ",".join(re.sub("(?<=[a-z])(?=[A-Z])", "-", item).lower() for item in classes).replace("round-", "round")
    if not isinstance(default, str | int | float | None):
        return re.sub("Partitioner$", "", type(default).__name__).lower()
    return WORDS.get(str(default), str(default))


def _our_defaults() -> dict[str, str]:
    rows = (re.split(r"(?<!\\) \| ", line.strip("| ")) for line in _core.options_markdown().splitlines())
    return {row[0].strip("`"): row[3].strip("`").replace("\N{EN DASH}", "") for row in rows if row[0].startswith("`")}


def _refused(everyone: dict[str, set[str]]) -> Iterator[str]:
    for name in sorted(set().union(*everyone.values())):
        if name not in ROWS and (instead := _instead(name)):
            of = ", ".join(client for client, names in everyone.items() if name in names)
            yield f"| `{name}` | {of} | {instead} |"


def _unknown(everyone: dict[str, set[str]]) -> Iterator[str]:
    for client, names in everyone.items():
        # The table also has the options of share consumers, which no other client of ours has.
        ours = {*ROWS, *_our_defaults(), "ssl.context"}
        left = sorted(name for name in names - ours if _instead(name) is None)
        if left:
            yield f"- {client}: {', '.join(f'`{name}`' for name in left)}"
