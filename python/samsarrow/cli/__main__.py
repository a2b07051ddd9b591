"""`python -m samsarrow.cli`."""

from samsarrow.cli import main

main()
