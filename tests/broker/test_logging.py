"""The core's log lines in Python's logging."""

import logging
import time

import pytest

from samsarrow import Producer


@pytest.mark.parametrize("level", [logging.DEBUG, logging.ERROR])
def test_lines_have_names_levels_and_fields(servers, caplog, level):
    caplog.set_level(level, "samsarrow")
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"x").result(10)
    deadline = time.monotonic() + (5 if level == logging.DEBUG else 0.3)
    while not (lines := [r for r in caplog.records if "producer identity" in r.getMessage()]):
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    if level == logging.DEBUG:
        assert lines[0].name == "samsarrow.client.produce.identity"
        assert lines[0].levelno == logging.DEBUG
        assert lines[0].getMessage().startswith("producer identity (producer_id=")
    else:
        assert not lines
