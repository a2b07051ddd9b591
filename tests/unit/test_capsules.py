"""Arrow data imported through the C data interface: consumed capsules are rejected, and buffers are not copied
unnecessarily.
"""

import sys

import pyarrow as pa
import pytest

import samsarrow

BATCH = pa.record_batch({"value": pa.array([b"a", b"b"], pa.binary())})


class ReusedArrayCapsules:
    """Returns the same capsules from every call, which the C data interface forbids."""

    def __init__(self, data):
        self.pair = data.__arrow_c_array__()

    def __arrow_c_array__(self, requested_schema=None):
        return self.pair


class ReusedStreamCapsule:
    def __init__(self, data):
        self.capsule = data.__arrow_c_stream__()

    def __arrow_c_stream__(self, requested_schema=None):
        return self.capsule


@pytest.mark.parametrize(
    "data", [ReusedArrayCapsules(BATCH), ReusedStreamCapsule(pa.table(BATCH))], ids=["array", "stream"]
)
def test_consumed_capsule_is_rejected(data):
    encoded = samsarrow.encode_batches(data)
    assert samsarrow.decode_batches(encoded).column("value").to_pylist() == [b"a", b"b"]
    for _ in range(3):
        with pytest.raises(TypeError, match="consumed before: it must return a new one at each call"):
            samsarrow.encode_batches(data)


def test_consumed_schema_capsule_is_rejected():
    schema, array = BATCH.__arrow_c_array__()
    pa.Schema._import_from_c_capsule(schema)

    class ConsumedSchema:
        def __arrow_c_array__(self, requested_schema=None):
            return schema, array

    with pytest.raises(TypeError, match="consumed before"):
        samsarrow.encode_batches(ConsumedSchema())


def test_decoded_views_reference_the_input_bytes():
    """View columns reference the encoded bytes, and the reference is released together with the batch."""
    values = pa.array([b"%020d" % i for i in range(1000)], pa.binary())
    encoded = samsarrow.encode_batches(pa.record_batch({"value": values}))
    before = sys.getrefcount(encoded)
    batch = samsarrow.decode_batches(encoded, layout="view")
    assert sys.getrefcount(encoded) > before
    assert batch.column("value").to_pylist() == values.to_pylist()
    del batch
    # If a reference was dropped without the GIL, the next call releases it.
    samsarrow.decode_batches(b"")
    assert sys.getrefcount(encoded) == before


def test_a_stream_is_encoded_batch_by_batch():
    table = pa.table({"value": pa.chunked_array([[b"a"], [b"b", b"c"], [b"d"]], pa.binary())})
    decoded = samsarrow.decode_batches(samsarrow.encode_batches(table, base_offset=7))
    assert decoded.column("value").to_pylist() == [b"a", b"b", b"c", b"d"]
    assert decoded.column("offset").to_pylist() == [7, 8, 9, 10]
