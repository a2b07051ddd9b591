"""One module a client; each can `consume` a topic into Arrow and, where the client can, `produce` records.

    python -m clients NAME consume|produce BOOTSTRAP TOPIC COUNT

runs one of them in a process of its own and prints one line of JSON: what it did, how long it took, what it cost.
"""
