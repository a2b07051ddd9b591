"""Topics as frames of Daft: `read_topic`.

Needs Daft: `pip install 'samsarrow[daft]'`.
"""

from samsarrow.integrations.daft import read_topic

__all__ = ["read_topic"]
