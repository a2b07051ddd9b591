"""Adapters that let other engines read plans of `samsarrow.ranges`. Each needs the package of its engine."""

from __future__ import annotations

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
