"""What the data source raises beyond the client's own errors."""

from __future__ import annotations

import logging

from samsarrow.exceptions import KafkaError

_log = logging.getLogger(__name__)


class DataLossError(KafkaError):
    """Records that were to be read are not there any more; `failOnDataLoss=false` goes on without them."""

    name = "DATA_LOSS"


class SchemaEvolvedError(KafkaError):
    """The schema that a streaming query reads with has a newer version, and `value.evolution=restart` ends it."""

    name = "SCHEMA_EVOLVED"


def report_loss(text: str, fail: bool) -> None:
    """Raises with `failOnDataLoss`, else writes a warning into the log.

    Args:
        text: which partition, which offsets, why.
        fail: the option `failOnDataLoss`.

    Raises:
        DataLossError: `fail` is set.
    """
    if fail:
        raise DataLossError(f"{text}; failOnDataLoss=false continues with the available records")
    _log.warning("%s (failOnDataLoss=false: continuing with the available records)", text)
