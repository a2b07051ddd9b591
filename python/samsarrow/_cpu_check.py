"""Check that the CPU supports x86-64-v2. Raises ImportError if it does not, because the core would crash.

Imported before the extension module and pyarrow, because both need x86-64-v2. Only Linux on x86-64 is checked, by
reading /proc/cpuinfo. If the content of the file is unexpected, the check passes.
"""

import os

# Names in /proc/cpuinfo of the x86-64-v2 extensions whose instructions compilers emit.
NEEDED = frozenset({"cx16", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3"})


def check(cpuinfo: str = "/proc/cpuinfo") -> None:
    """Raises ImportError if the CPU lacks an extension that the core is compiled for."""
    try:
        if os.uname().machine != "x86_64":
            return
        with open(cpuinfo, "rb", buffering=0) as file:
            # Reads only the entry of the first CPU, because reading the whole file takes milliseconds on machines with
            # many CPUs.
            text = file.read(8192).decode("ascii", "replace")
    except (AttributeError, OSError):
        return
    _, has_flags, rest = text.partition("\nflags\t\t: ")
    flags, complete, _ = rest.partition("\n")
    missing = NEEDED.difference(flags.split())
    if has_flags and complete and missing:
        raise ImportError(
            "samsarrow needs a CPU with x86-64-v2 (SSE4.2 and older extensions), and this one lacks "
            f"{', '.join(sorted(missing))}: use another machine, or a newer CPU model for this virtual one (`host`)"
        )


check()
