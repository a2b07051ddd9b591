"""Functions that processes of a pool call: a module of tests cannot be imported in them."""

from samsarrow.exceptions import TopicAlreadyExistsError
from samsarrow.results import failure


def raise_partial_failure() -> None:
    """Raises the error of an admin call in which one of two items failed."""
    raise failure({"t": TopicAlreadyExistsError("topic t exists")}, {"u": None})
