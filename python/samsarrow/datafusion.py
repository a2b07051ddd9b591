"""Topics as tables of DataFusion: `table`.

Needs DataFusion: `pip install 'datafusion>=55'`.
"""

from samsarrow.integrations.datafusion import table

__all__ = ["table"]
