"""One module per client; each can `consume` a topic into Arrow and, if the client supports it, `produce` records.

    python -m clients NAME consume|produce BOOTSTRAP TOPIC COUNT

runs one of them in a separate process and prints a line of JSON: rows, time, and cost.
"""
