"""Parts of `samsarrow.doctor` that need no broker: releases, certificates, texts, partitions, output."""

import errno
import io
import json
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from samsarrow.admin_types import PartitionDescription, TopicDescription
from samsarrow.cli import doctor as command
from samsarrow.doctor import Finding, Status
from samsarrow.doctor._certificate import decode
from samsarrow.doctor._finding import Check
from samsarrow.doctor._group import check_group
from samsarrow.doctor._network import Server, connect, parse, resolve
from samsarrow.doctor._parallel import map_until
from samsarrow.doctor._releases import release_of
from samsarrow.doctor._run import Run
from samsarrow.doctor._texts import split, text_of
from samsarrow.doctor._topic import _partitions
from samsarrow.exceptions import GroupIdNotFoundError, KafkaTimeoutError
from samsarrow.group_types import ShareGroupDescription
from samsarrow.types import GroupListing, Node
from support.certificates import Authority, self_signed

ROOT = Path(__file__).resolve().parents[2]
RUN = Run({"bootstrap.servers": "kafka:9092"}, "t", None, False, 1.0)


def captured() -> Iterator[tuple[str, dict[int, tuple[int, int]]]]:
    """Yields ApiVersions v0 responses of real brokers, each with the broker's Kafka version."""
    folder = Path(os.environ.get("SAMSARROW_CONFORMANCE", ROOT.parent / "shared/conformance")) / "api_versions"
    for path in sorted(folder.glob("*-v0.bin")):
        body = path.read_bytes()
        for start in (0, 4, 8):
            error, count = struct.unpack_from(">hi", body, start)
            if error == 0 and start + 6 + 6 * count == len(body):
                rows = struct.iter_unpack(">hhh", body[start + 6 :])
                yield path.name.removesuffix("-v0.bin"), {api: (low, high) for api, low, high in rows}
                break


def test_releases_of_real_brokers() -> None:
    found = dict(captured())
    if not found:
        pytest.skip("there is no shared/conformance/api_versions")
    assert len(found) > 10
    for version, versions in found.items():
        release = release_of(versions)
        minor = ".".join(version.split("-")[0].split(".")[: 3 if version.startswith("0.10") else 2])
        minor = minor.removesuffix(".0") if minor.startswith("0.11") else minor
        assert minor in release, (version, release)


def test_release_of_unknown_versions() -> None:
    assert release_of({}) == "0.10.0"
    assert release_of({18: (0, 99), 35: (0, 99)}) == "4.4 or later"


def test_certificates_are_described() -> None:
    authority = Authority("an authority")
    for own, issuer in ((authority.issue("ünicode"), "an authority"), (self_signed("alone"), "alone")):
        found = decode(own.certificate.public_bytes(Encoding.DER))
        assert found is not None
        assert found.issuer == issuer
        assert found.subject in ("ünicode", "alone")
        assert found.start == own.certificate.not_valid_before_utc
        assert found.end == own.certificate.not_valid_after_utc


def test_damaged_certificates_are_no_error() -> None:
    whole = Authority().issue().certificate.public_bytes(Encoding.DER)
    for size in range(0, len(whole), 3):
        decode(whole[:size])
    for at in range(len(whole)):
        decode(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])


@pytest.mark.parametrize(
    ("text", "cause", "remedy"),
    [
        ("kafka:9092: the login failed", "the login failed", "fallback"),
        ("kafka:9092: no certificate: set ssl.keystore.location", "no certificate", "set ssl.keystore.location"),
        ("a (b: c): use d: e", "a (b: c)", "use d: e"),
    ],
)
def test_texts_are_split_into_cause_and_remedy(text: str, cause: str, remedy: str) -> None:
    assert split(text, "fallback", "kafka:9092") == (cause, remedy)


def test_last_error_of_a_timeout() -> None:
    assert text_of(KafkaTimeoutError("it took longer than 3 s (last error: x (y): z)")) == "x (y): z"
    assert text_of(KafkaTimeoutError("it took longer than 3 s")) == "it took longer than 3 s"


def test_servers_are_parsed() -> None:
    assert parse("a:1, [::1]:2,a:1") == [Server("a", 1), Server("::1", 2)]
    assert parse(["a:1"]) == [Server("a", 1)]
    assert str(Server("::1", 2)) == "[::1]:2"


def test_commands_in_remedies_have_no_secrets() -> None:
    run = Run({"bootstrap.servers": "a:1", "sasl.password": "hunter2"}, None, None, False, 1.0)
    assert run.command("topics", "create", "a b") == "`samsarrow topics create 'a b' -b a:1`"
    assert "hunter2" not in repr(run)


def test_slow_names_do_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda *_arguments, **_named: time.sleep(1) or [])
    began = time.monotonic()
    found, addresses = resolve([Server("slow.example.com", 1)], 0.2)
    assert time.monotonic() - began < 2
    assert not addresses
    assert found[0].status is Status.FAILED
    assert "did not respond within 0.2 s" in found[0].detail


