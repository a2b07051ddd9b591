package io.github.samsarrow.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Column of binary values or strings: an array of offsets into one array of bytes. */
final class BytesVector extends RawVector {
  private long offsets;
  private long data;

  BytesVector(DataType type) {
    super(type);
  }

  @Override
  void attach(long slots, int rows) {
    super.attach(slots, rows);
    setData(slot(slots, 1), slot(slots, 2));
  }

  void setData(long offsets, long data) {
    this.offsets = offsets;
    this.data = data;
  }

  private int offset(int index) {
    return Platform.getInt(null, offsets + (long) index * Integer.BYTES);
  }

  private int length(int start, int end) {
    assert 0 <= start && start <= end && end <= offset(values())
        : "a value of bytes " + start + " to " + end + ", where there are " + offset(values());
    return end - start;
  }

  @Override
  public UTF8String getUTF8String(int row) {
    int at = index(row);
    int start = offset(at);
    // Refers to native memory without a copy, as Parquet's column vectors do. Spark copies the values that it keeps.
    return isNullAt(row) ? null : UTF8String.fromAddress(null, data + start, length(start, offset(at + 1)));
  }

  @Override
  public byte[] getBinary(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int at = index(row);
    int start = offset(at);
    byte[] bytes = new byte[length(start, offset(at + 1))];
    Platform.copyMemory(null, data + start, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    return bytes;
  }
}
