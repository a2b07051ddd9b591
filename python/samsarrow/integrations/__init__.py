"""Adapters that let other engines read plans of `samsarrow.ranges`. Each needs the package of its engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samsarrow.config import kafka_name, kind_of, merge, rejection
from samsarrow.exceptions import ConfigurationError
from samsarrow.ranges import Plan

__all__: list[str] = []


def check_plan(plan: object, function: str) -> Plan:
    """Returns the argument of an adapter if it is a plan.

    Raises:
        TypeError: it is not a plan.
    """
    if isinstance(plan, Plan):
        return plan
    hint = ""
    if isinstance(plan, str):
        hint = f": {function}(samsarrow.ranges.plan({plan!r}, bootstrap_servers=…))"
    raise TypeError(f"{function} takes a plan of samsarrow.ranges.plan, not {type(plan).__name__}{hint}")


def check_names(client: str, config: Mapping[str, Any] | None, options: Mapping[str, Any]) -> None:
    """Checks the names of options of a client that is created later.

    Values are not checked, because config providers may only be available there.

    Raises:
        ConfigurationError: an option is unknown.
    """
    for name, value in merge(config, options):
        if kind_of(name) == "unknown" and (reason := rejection(client, {name: value})):
            raise ConfigurationError(reason)


def check_parallel_write(config: Mapping[str, Any] | None, options: Mapping[str, Any]) -> None:
    """Checks the names of options of producers that an engine creates in its workers.

    Raises:
        ConfigurationError: an option is unknown, or is for transactions.
    """
    check_names("producer", config, options)
    if any(kafka_name(name) == "transactional.id" for name, _ in merge(config, options)):
        raise ConfigurationError("write tasks run in parallel and share no transaction: omit transactional.id")
