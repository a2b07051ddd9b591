"""A member of a share group that sends raw requests, on real Kafka and on the embedded broker."""

from __future__ import annotations

import time
from typing import Any

from support.raw import Raw, batch, error

NO_PRODUCER = (-1, -1)
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4

Ack = tuple[int, int, list[int]]


class ShareMember:
    """One connection of a member. Its share session has the epoch `session`."""

    def __init__(self, address: str, group: str, member: str, topic: str) -> None:
        self.raw = Raw(address)
        self.group, self.id, self.topic = group, member, topic
        self.epoch = self.session = 0
        answer = self.raw.call("Metadata", 12, topics=[{"name": topic, "topic_id": None}])
        self.topic_id = answer["topics"][0]["topic_id"]

    def produce(self, *counts: int, producer: tuple[int, int] = NO_PRODUCER) -> None:
        """Writes a batch for each count of records."""
        for count in counts:
            records = batch(producer, -1, count, transactional=False)
            data = [{"index": 0, "records": records}]
            answer = self.raw.call(
                "Produce", 9, acks=-1, timeout_ms=10_000, topic_data=[{"name": self.topic, "partition_data": data}]
            )
            code = answer["responses"][0]["partition_responses"][0]["error_code"]
            assert code == 0, error(code)

    def heartbeat(self, topics: list[str] | None = None, epoch: int | None = None) -> Any:
        """Sends a heartbeat."""
        answer = self.raw.call(
            "ShareGroupHeartbeat", 1, group_id=self.group, member_id=self.id,
            member_epoch=self.epoch if epoch is None else epoch, subscribed_topic_names=topics, rack_id=None,
        )  # fmt: skip
        if answer["error_code"] == 0:
            self.epoch = answer["member_epoch"]
        return answer

    def join(self, timeout: float = 20) -> None:
        """Joins the group and waits for an assignment."""
        answer = self.heartbeat([self.topic])
        end = time.monotonic() + timeout
        while not (answer["assignment"] or {"topic_partitions": []})["topic_partitions"]:
            assert time.monotonic() < end, answer
            time.sleep(0.1)
            # The coordinator may still be loading its state, or may not know the topic yet. The first lookup of a
            # coordinator creates Kafka's internal topic.
            self.raw.call("FindCoordinator", 4, key_type=0, coordinator_keys=[self.group])
            answer = self.heartbeat([self.topic] if self.epoch == 0 else None)

    def fetch(
        self,
        *acks: Ack,
        session: int | None = None,
        wait: int = 0,
        mode: int = 0,
        max_records: int = 500,
        batch_size: int = 500,
        renew: bool = False,
        listed: bool | None = None,
        index: int = 0,
    ) -> Any:
        """Sends a ShareFetch. The partition is listed in the first request, and with acknowledgements."""
        epoch = self.session if session is None else session
        listed = epoch == 0 or bool(acks) or index > 0 if listed is None else listed
        limits = (0, 0, 0, 0) if renew else (wait, 1, 50 << 20, max_records)
        partitions = [{"partition_index": index, "acknowledgement_batches": _batches(acks)}]
        answer = self.raw.call(
            "ShareFetch", 2, group_id=self.group, member_id=self.id, share_session_epoch=epoch,
            max_wait_ms=limits[0], min_bytes=limits[1], max_bytes=limits[2], max_records=limits[3],
            batch_size=batch_size, share_acquire_mode=mode, is_renew_ack=renew, forgotten_topics_data=[],
            topics=[{"topic_id": self.topic_id, "partitions": partitions}] if listed else [],
        )  # fmt: skip
        if answer["error_code"] == 0 and epoch == self.session:
            self.session += 1
        return answer

    def acquire(self, *acks: Ack, timeout: float = 10, **options: Any) -> list[tuple[int, int, int]]:
        """Fetches until records are acquired, and returns their ranges."""
        end = time.monotonic() + timeout
        while True:
            answer = self.fetch(*acks, **{"wait": 200, **options})
            found = ranges(answer)
            if found or time.monotonic() > end:
                return found
            acks = ()

    def acknowledge(self, *acks: Ack, session: int | None = None, renew: bool = False) -> Any:
        """Sends a ShareAcknowledge."""
        epoch = self.session if session is None else session
        partitions = [{"partition_index": 0, "acknowledgement_batches": _batches(acks)}]
        answer = self.raw.call(
            "ShareAcknowledge", 2, group_id=self.group, member_id=self.id, share_session_epoch=epoch,
            is_renew_ack=renew, topics=[{"topic_id": self.topic_id, "partitions": partitions}] if acks else [],
        )  # fmt: skip
        if answer["error_code"] == 0 and epoch == self.session:
            self.session += 1
        return answer

    def close(self) -> None:
        """Closes the connection."""
        self.raw.close()


def _batches(acks: tuple[Ack, ...]) -> list[dict[str, Any]]:
    return [{"first_offset": first, "last_offset": last, "acknowledge_types": types} for first, last, types in acks]


def partition(answer: Any) -> Any:
    """Returns the only partition of a response, or an empty dictionary."""
    found = [one for topic in answer["responses"] for one in topic["partitions"]]
    return found[0] if found else {}


def ranges(answer: Any) -> list[tuple[int, int, int]]:
    """Returns the acquired ranges of a ShareFetch response, with their delivery counts."""
    acquired = partition(answer).get("acquired_records", [])
    return [(one["first_offset"], one["last_offset"], one["delivery_count"]) for one in acquired]


def outcome(answer: Any) -> str:
    """Returns the error of a response: of the request, of the partition, or of its acknowledgements."""
    one = partition(answer)
    codes = [answer["error_code"], one.get("error_code", 0), one.get("acknowledge_error_code", 0)]
    return error(next((code for code in codes if code), 0))
