package io.github.samsarrow.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayData;

/** Writes one column of a row to a row buffer. Bytes are copied directly from Spark's row to the buffer. */
interface FieldWriter {
  /** Appends the value at {@code ordinal}, which is not null. */
  void put(UnsafeRow row, int ordinal, RowBuffer buffer);

  /** Appends a null. */
  default void putNull(RowBuffer buffer) {
    buffer.putNull();
  }

  static FieldWriter of(String column) {
    return switch (column) {
      case "partition" -> new IntWriter();
      case "timestamp" -> new LongWriter();
      case "headers" -> FieldWriter::headers;
      // Binary values and strings have the same layout in a row. Unlike getBinary, getUTF8String creates no array on
      // the heap.
      default -> (row, ordinal, buffer) -> buffer.putBytes(row.getUTF8String(ordinal));
    };
  }

  private static void headers(UnsafeRow row, int ordinal, RowBuffer buffer) {
    ArrayData headers = row.getArray(ordinal);
    int count = headers.numElements();
    buffer.putCount(count);
    for (int i = 0; i < count; i++) {
      InternalRow header = headers.isNullAt(i) ? null : headers.getStruct(i, 2);
      for (int field = 0; field < 2; field++) {
        if (header == null || header.isNullAt(field)) {
          buffer.putNull();
        } else {
          buffer.putBytes(header.getUTF8String(field));
        }
      }
    }
  }

  /** Writes an {@code int} column. */
  final class IntWriter implements FieldWriter {
    @Override
    public void put(UnsafeRow row, int ordinal, RowBuffer buffer) {
      buffer.putInt(row.getInt(ordinal));
    }

    @Override
    public void putNull(RowBuffer buffer) {
      buffer.putNullNumber();
    }
  }

  /** Writes a {@code timestamp} column, whose values are in microseconds. */
  final class LongWriter implements FieldWriter {
    @Override
    public void put(UnsafeRow row, int ordinal, RowBuffer buffer) {
      buffer.putLong(row.getLong(ordinal));
    }

    @Override
    public void putNull(RowBuffer buffer) {
      buffer.putNullNumber();
    }
  }
}
