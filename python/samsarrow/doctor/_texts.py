"""Texts of client errors, split into cause and remedy."""

from __future__ import annotations

import re

from samsarrow.exceptions import KafkaError

# The client's errors end in a remedy after a colon. It begins with one of these words.
_REMEDY = re.compile(
    r": (?=(?:set|use|pass|remove|put|connect by|compare|install|run|write|reissue|check|enable|increase|choose|create"
    r"|did you mean|the broker needs|if the listener uses TLS, set)\b)"
)
_LAST_ERROR = re.compile(r"\(last error: (.*)\)$", re.DOTALL)


def text_of(error: BaseException) -> str:
    """Returns the text of an error; if it is a timeout, the text of the last error before it, if there is one."""
    text = str(error)
    found = _LAST_ERROR.search(text)
    return found.group(1) if found else text


def split(text: str, fallback: str, server: str = "") -> tuple[str, str]:
    """Splits the text of an error.

    Args:
        text: text of the error.
        fallback: remedy if the text has none.
        server: address at the beginning of the text, which is removed.

    Returns:
        Cause and remedy.
    """
    text = text.removeprefix(f"{server}: ")
    found = _REMEDY.search(text)
    return (text[: found.start()], text[found.end() :]) if found else (text, fallback)


def cause_of(error: KafkaError) -> str:
    """Returns the cause of an error as text, without a remedy."""
    return split(text_of(error), "")[0]
