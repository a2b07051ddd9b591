"""The probe on a few Kafka versions; `make test-matrix` covers all of them."""

import os

import pytest

from matrix.features import FEATURES, Feature
from matrix.probe import WORKS, Outcome, judge, probe_release
from support.kafka import KafkaUnavailableError, classpath

# 0.11 is the first version with records v2, long before ApiVersions v3; 3.7 responds to ApiVersions v4 with an error.
# 4.4 is the newest. Most other tests run on 3.9.1 and 4.3.1, with and without the APIs that 4.0 removed.
VERSIONS = ("0.11.0.3", "3.7.2", "4.4.0")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.timeout(600)
def test_features_work_or_name_the_required_version(version: str) -> None:
    try:
        classpath(version)
    except KafkaUnavailableError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(reason))
    outcomes = probe_release(version)
    assert [o for o in outcomes if o.kind == "defect"] == []
    expected = {f.name for f in FEATURES if f.expected_of(version)}
    assert expected <= {o.feature for o in outcomes if o.kind == WORKS}


HEADERS = Feature("headers", "headers", "0.11")


@pytest.mark.parametrize(
    ("version", "error", "refusal", "kind"),
    [
        ("0.11.0.3", None, False, "works"),
        ("0.10.2.2", "needs Kafka 0.11 or later", True, "refused"),
        ("0.10.2.2", "headers need Kafka 0.11.0", True, "refused"),
        # The error names a missing API that the feature depends on.
        ("0.8.2.2", "JoinGroup needs Kafka 0.9.0 or later", True, "refused"),
        # Errors that count as defects: of another library, with the wrong version, or with the broker's own version.
        ("0.10.2.2", "needs Kafka 0.11 or later", False, "defect"),
        ("0.10.2.2", "needs Kafka 0.111", True, "defect"),
        ("0.10.2.2", "this is Kafka 0.10.2", True, "defect"),
        ("0.10.2.2", "cannot be sent", True, "defect"),
        ("0.11.0.3", "needs Kafka 0.11 or later", True, "defect"),
    ],
)
def test_only_errors_naming_the_version_are_refusals(version: str, error: str | None, refusal: bool, kind: str) -> None:
    assert judge(HEADERS, version, error, refusal) == Outcome("headers", kind, error or "")
