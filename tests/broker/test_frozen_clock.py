"""Processes in which Python's clocks are stopped, for example by freezegun."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import samsarrow


def test_blocking_calls_return(servers, tmp_path):
    program = """
    import asyncio, sys
    from freezegun import freeze_time
    import samsarrow as s
    from samsarrow.offsets import FileOffsetStore
    from samsarrow.offsets.move import keep_equal
    options = dict(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest")
    async def poll():
        async with s.AsyncConsumer(**options) as consumer:
            consumer.assign([s.TopicPartition("t", 0)])
            print("async", (await consumer.poll(0.3)).num_rows, flush=True)
    with freeze_time("2024-01-01"):
        consumer = s.Consumer(**options)
        consumer.assign([s.TopicPartition("t", 0)])
        print("poll", consumer.poll(0.3).num_rows, flush=True)
        print("records", len(list(consumer.records(timeout=0.3))), flush=True)
        member = s.Consumer(group_id="g", **options)
        member.subscribe(["t"])
        print("group", member.poll(0.3).num_rows, flush=True)
        print("reader", member.reader().read_all().num_rows, flush=True)
        member.close(5)
        print("close", flush=True)
        asyncio.run(poll())
        stores = [FileOffsetStore(f"{sys.argv[2]}/{name}") for name in ("old", "new")]
        keep_equal(*stores, duration=0.3, interval=0.1)
        print("stores", flush=True)
        member = s.Consumer(group_id="g", **options)
        member.subscribe(["t"])
        member.poll(0.3)
        s.Producer(bootstrap_servers=sys.argv[1], linger_ms=100).send("t", b"v")
        sys.exit(3)
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), servers, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    expected = "poll 0\nrecords 0\ngroup 0\nreader 0\nclose\nasync 0\nstores\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, expected, "")


def test_modules_do_not_use_frozen_clocks():
    package = Path(samsarrow.__file__).parent
    counting = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"\bmonotonic\(\)|import monotonic", path.read_text("utf-8"))
    }
    # The command line runs in a separate process.
    assert {path for path in counting if not path.startswith("cli/")} == set(), "use _core.Deadline"
