"""Topics as tables of DataFusion: `table`.

Needs DataFusion: `pip install 'samsarrow[datafusion]'`.
"""

from samsarrow.integrations.datafusion import table

__all__ = ["table"]
