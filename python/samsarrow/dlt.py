"""Topics as resources of dlt: `topic`.

Needs dlt: `pip install 'dlt>=1.20'`.
"""

from samsarrow.integrations.dlt import topic

__all__ = ["topic"]
