"""Unknown names of classes and methods have errors that name the replacement."""

import importlib
import re

import pytest

import samsarrow
from samsarrow import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer, exceptions
from samsarrow._names import CLASSES, CONSTANTS, METHODS

CLIENTS = {
    "Consumer": (Consumer, AsyncConsumer),
    "Admin": (Admin, AsyncAdmin),
    "Producer": (Producer, AsyncProducer),
    "ShareConsumer": (samsarrow.ShareConsumer, samsarrow.AsyncShareConsumer),
}
OPTIONS = {"ShareConsumer": {"group_id": "g"}}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_of_other_clients(name):
    text = f"module 'samsarrow' has no attribute '{name}': use samsarrow.{CLASSES[name]}"
    with pytest.raises(AttributeError, match=f"^{re.escape(text)}$"):
        getattr(samsarrow, name)
    assert isinstance(getattr(samsarrow, CLASSES[name]), type)


@pytest.mark.parametrize(
    ("module", "name", "text"),
    [
        ("samsarrow", "AdminClient", ": use samsarrow.Admin"),
        ("samsarrow", "TopicAlreadyExistsError", ": import it from samsarrow.exceptions"),
        ("samsarrow", "Broker", ": import it from samsarrow.testing"),
        ("samsarrow", "OFFSET_BEGINNING", f": {CONSTANTS['OFFSET_BEGINNING']}"),
        ("samsarrow", "Consumr", "; did you mean Consumer?"),
        ("samsarrow.admin", "AdminClient", ": use samsarrow.Admin"),
        ("samsarrow.admin", "NewTopic", ": import it from samsarrow"),
    ],
)
def test_import_statements_have_the_hint(module, name, text):
    with pytest.raises(ImportError, match=f"^cannot import name '{name}' from '{module}'{re.escape(text)}$") as raised:
        exec(f"from {module} import {name}", {})
    assert raised.value.name == module
    assert not hasattr(importlib.import_module(module), name)


def test_an_unknown_import_without_a_hint_is_pythons_own():
    with pytest.raises(ImportError, match=r"^cannot import name 'Zyx_9' from 'samsarrow' \("):
        exec("from samsarrow import Zyx_9", {})


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_of_other_clients(name):
    with pytest.raises(AttributeError, match=f"'{name}': {re.escape(CONSTANTS[name])}$"):
        getattr(samsarrow, name)
    for method in re.findall(r"Consumer\.(\w+)", CONSTANTS[name]):
        assert hasattr(Consumer, method)


def test_producers_do_not_list_methods_of_other_clients():
    for kind in CLIENTS["Producer"]:
        producer = kind(bootstrap_servers="h:1")
        assert not set(METHODS["Producer"]) & set(dir(producer))
        assert {"send", "flush", "closed"} <= set(dir(producer))
        with pytest.raises(
            AttributeError, match=f"^type object '{kind.__name__}' has no attribute 'produce': use send"
        ):
            _ = kind.produce


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("TopicAlreadyExistsError", "import it from samsarrow.exceptions"),
        ("GroupLag", "import it from samsarrow.admin_types"),
        ("Secret", "import it from samsarrow.config"),
        ("FileOffsetStore", "import it from samsarrow.offsets"),
        ("Broker", "import it from samsarrow.testing"),
        ("Consumr", "did you mean Consumer?"),
    ],
)
def test_names_of_other_modules_and_typos(name, text):
    with pytest.raises(AttributeError, match=re.escape(text)):
        getattr(samsarrow, name)


def test_all_errors_are_attributes_or_have_a_hint():
    for name, value in vars(exceptions).items():
        if isinstance(value, type) and issubclass(value, exceptions.KafkaError) and name not in samsarrow.__all__:
            with pytest.raises(AttributeError, match=f"'{name}': import it from samsarrow.exceptions"):
                getattr(samsarrow, name)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in METHODS.items() for name in names])
def test_methods_of_other_clients(kind, name):
    for client in CLIENTS[kind]:
        remedy = METHODS[kind][name]
        assert not hasattr(client, name)
        with pytest.raises(AttributeError, match=f"^'{client.__name__}' object.*'{name}': {re.escape(remedy)}$"):
            getattr(client(**OPTIONS.get(kind, {}), bootstrap_servers="h:1"), name)
        for owner, call in re.findall(r"(?:(\w+)\.)?(\w+)\(", remedy.replace("on_delivery(", "")):
            assert hasattr(getattr(samsarrow, owner) if owner else client, call), remedy


def test_unknown_attributes_stay_attribute_errors():
    for client in (Consumer, Admin, Producer):
        created = client(bootstrap_servers="h:1")
        assert not hasattr(created, "__arrow_c_stream__")
        with pytest.raises(AttributeError, match=f"^'{client.__name__}' object has no attribute 'nosuch'$"):
            _ = created.nosuch


def test_type_errors_of_inherited_methods_have_the_public_class():
    calls = {
        "subscribe": lambda c: c.subscribe("a", "b"),
        "commit_async": lambda c: c.commit_async(1, 2, 3),
        "__init__": lambda c: type(c)({}, {}),
        "create_topics": lambda c: c.create_topics(),
        "metrics": lambda c: c.metrics(5),
    }
    for client, names in [
        (Consumer, ["subscribe", "commit_async", "__init__", "metrics"]),
        (AsyncConsumer, ["subscribe", "commit_async", "__init__", "metrics"]),
        (Producer, ["__init__", "metrics"]),
        (AsyncProducer, ["__init__", "metrics"]),
        (Admin, ["create_topics", "metrics"]),
    ]:
        created = client(bootstrap_servers="h:1", **({"group_id": "g"} if "Consumer" in client.__name__ else {}))
        for name in names:
            with pytest.raises(TypeError, match=rf"^{client.__name__}\.{name}\(\) "):
                calls[name](created)


def test_subclasses_of_users_keep_inherited_methods():
    class Own(Consumer):
        def subscribe(self, *topics):
            super().subscribe(list(topics))

    consumer = Own(bootstrap_servers="h:1", group_id="g")
    consumer.subscribe("a", "b")
    assert consumer.subscription() == {"a", "b"}
    assert Own.metrics is Consumer.metrics
