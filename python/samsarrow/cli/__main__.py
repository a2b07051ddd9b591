"""`python -m samsarrow.cli`."""

from samsarrow.cli import main

if __name__ == "__main__":
    main()
