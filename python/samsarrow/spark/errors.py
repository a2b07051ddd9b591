"""Errors that only the Spark data source raises."""

from __future__ import annotations

import logging

from samsarrow.exceptions import KafkaError

_log = logging.getLogger(__name__)


class DataLossError(KafkaError):
    """Records to be read no longer exist; `failOnDataLoss=false` continues without them."""

    name = "DATA_LOSS"


class SchemaEvolvedError(KafkaError):
    """A schema of a streaming query has a newer version, and the query has the option `value.evolution=restart`."""

    name = "SCHEMA_EVOLVED"


class ReplayMismatchError(KafkaError):
    """A micro-batch cannot be written exactly once.

    Its rows differ from the rows of an earlier attempt, or a later micro-batch is already written.
    """

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
