"""Entry point of `python -m samsarrow`, which runs the command `samsarrow`."""

from samsarrow.cli import main

if __name__ == "__main__":
    main()
