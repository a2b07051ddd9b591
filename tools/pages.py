"""Generates pages from code: errors, options of other clients, and the ADRs in the menu of the site.

`make generate` runs this; tests/house checks that the pages are current. Options of other clients are those of the
installed versions, which the page names.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from samsarrow import _core, exceptions
from samsarrow.exceptions import AuthorizationError, FencedError, KafkaError

ROOT = Path(__file__).resolve().parents[1]
ERRORS = ROOT / "docs" / "errors.md"
TABLES = "<!-- Below: by `make generate`, from the exceptions and the table in rust/wire. -->\n"
MENU = "          # Below: the decisions, by `make generate`.\n"

# Remedies by class of error, as sentences without a full stop; those of other errors follow from their flags.
OWN = {
    "RetriableError": "retry later",
    "AuthorizationError": "grant the permission: [ACLs](security.md)",
    "FencedError": "close the client: another instance has taken its place",
    "KafkaTimeoutError": "retry, or raise the timeout; the text has the last error",
    "KafkaConnectionError": "check address, port and network; clients keep reconnecting",
    "BootstrapResolutionError": "check the names and the DNS, then create another client",
    "KafkaProtocolError": "check that the port belongs to a Kafka broker",
    "TlsError": "set the option that the text names; [troubleshooting](security.md#troubleshooting)",
    "AuthenticationError": "fix the credentials; [troubleshooting](security.md#troubleshooting)",
    "ClosedError": "create a new client",
    "WakeupError": "not a failure: continue, or close the client",
    "ForkError": "create clients in the process that uses them",
    "ConfigurationError": "change the option or argument that the text names",
    "IllegalStateError": "make the calls in the order that the text names",
    "RejectedWithOthersError": "send the record again",
    "TransactionAbortedError": "send the records again in the next transaction",
    "CorruptRecordError": "check the broker's disk and the network; seek past the batch to continue",
    "BadValueError": "seek past `offset`, or set `on_decode_error`: [values](values.md#consumers)",
    "RegistryError": "retry if `retriable` is true; otherwise correct the URL or the credentials",
    "SchemaNotFoundError": "register the schema, or name another subject or version",
    "SchemaIncompatibleError": "change the schema as `reasons` say, or the compatibility level of the subject",
}
PROTOCOL = {
    "UnknownServerError": "read the broker's log",
    "OffsetOutOfRangeError": "seek, or set `auto.offset.reset`",
    "UnknownTopicOrPartitionError": "create the topic, or correct its name",
    "MessageTooLargeError": "raise `max.message.bytes` of the topic and `max.request.size`, or send smaller records",
    "InvalidTopicError": "use letters, digits, `.`, `_` and `-`, at most 249 characters",
    "RecordListTooLargeError": "lower `max.request.size`, or raise `segment.bytes` of the topic",
    "NotEnoughReplicasError": "restore replicas, or lower `min.insync.replicas`; producers keep retrying",
    "OffsetMetadataTooLargeError": "commit shorter metadata (`offset.metadata.max.bytes` of brokers)",
    "IllegalGenerationError": "call `poll`, which joins again; abort an open transaction first",
    "UnknownMemberIdError": "call `poll`, which joins again; only members can commit for a group that has members",
    "RebalanceInProgressError": "call `poll`, which joins again",
    "InconsistentGroupProtocolError": "configure a common assignor for all members: `partition.assignment.strategy`",
    "InvalidSessionTimeoutError": "set `session.timeout.ms` within the broker's limits",
    "UnsupportedVersionError": "upgrade to the Kafka version that the text names",
    "TopicAlreadyExistsError": "none needed: the topic exists",
    "InvalidReplicationFactorError": "request at most as many replicas as there are brokers",
    "InvalidConfigError": "correct the setting that the text names",
    "PolicyViolationError": "follow the policy that the text quotes, or contact the cluster's operators",
    "InvalidTxnStateError": "close the producer and create a new one",
    "OutOfOrderSequenceNumberError": "abort the transaction; without one, records may be lost: send them again",
    "InvalidTransactionTimeoutError": "lower `transaction.timeout.ms`, or raise the broker's maximum",
    "SecurityDisabledError": "set an authorizer on the brokers",
    "DelegationTokenAuthDisabledError": "set `delegation.token.secret.key` on the brokers",
    "DelegationTokenRequestNotAllowedError": "log in over TLS or SASL without a token",
    "DelegationTokenExpiredError": "request a new token",
    "NonEmptyGroupError": "stop the group's members first",
    "GroupMaxSizeReachedError": "start fewer members, or raise the broker's `group.max.size`",
    "GroupSubscribedToTopicError": "stop the group's members first",
    "InvalidRecordError": "as the text says, set a key (compacted topics) or a timestamp that the topic accepts",
    "InvalidTimestampError": "send a timestamp that the topic accepts",
    "UnsupportedCompressionTypeError": "choose another `compression.type`",
    "UnreleasedInstanceIdError": "another consumer uses this `group.instance.id`: use another one",
    "UnsupportedAssignorError": "choose `uniform` or `range` as `group.remote.assignor`",
    "InvalidRegularExpressionError": "write the pattern in RE2's syntax",
    "TransactionAbortableError": "`abort_transaction`; the next transaction may succeed",
    "ThrottlingQuotaExceededError": "retry later, or raise the quota",
    "ReassignmentInProgressError": "wait for it to finish, or cancel it with `alter_reassignments`",
}
MORE = {
    "samsarrow.results": {"PartialFailureError": "check `failures`; the items in `succeeded` are done"},
    "samsarrow.offsets.store": {
        "OffsetStoreError": "see the classes below",
        "StoreLockedError": "stop the other process that writes the file",
        "BackwardsOffsetError": "pass `backwards=True` if it is intended",
        "FencedOwnerError": "roll back and stop: another worker has taken over",
    },
    "samsarrow.offsets.move": {"VerificationError": "stop the other writers of these offsets, and retry"},
    "samsarrow.offsets.formats": {"FormatError": "correct the line that the text names"},
    "samsarrow.spark.errors": {
        "DataLossError": "`failOnDataLoss=false` continues with the remaining records",
        "ReplayMismatchError": "[exactly once](spark.md#exactly-once) has a table",
    },
}


def errors() -> str:
    """Returns the page of errors: lines up to the marker are hand-written."""
    own, mark, _ = ERRORS.read_text().partition(TABLES)
    assert mark, f"docs/errors.md has no line {TABLES!r}"
    table = {name: (code, retriable, fatal) for code, name, retriable, fatal, _, _ in _core.error_table()}
    unknown = set(PROTOCOL) - set(table)
    assert not unknown, unknown
    client = [
        _entry(name, [], _flags(found), _first(found), OWN[name])
        for name, found in vars(exceptions).items()
        if inspect.isclass(found) and issubclass(found, KafkaError) and found is not KafkaError and name not in table
    ]
    more = [
        _entry(f"{_home(module)}.{name}", [], [], _first(_source(module, name)), remedy)
        for module, classes in MORE.items()
        for name, remedy in classes.items()
    ]
    protocol = []
    for code, name, _, _, meaning, kafka in _core.error_table():
        shown = getattr(exceptions, name)
        meaning = f"{meaning[0].upper()}{meaning[1:]}."
        protocol.append(_entry(name, [f"`{kafka}`", f"code {code}"], _flags(shown), meaning, _remedy(shown)))
    parts = [
        "[Errors of clients](#errors-of-clients) · "
        "[Errors of offset stores, administration and Spark](#errors-of-offset-stores-administration-and-spark) · "
        "[Errors of brokers](#errors-of-brokers)",
        "## Errors of clients",
        *client,
        "The base of all, `KafkaError`, is also raised as such, for codes that no class is known for.",
        "## Errors of offset stores, administration and Spark",
        *more,
        "## Errors of brokers",
        "Errors in responses of brokers; the classes are in `samsarrow.exceptions`.",
        *protocol,
    ]
    return own + mark + "\n" + "\n\n".join(parts) + "\n"


def _entry(name: str, facts: list[str], flags: list[str], meaning: str, remedy: str) -> str:
    """Returns the heading and the paragraphs of an error."""
    paragraphs = [f"### `{name}`"]
    if facts + flags:
        paragraphs.append(f"*{' · '.join(facts + flags)}*")
    paragraphs.append(f"{meaning} **What to do:** {remedy}." if remedy else meaning)
    return "\n\n".join(paragraphs)


def _flags(error: type[KafkaError]) -> list[str]:
    return [flag for flag in ("retriable", "abortable", "fatal") if getattr(error, flag)]


def _remedy(error: type[KafkaError]) -> str:
    """Returns the remedy for an error: that of its class or a base class, otherwise one that follows from its flags.

    It is empty if only the message of an error has a remedy.
    """
    if error.__name__ in PROTOCOL:
        return PROTOCOL[error.__name__]
    if issubclass(error, exceptions.AuthenticationError):
        return OWN["AuthenticationError"]
    if issubclass(error, AuthorizationError):
        return OWN["AuthorizationError"]
    if issubclass(error, FencedError):
        return OWN["FencedError"]
    if error.retriable:
        return "call again; the client has retried until the timeout"
    if error.fatal:
        return "close the client, and create a new one"
    return ""


def _first(error: type[BaseException] | str) -> str:
    """Returns the first paragraph of a docstring as a line."""
    text = error if isinstance(error, str) else inspect.cleandoc(error.__doc__ or "")
    return " ".join(text.partition("\n\n")[0].split())


def _source(module: str, name: str) -> str:
    """Returns the docstring of a class without importing it, since PySpark may not be installed."""
    source = (ROOT / "python" / Path(*module.split("."))).with_suffix(".py").read_text()
    match = re.search(rf'^class {name}\b[^\n]*:\n    """(.*?)"""', source, re.MULTILINE | re.DOTALL)
    assert match, f"{module} has no {name} with a docstring"
    return inspect.cleandoc(match[1])


def _home(module: str) -> str:
    """Returns the module from which users import a name."""
    return {"samsarrow.results": "samsarrow", "samsarrow.offsets.store": "samsarrow.offsets"}.get(module, module)


def menu() -> str:
    """Returns mkdocs.yml with all ADRs in the menu: lines up to the marker are hand-written."""
    own, mark, _ = (ROOT / "mkdocs.yml").read_text().partition(MENU)
    assert mark, f"mkdocs.yml has no line {MENU!r}"
    return own + mark + "".join(f"          - adr/{path.name}\n" for path in (INDEX, *decisions()))


def decisions() -> list[Path]:
    """Returns the ADRs in their order."""
    return sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))


def index() -> str:
    """Returns the index of ADRs: their titles and states by area."""
    areas: dict[str, list[str]] = {}
    for path in decisions():
        title, _, status, *_ = path.read_text().split("\n")
        found = re.fullmatch(r"\*\*Status\.\*\* (.+), (\d{4}-\d\d-\d\d)\. Area: (.+)\.", status)
        assert found, f"{path.name} has no status, date and area in its third line"
        number, _, name = title.removeprefix("# ").partition(". ")
        areas.setdefault(found[3], []).append(f"| [{number}]({path.name}) | {name} | {found[1]} | {found[2]} |")
    parts = [
        "# Decisions\n\nArchitecture decision records: the decision, its reasons and its consequences, one page each.\n"
    ]
    for area, rows in sorted(areas.items()):
        parts.append(f"\n## {area}\n\n| ADR | decision | status | date |\n|---|---|---|---|\n" + "\n".join(rows) + "\n")
    return "".join(parts)


def first_page() -> str:
    """Returns the first page of the site: the README, with links from its folder to pages, and names of other files."""
    text = re.sub(r"<!-- README only -->\n.*?<!-- end -->\n\n", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    # The site has only what is in docs/.
    text = re.sub(r"\[([^]]+)\]\((?!docs/|#|https?:)[^)]+\)", r"`\1`", text)
    return text.replace("](docs/", "](")


INDEX = ROOT / "docs" / "adr" / "README.md"
PAGES = {ROOT / "docs" / "index.md": first_page, ERRORS: errors, ROOT / "mkdocs.yml": menu, INDEX: index}


if __name__ == "__main__":
    import foreign_options
    import reference

    for path, content in (PAGES | reference.PAGES).items():
        path.write_text(content())
    foreign_options.PAGE.write_text(foreign_options.page())
