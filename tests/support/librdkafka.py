"""Runs librdkafka's mock cluster for tests through ctypes, with the library from confluent-kafka's wheel.

with MockCluster(brokers=3, topics={"t": 1}) as mock:
    mock.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from samsarrow import exceptions

CODES = {e.name: e.code for e in vars(exceptions).values() if isinstance(e, type) and hasattr(e, "code")}
# Requests that the mock cluster supports.
APIS = {
    "Produce": 0, "Fetch": 1, "ListOffsets": 2, "Metadata": 3, "OffsetCommit": 8, "OffsetFetch": 9,
    "FindCoordinator": 10, "JoinGroup": 11, "Heartbeat": 12, "LeaveGroup": 13, "SyncGroup": 14, "ApiVersions": 18,
    "InitProducerId": 22, "OffsetForLeaderEpoch": 23, "AddPartitionsToTxn": 24, "AddOffsetsToTxn": 25, "EndTxn": 26,
    "TxnOffsetCommit": 28, "ConsumerGroupHeartbeat": 68,
}  # fmt: skip
# Highest versions that the mock cluster can parse. It advertises later versions, which librdkafka itself does not send.
UNDERSTOOD = {
    "JoinGroup": 5,
    "SyncGroup": 3,
    "Heartbeat": 3,
    "LeaveGroup": 1,
    "AddPartitionsToTxn": 0,
    "AddOffsetsToTxn": 0,
    "EndTxn": 1,
}
# librdkafka's error code for a broken connection. With this error the mock cluster closes the connection instead of
# responding.
TRANSPORT = -195
PRODUCER = 0
# Functions of the library that return nothing.
VOID = {
    "start_request_tracking",
    "push_request_errors_array",
    "clear_request_errors",
    "group_initial_rebalance_delay_ms",
}


class MockClusterUnavailableError(RuntimeError):
    """This machine has no librdkafka with a mock cluster."""


def library() -> ctypes.CDLL:
    """Loads librdkafka from confluent-kafka's wheel."""
    spec = importlib.util.find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        raise MockClusterUnavailableError("librdkafka's mock cluster needs confluent-kafka")
    folder = Path(spec.origin).resolve().parent.parent / "confluent_kafka.libs"
    for path in sorted(folder.glob("librdkafka-*.so*")):
        # Importing the extension module loads the other libraries in the folder, on which this library depends.
        importlib.import_module("confluent_kafka")
        found = ctypes.CDLL(str(path))
        if hasattr(found, "rd_kafka_mock_cluster_new"):
            return _typed(found)
    raise MockClusterUnavailableError(f"there is no librdkafka with a mock cluster in {folder}")


def _typed(lib: ctypes.CDLL) -> ctypes.CDLL:
    lib.rd_kafka_version_str.restype = ctypes.c_char_p
    pointers = ["rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new", "rd_kafka_mock_get_requests"]
    for name in pointers:
        getattr(lib, name).restype = ctypes.c_void_p
    lib.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    lib.rd_kafka_mock_request_api_key.restype = ctypes.c_int16
    return lib


class MockCluster:
    """A cluster of brokers 1, 2 and so on, which are threads of this process and use free loopback ports.

    Args:
        brokers: number of brokers.
        topics: partition counts by topic.
    """

    def __init__(self, brokers: int = 1, topics: Mapping[str, int] | None = None) -> None:
        self._lib = library()
        self._brokers, self._topics = brokers, dict(topics or {})
        self._client: ctypes.c_void_p | None = None
        self._cluster: ctypes.c_void_p | None = None
        self.bootstrap_servers = ""

    def __enter__(self) -> MockCluster:
        text = ctypes.create_string_buffer(512)
        conf = ctypes.c_void_p(self._lib.rd_kafka_conf_new())
        # The client that the library requires is not used, and would log that it has no brokers.
        self._lib.rd_kafka_conf_set(conf, b"log_level", b"0", text, ctypes.c_size_t(len(text)))
        client = self._lib.rd_kafka_new(PRODUCER, conf, text, ctypes.c_size_t(len(text)))
        assert client, text.value
        self._client = ctypes.c_void_p(client)
        cluster = self._lib.rd_kafka_mock_cluster_new(self._client, self._brokers)
        assert cluster, "no mock cluster"
        self._cluster = ctypes.c_void_p(cluster)
        for name, partitions in self._topics.items():
            self._do("topic_create", name.encode(), partitions, min(3, self._brokers))
        self._do("start_request_tracking")
        self._do("group_initial_rebalance_delay_ms", ctypes.c_int32(100))
        for api, highest in UNDERSTOOD.items():
            self.speak(api, 0, highest)
        servers = self._lib.rd_kafka_mock_cluster_bootstraps(self._cluster)
        self.bootstrap_servers = servers.decode()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cluster is not None:
            self._lib.rd_kafka_mock_cluster_destroy(self._cluster)
        if self._client is not None:
            self._lib.rd_kafka_destroy(self._client)
        self._cluster = self._client = None

    def _do(self, name: str, *arguments: object) -> None:
        function = getattr(self._lib, f"rd_kafka_mock_{name}")
        function.restype = None if name in VOID else ctypes.c_int
        assert not function(self._cluster, *arguments), f"{name}{arguments} failed"

    def fail(self, api: str, error: str, times: int = 1) -> None:
        """Makes the next `times` requests fail with an error."""
        self._push(api, CODES[error] or 0, times)

    def drop(self, api: str, times: int = 1) -> None:
        """Closes the connection instead of responding to the next requests."""
        self._push(api, TRANSPORT, times)

    def _push(self, api: str, code: int, times: int) -> None:
        codes = (ctypes.c_int * times)(*[code] * times)
        key = ctypes.c_int16(APIS[api])
        self._do("push_request_errors_array", key, ctypes.c_size_t(times), codes)

    def heal(self, api: str) -> None:
        """Ends the effects of all calls of `fail` and `drop`."""
        self._do("clear_request_errors", ctypes.c_int16(APIS[api]))

    def move(self, topic: str, partition: int, broker: int) -> None:
        """Moves the leadership of a partition to another broker."""
        self._do("partition_set_leader", topic.encode(), ctypes.c_int32(partition), ctypes.c_int32(broker))

    def move_coordinator(self, kind: str, name: str, broker: int) -> None:
        """Moves a group (`kind` is `group`) or a transactional id (`transaction`) to another coordinator."""
        self._do("coordinator_set", kind.encode(), name.encode(), ctypes.c_int32(broker))

    @contextmanager
    def down(self, broker: int) -> Iterator[None]:
        """Stops a broker for the duration of the `with` block."""
        self._do("broker_set_down", ctypes.c_int32(broker))
        try:
            yield
        finally:
            self._do("broker_set_up", ctypes.c_int32(broker))

    def speak(self, api: str, lowest: int, highest: int) -> None:
        """Sets the versions of an API that the brokers advertise. With -1 the API is not advertised."""
        versions = [ctypes.c_int16(n) for n in (APIS[api], lowest, highest)]
        self._do("set_apiversion", *versions)

    def requests(self, api: str) -> int:
        """Returns the number of requests so far."""
        count = ctypes.c_size_t()
        found = self._lib.rd_kafka_mock_get_requests(self._cluster, ctypes.byref(count))
        if not found:
            return 0
        array = ctypes.cast(found, ctypes.POINTER(ctypes.c_void_p))
        keys = Counter(self._lib.rd_kafka_mock_request_api_key(ctypes.c_void_p(array[i])) for i in range(count.value))
        self._lib.rd_kafka_mock_request_destroy_array(ctypes.c_void_p(found), count)
        return keys[APIS[api]]
