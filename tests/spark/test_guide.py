"""Programs of README.md, docs/spark.md and docs/migrating/spark-sql-kafka.md that need a Spark session."""

from pathlib import Path
from typing import Any

import pytest

from samsarrow import Producer
from samsarrow.testing import Broker, Registry
from support.fences import Fence, fences, needs_spark, pages

FENCES = [fence for page in pages() for fence in fences(page) if needs_spark(fence) and fence.reason is None]
PAIR = "docs/migrating/spark-sql-kafka.md"


def ran(fence: Fence, session: Any, broker: Broker, registry: Registry) -> None:
    code = fence.text.replace("localhost:9092", broker.bootstrap_servers)
    exec(code.replace("http://localhost:8081", registry.url), {"spark": session})


@pytest.mark.parametrize("fence", FENCES, ids=lambda fence: f"{Path(fence.page).stem}-{fence.line}")
def test_programs_for_spark_run_as_written(
    fence: Fence, spark: Any, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    if "jar()" in fence.text:
        request.getfixturevalue("built")
    order = {"type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": {"type": "record", "name": "User", "fields": [{"name": "city", "type": "string"}]}},
    ]}  # fmt: skip
    with Broker(topics={"flights": 2, "orders": 1}) as broker, Registry() as registry:
        if ".write" not in fence.text:
            registry.register("orders-value", order)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for carrier in ("UA", "AA", "UA"):
                producer.send("flights", carrier)
        ran(fence, spark, broker, registry)
    if fence.page == PAIR:
        assert capsys.readouterr().out == "[Row(carrier='AA', count=1), Row(carrier='UA', count=2)]\n"
