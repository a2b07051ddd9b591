"""Topics as incremental resources of dlt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

import pyarrow as pa

from samsarrow import ranges
from samsarrow.integrations import check_names
from samsarrow.integrations.parts import merged, without_dictionaries
from samsarrow.offsets import next_offsets
from samsarrow.ranges import Bound, Offsets, OnDataLoss
from samsarrow.ranges.planning import check_request
from samsarrow.types import Seconds

try:
    import dlt as _dlt
    from dlt.extract import DltResource
except ImportError:
    raise ImportError("samsarrow.dlt needs dlt: pip install 'dlt>=1.20'") from None

if TYPE_CHECKING:
    from samsarrow.options import ConsumerOptions
    from samsarrow.values.decode import Format

__all__ = ["topic"]

# Columns from which the offsets of the state are taken.
_POSITION = ("topic", "partition", "offset")


def topic(
    topic: str,
    config: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    start: Bound = "earliest",
    partitions: Iterable[int] | None = None,
    columns: Sequence[str] | None = None,
    key_format: Format | None = None,
    value_format: Format | None = None,
    on_decode_error: Literal["raise", "null"] = "raise",
    on_data_loss: OnDataLoss = "raise",
    timeout: Seconds | None = None,
    **options: Unpack[ConsumerOptions],
) -> DltResource:
    """Returns a resource with the records since the last run, each of them once.

        pipeline = dlt.pipeline("orders", destination="duckdb", dataset_name="kafka")
        pipeline.run(samsarrow.dlt.topic("orders", bootstrap_servers="localhost:9092"))

    The state of the resource is `Plan.next_start()` as text. dlt stores it in the destination with the rows, and keeps
    the old state if a run fails. With `add_limit`, the state is the offset after the last row of the run. Rows are
    appended; use `apply_hints` for another write disposition.

    Args:
        topic: name of the topic.
        config: options of `Consumer` with dotted names.
        name: name of the resource and of its table; by default the name of the topic.
        start: the first records of the first run, as in `samsarrow.ranges.plan`. Later runs start at the state.
        partitions: numbers of the partitions to read; by default all.
        columns: names of the columns to load; by default all columns of `Consumer.poll`.
        key_format: format of keys, as in `Consumer`.
        value_format: format of values, as in `Consumer`. Structs become columns or tables, as dlt defines.
        on_decode_error: effect of a key or value that cannot be decoded, as in `Consumer`.
        on_data_loss: effect of offsets that were removed before they were read, as in `samsarrow.ranges.plan`.
        timeout: maximum seconds without progress, as in `samsarrow.ranges.plan`.
        **options: the same options as keywords.

    Returns:
        A `DltResource`, which yields record batches. `topic` is a string column.

    Raises:
        ConfigurationError: an argument is invalid, or an option is unknown.
        dlt.pipeline.exceptions.PipelineStepFailed: raised by the run instead of the errors of `samsarrow.ranges.plan`
            and `Split.read`, with their messages. If the topic was deleted and created again, call `pipeline.run` with
            `refresh="drop_resources"` to start again.
    """
    arguments: dict[str, Any] = {
        # Read by each run.
        "partitions": None if partitions is None else list(partitions),
        "columns": None if columns is None else list(dict.fromkeys([*columns, *_POSITION])),
        "key_format": key_format,
        "value_format": value_format,
        "on_decode_error": on_decode_error,
        "on_data_loss": on_data_loss,
        "timeout": timeout,
    }
    check_names("consumer", config, options)
    check_request(topic, config, options, start=start, end="latest", **arguments)

    def rows() -> Iterator[pa.RecordBatch]:
        state = _dlt.current.resource_state()
        stored: str | None = state.get("next_start")
        plan = ranges.plan(topic, config, start=start if stored is None else stored, **arguments, **options)
        names = plan.schema.names if columns is None else list(columns)
        schema = without_dictionaries(pa.schema([plan.schema.field(one) for one in names]))
        positions = {tp: begin for tp, begin, _ in plan.ranges}
        for split in merged(plan.splits, 1):
            for batch in split.read():
                positions |= {tp: at.offset for tp, at in next_offsets(batch).items()}
                # Stored before the rows, because dlt may stop after any batch.
                state["next_start"] = Offsets(topic, positions, plan.topic_id).to_json()
                yield batch.select(names).cast(schema)
        state["next_start"] = plan.next_start().to_json()

    return _dlt.resource(rows, name=name or topic, write_disposition="append")
