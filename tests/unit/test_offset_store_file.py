"""`FileOffsetStore`: writes are atomic, and a lock prevents a second writer."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from samsarrow import OffsetAndMetadata, TopicPartition
from samsarrow.offsets import FileOffsetStore, OffsetStore, OffsetStoreError, StoreLockedError

A, B = TopicPartition("a", 0), TopicPartition("b", 7)


def test_stored_offsets_are_loaded_by_other_instances(tmp_path):
    path = tmp_path / "offsets.json"
    store = FileOffsetStore(path)
    assert isinstance(store, OffsetStore)
    assert (store.load(), store.load([A])) == ({}, {A: None})
    assert not path.exists()
    store.store({B: OffsetAndMetadata(2**62, "größe\n", 4)})
    store.store({A: 5})
    reader = FileOffsetStore(path, read_only=True)
    assert reader.load() == {A: OffsetAndMetadata(5), B: OffsetAndMetadata(2**62, "größe\n", 4)}
    assert reader.load([B, TopicPartition("c", 0)]) == {B: reader.load()[B], TopicPartition("c", 0): None}
    assert json.loads(path.read_text())["offsets"]["a"]["0"] == {"offset": 5, "metadata": "", "leader_epoch": None}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["offsets.json", "offsets.json.lock"]
    with pytest.raises(OffsetStoreError, match="read-only"):
        reader.store({A: 6})
    with pytest.raises(OffsetStoreError, match="offset -1 of a-0"):
        store.store({A: -1})
    store.close()
    store.close()
    with pytest.raises(OffsetStoreError, match="closed"):
        store.store({A: 6})


def test_second_writer_is_rejected(tmp_path):
    path = tmp_path / "o"
    first = FileOffsetStore(path)
    with pytest.raises(StoreLockedError, match=rf"process {os.getpid()} is writing to it"):
        FileOffsetStore(path)
    first.close()
    second = FileOffsetStore(path)
    second.store({A: 1})
    second.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_cannot_store_and_releases_the_lock(tmp_path):
    path = tmp_path / "o"
    store = FileOffsetStore(path)
    store.store({A: 1})
    result, send_result = os.pipe()
    wait, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        text = "stored"
        try:
            store.store({A: 2})
        except OffsetStoreError as error:
            text = str(error)
        store.close()
        os.write(send_result, f"{text} {store.load()[A].offset}".encode())
        os.close(go)
        os.read(wait, 1)
        os._exit(0)
    try:
        text = os.read(result, 1000).decode()
        assert f"process {os.getpid()} made this store" in text
        assert text.endswith(" 1")
        store.store({A: 3})
        with pytest.raises(StoreLockedError):
            FileOffsetStore(path)
        store.close()
        # The lock is free although the child process still runs.
        FileOffsetStore(path).close()
    finally:
        os.close(go)
        os.waitpid(pid, 0)
        for end in (result, send_result, wait):
            os.close(end)


WRITER = """
import sys
from samsarrow import TopicPartition
from samsarrow.offsets import FileOffsetStore
store = FileOffsetStore(sys.argv[1])
n = 0
while True:
    n += 1
    store.store({TopicPartition("t", p): n for p in range(300)})
    print(n, flush=True)
"""


def test_killed_writer_leaves_a_complete_file_and_no_lock(tmp_path):
    path = tmp_path / "o"
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True) as writer:
            seen = 0
            for line in writer.stdout:
                seen = int(line)
                if seen == 5:
                    with pytest.raises(StoreLockedError, match=f"process {writer.pid} "):
                        FileOffsetStore(path)
                found = FileOffsetStore(path, read_only=True).load()
                assert len(found) == 300
                assert len(set(found.values())) == 1, "a reader sees one state"
                if seen >= 20:
                    break
            writer.send_signal(signal.SIGKILL)
            rest = writer.stdout.read().split()
        store = FileOffsetStore(path)
        offsets = {at.offset for at in store.load().values()}
        assert len(offsets) == 1
        assert offsets.pop() >= int(rest[-1] if rest else seen), "what was said to be stored is"
        store.close()


def test_threads_share_a_store(tmp_path):
    store = FileOffsetStore(tmp_path / "o")
    partitions = [TopicPartition("t", i) for i in range(8)]

    def work(tp):
        for offset in range(10):
            store.store({tp: offset})

    threads = [threading.Thread(target=work, args=(tp,)) for tp in partitions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert store.load() == dict.fromkeys(partitions, OffsetAndMetadata(9))
    store.close()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '{"format": 2, "offsets": {}}',
        '{"format": 1}',
        '{"format": 1, "offsets": {"t": {"x": {"offset": 1}}}}',
        '{"format": 1, "offsets": {"t": {"0": {"offset": -1}}}}',
        '{"format": 1, "offsets": {"t": {"0": {"offset": "1"}}}}',
        '{"format": 1, "offsets": {"t": {"0": {"offset": 1, "metadata": 5}}}}',
    ],
)
def test_invalid_file_is_rejected_and_not_overwritten(tmp_path, text):
    path = tmp_path / "o"
    path.write_text(text)
    store = FileOffsetStore(path)
    for use in (store.load, lambda: store.store({A: 1})):
        with pytest.raises(OffsetStoreError, match="is not a file of offsets"):
            use()
    assert path.read_text() == text
    store.close()


def test_temporary_file_of_a_crash_is_replaced(tmp_path):
    (tmp_path / "o.new").write_text("half of it")
    store = FileOffsetStore(tmp_path / "o")
    store.store({A: 3})
    assert store.load() == {A: OffsetAndMetadata(3)}
    store.close()
    assert time.time() - (tmp_path / "o").stat().st_mtime < 60


def test_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        FileOffsetStore(tmp_path / "nowhere" / "o")
