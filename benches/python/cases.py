"""Contents of the topics that benches read as a whole."""

from dataclasses import dataclass

from harness import RECORDS


@dataclass(frozen=True)
class Case:
    """Records of one kind and codec, which fill a topic. RECORDS divided by `share` gives their number."""

    kind: str
    codec: str
    share: int = 1

    @property
    def name(self) -> str:
        return f"consume {self.kind} {self.codec}"

    @property
    def title(self) -> str:
        """Title of the case in the chart."""
        made = {"100B": "100 random bytes a record", "1KB": "1,000 random bytes a record", "json": "JSON"}[self.kind]
        return made if self.codec == "none" else f"{made}, {self.codec}"

    @property
    def count(self) -> int:
        return RECORDS // self.share


NOISE, JSON_LZ4, JSON_ZSTD = Case("100B", "none"), Case("json", "lz4"), Case("json", "zstd")
CASES = [NOISE, Case("1KB", "none", 6), JSON_LZ4, JSON_ZSTD]
