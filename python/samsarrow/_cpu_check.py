"""Whether this CPU can run the compiled core: an error where there would be an illegal instruction.

Imported before the core and before pyarrow, which both need x86-64-v2. Looks at Linux on x86-64 only, where what a CPU
can is in a file; anything that is not as expected there is passed over.
"""

import os

# x86-64-v2 by the names that Linux has for it, as far as compilers make use of it.
NEEDED = frozenset({"cx16", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3"})


def check(cpuinfo: str = "/proc/cpuinfo") -> None:
    """Raises ImportError where the CPU lacks what the core is compiled for."""
    try:
        if os.uname().machine != "x86_64":
            return
        with open(cpuinfo, "rb", buffering=0) as file:
            # The first CPU's part: the whole file takes milliseconds where there are many.
            text = file.read(8192).decode("ascii", "replace")
    except (AttributeError, OSError):
        return
    _, found, rest = text.partition("\nflags\t\t: ")
    flags, ended, _ = rest.partition("\n")
    missing = NEEDED.difference(flags.split())
    if found and ended and missing:
        raise ImportError(
            "samsarrow needs a CPU with x86-64-v2 (SSE4.2 and older extensions), and this one lacks "
            f"{', '.join(sorted(missing))}: use another machine, or a newer CPU model for this virtual one (`host`)"
        )


check()
