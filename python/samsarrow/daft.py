"""Topics as frames of Daft: `read_topic`.

Needs Daft: `pip install 'daft>=0.7,<0.8'`.
"""

from samsarrow.integrations.daft import read_topic

__all__ = ["read_topic"]
