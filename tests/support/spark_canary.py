"""A program that uses secrets with Spark in all ways, and prints as JSON where Spark showed them.

    python spark_canary.py FOLDER < settings.json

The settings are `read` and `write`, the options of a source and a sink; `secrets`, a mapping by name; `files`, which
Spark distributes to its tasks; and `plain`, true to keep Spark's defaults (`hide_secrets` is not called).
"""

import contextlib
import io
import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MODES = ("simple", "extended", "codegen", "cost", "formatted")


class Search:
    """Searches texts for secrets and records the places where they were found."""

    def __init__(self, secrets: dict[str, str]) -> None:
        self._secrets = secrets
        self.found: dict[str, set[str]] = {}
        self.looked: dict[str, int] = {}

    def look(self, where: str, text: str) -> None:
        self.looked[where] = self.looked.get(where, 0) + len(text)
        self.found.setdefault(where, set()).update(name for name, s in self._secrets.items() if s in text)


def session(folder: Path) -> Any:
    from support.spark import QUICK, local_session

    (folder / "events").mkdir(parents=True)
    shown = {"spark_ui_enabled": "true", "spark_ui_port": "0", "spark_eventLog_enabled": "true"}
    shown |= {"spark_eventLog_dir": f"file://{folder}/events", "spark_eventLog_compress": "false"}
    return local_session(folder, connector=False, **(QUICK | shown))


@contextlib.contextmanager
def printed() -> Iterator[io.StringIO]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        yield out


def use(spark: Any, search: Search, read: dict[str, str], write: dict[str, str], folder: Path) -> None:
    frame = spark.read.format("samsarrow-python").options(**read).load()
    for mode in MODES:
        with printed() as out:
            frame.explain(mode=mode)
        search.look(f"explain {mode}", out.getvalue())
    rows = frame.select("key", "value")
    assert rows.count() == 10
    rows.write.format("samsarrow-python").options(**write).mode("append").save()
    options = ", ".join(f"`{name}` '{value}'" for name, value in read.items())
    view = f"CREATE OR REPLACE TEMP VIEW topic USING `samsarrow-python` OPTIONS ({options})"
    spark.sql(view)
    spark.sql("SELECT count(*) FROM topic").collect()
    for mode in MODES:
        keyword = "" if mode == "simple" else mode
        for statement in ("SELECT * FROM topic", view):
            search.look(f"sql explain {mode}", spark.sql(f"EXPLAIN {keyword} {statement}").collect()[0][0])
    stream = spark.readStream.format("samsarrow-python").options(**read, startingOffsets="earliest").load()
    sink = stream.select("key", "value").writeStream.format("samsarrow-python").options(**write)
    query = sink.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    with printed() as out:
        query.explain(True)
    search.look("query explain", out.getvalue())
    search.look("progress", json.dumps([progress.json for progress in query.recentProgress]))
    for wrong in ({"kafka.acks.of.mine": "x"}, {"startingOffsets": "lunch"}, {"kafka.fetch.min.bytes": "x"}):
        try:
            spark.read.format("samsarrow-python").options(**read | wrong).load().count()
        except Exception as error:
            search.look("error", str(error))
        else:
            raise AssertionError(f"{wrong} is no error")


def served(spark: Any, search: Search) -> None:
    """Waits until all events are processed, then searches the pages of Spark's UI and its REST interface."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    base, app = spark.sparkContext.uiWebUrl, spark.sparkContext.applicationId
    rest = (
        "jobs",
        "stages?details=true",
        "executors",
        "environment",
        "sql?details=true&planDescription=true&length=100",
    )
    for path in rest:
        search.look("rest", get(f"{base}/api/v1/applications/{app}/{path}"))
    executions = len(json.loads(get(f"{base}/api/v1/applications/{app}/sql?length=100")))
    assert executions > 5
    pages = ("SQL/", "jobs/", "environment/", "StreamingQuery/", *(f"SQL/execution/?id={n}" for n in range(executions)))
    for path in pages:
        search.look("ui", get(f"{base}/{path}"))


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def main(folder: str) -> None:
    settings = json.load(sys.stdin)
    search = Search(settings["secrets"])
    spark = session(Path(folder))
    from samsarrow.spark import hide_secrets

    if not settings["plain"]:
        hide_secrets(spark)
        hide_secrets(spark)
    for file in settings["files"]:
        spark.sparkContext.addFile(file)
    use(spark, search, settings["read"], settings["write"], Path(folder))
    served(spark, search)
    spark.stop()
    for path in Path(folder).rglob("*"):
        if path.is_file():
            where = path.relative_to(folder).parts[0]
            search.look(where, path.read_bytes().decode(errors="replace"))
    results = {"found": {k: sorted(v) for k, v in search.found.items() if v}, "looked": search.looked}
    sys.stdout.write(json.dumps(results) + "\n")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    main(*sys.argv[1:])
