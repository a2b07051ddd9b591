"""Lookups for plans: topic ids, committed offsets, and the schema of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa

from samsarrow import _core
from samsarrow._admin.offsets import fetch_offsets
from samsarrow._admin.topics import list_topics
from samsarrow._consumer import ConsumerBase
from samsarrow._sync import RunCall
from samsarrow.config import options_of
from samsarrow.types import TopicListing, TopicPartition

Pairs = Sequence[tuple[str, Any]]


class TopicIds:
    """Lookup of the current id of a topic."""

    def __init__(self, run: RunCall, options: Pairs, topic: str) -> None:
        self._run, self._options, self._topic = run, options, topic

    async def find(self, timeout: float) -> bytes | None:
        """Returns the id, or None if the topic does not exist or the brokers do not support ids."""
        listing = await self.listing(timeout)
        found: UUID | None = None if listing is None else listing.topic_id
        return None if found is None else found.bytes

    async def listing(self, timeout: float) -> TopicListing | None:
        """Returns the topic with its id, or None if it does not exist."""
        core = _core.Admin(list(options_of("admin", dict(self._options)).items()))
        try:
            return (await self._run(list_topics(core, [self._topic], timeout=timeout))).get(self._topic)
        finally:
            core.close().start()


async def committed(
    run: RunCall, options: Pairs, group: str, partitions: Sequence[TopicPartition], timeout: float
) -> dict[TopicPartition, int | None]:
    """Returns the committed offsets of a group, without those of open transactions."""
    core = _core.Admin(list(options_of("admin", dict(options)).items()))
    try:
        found = await run(fetch_offsets(core, group, partitions, timeout=timeout))
    finally:
        core.close().start()
    return {tp: None if (at := found.get(tp)) is None else at.offset for tp in partitions}


async def schema_of(consumer: ConsumerBase, topic: str) -> pa.Schema:
    """Returns the schema of the consumer's batches; requests it from a registry if necessary."""
    typed = consumer._typed
    if typed is not None and not typed.ready:
        await typed.prepare(consumer._run, {topic})
    return consumer.schema
