"""Maven artifacts and settings that each Apache Kafka release needs to run on JDK 17, used by `support.kafka`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Release:
    """Artifacts and settings of one Kafka version.

    Attributes:
        scala: a Scala version for which its jar was built.
        profiles: profiles of kafka-pom.xml with additional jars.
        zookeeper: True to start it with ZooKeeper, False to start one KRaft node.
        log4j2: True if it uses log4j 2, False for log4j 1.
        properties: broker settings that must differ from the common ones.
    """

    scala: str
    profiles: tuple[str, ...]
    zookeeper: bool = False
    log4j2: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)


_BEFORE_CLUSTER_IDS = Release("2.11", (), zookeeper=True)
_WITH_JAXB = Release("2.11", ("jaxb",), zookeeper=True)
_OLD_ZOOKEEPER = Release("2.12", ("log4j", "zookeeper"), zookeeper=True)
_ZOOKEEPER = Release("2.13", ("log4j",), zookeeper=True)
_KRAFT = Release("2.13", ("log4j",))
_KRAFT_ONLY = Release("2.13", ("log4j2",), log4j2=True)

RELEASES: Mapping[str, Release] = {
    # In 0.8 the retention is a 32-bit number of milliseconds and cannot be unlimited.
    "0.8.2.2": Release("2.11", (), zookeeper=True, properties={"log.retention.ms": "2147483647"}),
    "0.9.0.1": _BEFORE_CLUSTER_IDS,
    "0.10.0.1": _BEFORE_CLUSTER_IDS,
    "0.10.2.2": _WITH_JAXB,
    "0.11.0.3": _WITH_JAXB,
    "1.1.1": Release("2.12", ("jaxb", "log4j"), zookeeper=True),
    "2.0.1": _OLD_ZOOKEEPER,
    "2.3.1": _OLD_ZOOKEEPER,
    "2.4.1": _ZOOKEEPER,
    "2.8.2": _ZOOKEEPER,
    "3.0.2": _ZOOKEEPER,
    "3.3.2": _KRAFT,
    "3.6.2": _KRAFT,
    "3.7.2": _KRAFT,
    "3.8.1": _KRAFT,
    # Tests use only the command-line tools of 3.9.1, 4.3.1 and 4.4.0. Those of 3.9 already include a logging backend.
    "3.9.1": Release("2.13", ("tools",)),
    "4.0.2": _KRAFT_ONLY,
    "4.1.2": _KRAFT_ONLY,
    "4.2.2": _KRAFT_ONLY,
    "4.3.1": Release("2.13", ("tools", "log4j2"), log4j2=True),
    "4.4.0": Release("2.13", ("tools", "log4j2"), log4j2=True),
}


def number(version: str) -> tuple[int, ...]:
    """Returns a version as a tuple for comparisons: 0.11 equals 0.11.0, and 0.11.0.3 is later."""
    parts = [int(part) for part in version.split(".")]
    return tuple(parts + [0] * (4 - len(parts)))
