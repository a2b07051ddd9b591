"""Backups of topics: the parts of `samsarrow.backup`."""
