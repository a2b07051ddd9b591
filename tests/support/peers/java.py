"""Apache Kafka's own console tools.

The tools exchange text, so records must be printable and must not contain tabs, commas or colons.
"""

from support.kafka import KafkaServer

from . import Headers, Received, Sent

NULL = "~null~"


def _text(data: bytes | None) -> str:
    return NULL if data is None else data.decode()


def produce(server: KafkaServer, topic: str, codec: str, records: list[Sent], bootstrap: str | None = None) -> None:
    """Produces with the console tools of `server`, to `server` or to the cluster `bootstrap`."""
    lines = []
    for r in records:
        headers = ",".join(f"{k}:{_text(v)}" for k, v in r.headers) or NULL
        lines.append(f"{headers}\t{_text(r.key)}\t{_text(r.value)}\n")
    server.tool(
        "org.apache.kafka.tools.ConsoleProducer",
        "--bootstrap-server", bootstrap or server.bootstrap_servers, "--topic", topic, "--compression-codec", codec,
        "--reader-property", "parse.key=true", "--reader-property", "parse.headers=true",
        "--reader-property", f"null.marker={NULL}",
        stdin="".join(lines).encode(),
    )  # fmt: skip


def consume(server: KafkaServer, topic: str, count: int, bootstrap: str | None = None) -> list[Received]:
    """Consumes with the console tools of `server`, from `server` or from the cluster `bootstrap`."""
    properties = ["timestamp", "offset", "headers", "key"]
    options = [x for p in properties for x in ("--formatter-property", f"print.{p}=true")]
    done = server.tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "--bootstrap-server", bootstrap or server.bootstrap_servers,
        "--topic", topic, "--partition", "0", "--offset", "earliest",
        "--max-messages", str(count), "--timeout-ms", "30000", *options, "--formatter-property", f"null.literal={NULL}",
    )  # fmt: skip
    return [_parse(line) for line in done.stdout.decode().splitlines()]


def _parse(line: str) -> Received:
    time, offset, headers, key, value = line.split("\t")
    return Received(
        int(offset.removeprefix("Offset:")), int(time.split(":")[1]), _data(key), _data(value), _headers(headers)
    )


def _data(text: str) -> bytes | None:
    return None if text == NULL else text.encode()


def _headers(text: str) -> Headers:
    if text == "NO_HEADERS":
        return ()
    return tuple((k, _data(v)) for k, v in (h.split(":", 1) for h in text.split(",")))
