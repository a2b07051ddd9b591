"""The exception classes match the error table of the protocol."""

import pickle

import pytest

from samsarrow import KafkaError, _core, exceptions
from samsarrow.exceptions import error_of

TABLE = _core.error_table()


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[1])
def test_every_protocol_error_has_a_class(row):
    code, class_name, retriable, fatal, description, name = row
    assert description
    cls = getattr(exceptions, class_name)
    assert issubclass(cls, KafkaError)
    assert (cls.name, cls.code, cls.retriable, cls.fatal) == (name, code, retriable, fatal)
    assert cls.abortable == (class_name == "TransactionAbortableError")
    # The description in the table starts in lower case and has no full stop; the docstring has both.
    assert cls.__doc__ == f"{description[0].upper()}{description[1:]}."
    raised = error_of(class_name, "text", code, retriable, fatal)
    assert type(raised) is cls
    assert str(raised) == "text"


def test_error_codes_are_unique():
    codes = [row[0] for row in TABLE]
    assert len(set(codes)) == len(codes) > 130
    assert 0 not in codes


def test_every_class_is_a_client_error_or_in_the_table():
    own = {
        "BadValueError",
        "BootstrapResolutionError",
        "KafkaError",
        "KafkaTimeoutError",
        "KafkaConnectionError",
        "KafkaProtocolError",
        "ClosedError",
        "ForkError",
        "ConfigurationError",
        "CorruptRecordError",
        "IllegalStateError",
        "TransactionAbortedError",
        "TlsError",
        "AuthenticationError",
        "AuthorizationError",
        "FencedError",
        "RegistryError",
        "RejectedWithOthersError",
        "RetriableError",
        "SchemaIncompatibleError",
        "SchemaNotFoundError",
        "WakeupError",
    }
    found = {n for n, c in vars(exceptions).items() if isinstance(c, type) and issubclass(c, KafkaError)}
    assert found - own == {row[1] for row in TABLE}
    assert own <= found


def test_base_classes_by_error_handling():
    for row in TABLE:
        cls = getattr(exceptions, row[1])
        # An error is a RetriableError if and only if it is retriable.
        assert issubclass(cls, exceptions.RetriableError) == cls.retriable
        assert issubclass(cls, exceptions.AuthorizationError) == cls.name.endswith("AUTHORIZATION_FAILED")
    for cls in (exceptions.KafkaTimeoutError, exceptions.KafkaConnectionError):
        assert issubclass(cls, exceptions.RetriableError)
    assert issubclass(exceptions.ProducerFencedError, exceptions.FencedError)
    assert issubclass(exceptions.SaslAuthenticationFailedError, exceptions.AuthenticationError)


def test_errors_derive_from_builtin_exceptions():
    assert issubclass(exceptions.KafkaTimeoutError, TimeoutError)
    assert issubclass(exceptions.KafkaConnectionError, ConnectionError)
    assert exceptions.NotLeaderOrFollowerError.name == "NOT_LEADER_OR_FOLLOWER"


def test_unknown_error_code_is_a_kafka_error():
    error = error_of("SomethingNewError", "t: 999", 999, True, False)
    assert type(error) is KafkaError
    assert error.code == 999
    assert error.retriable


def test_errors_survive_pickling():
    error = pickle.loads(pickle.dumps(error_of("OffsetOutOfRangeError", "gone", 1, False, False)))
    assert isinstance(error, exceptions.OffsetOutOfRangeError)
    assert (str(error), error.code) == ("gone", 1)