@pytest.mark.parametrize(("number", "status"), [(errno.ENETUNREACH, Status.WARNING), (errno.ECONNREFUSED, Status.OK)])
def test_one_of_two_addresses(monkeypatch: pytest.MonkeyPatch, number: int, status: Status) -> None:
    """An address that rejects connections costs no time: `localhost` is often one of them."""

    def create(address: tuple[str, int], _timeout: float) -> io.BytesIO:
        if address[0] == "::1":
            raise OSError(number, os.strerror(number))
        return io.BytesIO()

    monkeypatch.setattr("socket.create_connection", create)
    reach = connect({Server("kafka", 1): ["::1", "127.0.0.1"]}, 5)[Server("kafka", 1)]
    assert reach.address == "127.0.0.1"
    assert reach.finding.status is status
    assert "connected to 127.0.0.1, but not to ::1" in reach.finding.detail


def test_calls_in_parallel_end_in_time() -> None:
    began = time.monotonic()
    assert map_until(lambda seconds: time.sleep(seconds) or seconds, [0.0, 5.0, 0.01], 0.3) == [0.0, None, 0.01]
    assert time.monotonic() - began < 3
    assert map_until(str, list(range(100)), 5) == list(map(str, range(100)))


def described(*partitions: tuple[int | None, tuple[int, ...]]) -> TopicDescription:
    """Returns a topic with three replicas per partition, from leaders and replicas in sync."""
    rows = (
        PartitionDescription(number, leader, 0, (1, 2, 3), isr, (), None, None)
        for number, (leader, isr) in enumerate(partitions)
    )
    return TopicDescription("t", None, False, tuple(rows))


@pytest.mark.parametrize(
    ("partition", "status", "detail", "remedy"),
    [
        ((1, (1, 2, 3)), Status.OK, "2 partitions, all with a leader, replicas 3, all in sync", ""),
        ((None, ()), Status.FAILED, "partition 1 of 2 have no leader", "start the brokers"),
        ((3, (1, 2, 3)), Status.FAILED, "the leaders of partition 1 of 2", "advertised addresses"),
        ((1, (1,)), Status.FAILED, "min.insync.replicas=2", "missing replicas"),
        ((1, (1, 2)), Status.WARNING, "partition 1 of 2 are under-replicated", "samsarrow topics describe t"),
    ],
)
def test_partitions(partition: tuple[int | None, tuple[int, ...]], status: Status, detail: str, remedy: str) -> None:
    topic = described((1, (1, 2, 3)), partition)
    (found,) = _partitions(RUN, Check("topic", "topic t"), topic, {1, 2}, 2)
    assert found.status is status
    assert detail in found.detail
    assert remedy in found.remedy


class ShareAdmin:
    """The part of `Admin` that is used for share groups."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def list_groups(self, **_: object) -> dict[str, GroupListing]:
        return {"g": GroupListing("g", "share", "Stable", "share")}

    def find_coordinator(self, _group: str, **_: object) -> Node:
        return Node(1, "kafka", 9092)

    def describe_groups(self, _groups: list[str], **_: object) -> dict[str, object]:
        raise GroupIdNotFoundError("g is not a consumer group")

    def describe_share_groups(self, groups: list[str], **_: object) -> dict[str, ShareGroupDescription]:
        if self.error is not None:
            raise self.error
        return {group: ShareGroupDescription(group, "Stable", 1, 1, "simple", ()) for group in groups}


def test_share_groups() -> None:
    found = list(check_group(RUN, ShareAdmin(), "g", {1}))  # type: ignore[arg-type]
    assert [finding.status for finding in found] == [Status.OK, Status.OK]
    assert "a share group, Stable, 0 members" in found[1].detail
    found = list(check_group(RUN, ShareAdmin(KafkaTimeoutError("late")), "g", {1}))  # type: ignore[arg-type]
    assert (found[1].status, found[1].detail) == (Status.FAILED, "late")
    found = list(check_group(RUN, ShareAdmin(), "g", {2}))  # type: ignore[arg-type]
    assert "the coordinator is broker 1, which cannot be used from here" in found[0].detail


class Terminal(io.StringIO):
    """Standard output that claims to be a terminal."""

    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


def test_output_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Finding("tls", "kafka:9092", Status.FAILED, "expired", "renew it", 0.123)
    monkeypatch.setattr("sys.stdout", out := Terminal())
    command._print(failed)
    assert "\x1b[31m" in out.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout", out := Terminal())
    command._print(failed)
    lines = ["✗ tls         kafka:9092: expired (0.12 s)", "              fix: renew it"]
    assert out.getvalue().splitlines() == lines
    monkeypatch.setattr(Terminal, "encoding", "ascii")
    monkeypatch.setattr("sys.stdout", out := Terminal())
    command._print(failed)
    assert out.getvalue().splitlines()[0] == "FAIL tls         kafka:9092: expired (0.12 s)"


def test_findings_as_json() -> None:
    found = Finding("tls", "", Status.OK, "fine", seconds=0.00012)
    assert json.loads(json.dumps(found.as_dict())) == {
        "check": "tls", "subject": "", "status": "ok", "detail": "fine", "remedy": "", "seconds": 0.0001,
    }  # fmt: skip
