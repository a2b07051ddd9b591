"""The defaults of other clients that `samsarrow config check` uses equal those of librdkafka and Java."""

import ctypes
import re
import subprocess

import pytest

from samsarrow._core import option_table, options_markdown
from samsarrow.cli.config.defaults_diff import JAVA, LIBRDKAFKA, Difference
from support.kafka import QUICK_COMPILER, SUPPORT, KafkaServer, KafkaUnavailableError, classpath
from support.librdkafka import MockClusterUnavailableError, library

NAMES = {known: name for name, aliases, _, _ in option_table() for known in (name, *aliases)}
# Options whose defaults may differ without documentation: synonyms, choices of the system, retry delays, and options
# that hardly any application needs.
WORDS = {"security.protocol", "auto.offset.reset", "acks", "sasl.oauthbearer.method", "sasl.oauthbearer.grant.type"}
QUIET = WORDS | {
    "receive.buffer.bytes", "send.buffer.bytes", "reconnect.backoff.ms", "reconnect.backoff.max.ms",
    "socket.connection.setup.timeout.ms", "metadata.max.age.ms", "connections.max.idle.ms", "sasl.kerberos.principal",
    "sasl.kerberos.kinit.cmd", "sasl.kerberos.service.name", "broker.version.fallback", "enable.metrics.push",
    "receive.message.max.bytes", "max.request.size", "ssl.truststore.type", "ssl.keystore.type",
}  # fmt: skip


def ours() -> dict[str, str]:
    """Returns our defaults from the table of options; empty if an option has none."""
    rows = (re.split(r"(?<!\\) \| ", line.strip("| ")) for line in options_markdown().splitlines() if "| `" in line)
    return {row[0].strip("`"): row[3].strip("`").replace("–", "") for row in rows}


def check(documented: tuple[Difference, ...], theirs: dict[str, str]) -> None:
    """Checks the documented defaults, and that all differences are documented or in QUIET."""
    mine = ours()
    assert {item.name: (item.theirs, item.ours) for item in documented} == {
        item.name: (theirs[item.name], mine[item.name]) for item in documented
    }
    differ = {name for name, value in theirs.items() if name in mine and value and value != mine[name]}
    assert differ - {item.name for item in documented} - QUIET == set()


def test_defaults_of_librdkafka() -> None:
    try:
        lib = library()
    except MockClusterUnavailableError as reason:
        pytest.skip(str(reason))
    results: dict[str, str] = {}
    # If an option exists for clients and for topics, like the legacy consumer's auto.commit.interval.ms, the client's
    # default applies.
    for kind in ("topic_conf", "conf"):
        new, dump = getattr(lib, f"rd_kafka_{kind}_new"), getattr(lib, f"rd_kafka_{kind}_dump")
        new.restype, dump.restype = ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p)
        count = ctypes.c_size_t()
        texts = dump(ctypes.c_void_p(new()), ctypes.byref(count))
        words = [texts[at].decode() for at in range(count.value)]
        results |= dict(zip(words[::2], words[1::2], strict=True))
    # librdkafka's request.timeout.ms is the broker's replication timeout; ours corresponds to its socket.timeout.ms.
    # Its max.poll.records is for share groups.
    del results["request.timeout.ms"], results["max.poll.records"]
    check(LIBRDKAFKA, {NAMES[name]: value for name, value in results.items() if name in NAMES})


def test_defaults_of_java() -> None:
    try:
        classpath()
    except KafkaUnavailableError as reason:
        pytest.skip(str(reason))
    server = KafkaServer()
    try:
        command = server.java(str(SUPPORT / "java" / "Defaults.java"), jvm=QUICK_COMPILER)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    finally:
        server.discard()
    results = {name: value for _, name, value in (line.split("\t") for line in done.stdout.splitlines())}
    classes = re.findall(r"(\w+)Assignor\b", results["partition.assignment.strategy"])
    results["partition.assignment.strategy"] = ",".join(
        re.sub("(?<=[a-z])(?=[A-Z])", "-", item).lower() for item in classes
    )
    check(JAVA, {NAMES[name]: value for name, value in results.items() if name in NAMES})
