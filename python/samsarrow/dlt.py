"""Topics as resources of dlt: `topic`.

Needs dlt: `pip install 'samsarrow[dlt]'`.
"""

from samsarrow.integrations.dlt import topic

__all__ = ["topic"]
