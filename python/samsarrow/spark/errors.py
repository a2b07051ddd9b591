"""Errors of the data source in addition to the client's."""

from __future__ import annotations

import logging

from samsarrow.exceptions import KafkaError

_log = logging.getLogger(__name__)


class DataLossError(KafkaError):
    """Records to be read no longer exist; `failOnDataLoss=false` continues without them."""

    name = "DATA_LOSS"


class SchemaEvolvedError(KafkaError):
    """The schema of a streaming query has a newer version, and `value.evolution=restart` ends the query."""

    name = "SCHEMA_EVOLVED"


class ReplayMismatchError(KafkaError):
    """A micro-batch cannot be written exactly once: its rows differ from those already written, or a later one is."""

    name = "REPETITION"


def report_loss(text: str, fail: bool) -> None:
    """Raises an error with `failOnDataLoss`, otherwise logs a warning.

    Args:
        text: the partition, the offsets, and the reason.
        fail: value of the option `failOnDataLoss`.

    Raises:
        DataLossError: `fail` is set.
    """
    if fail:
        raise DataLossError(f"{text}; failOnDataLoss=false continues with the available records")
    _log.warning("%s (failOnDataLoss=false: continuing with the available records)", text)
