package io.github.samsarrow.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.NullType;

/** Writes one column of a row to a row buffer. Bytes are copied directly from Spark's row to the buffer. */
interface FieldWriter {
  /** Appends the value at {@code ordinal}, which is not null. */
  void put(UnsafeRow row, int ordinal, RowBuffer buffer);

  /** Appends a null. */
  default void putNull(RowBuffer buffer) {
    buffer.putNull();
  }

  /** Returns the writer of a column. Keys and values may be of any type; the library encodes them. */
  static FieldWriter of(String column, DataType type) {
    return switch (column) {
      case "partition" -> new IntWriter();
      case "timestamp" -> new LongWriter();
      case "headers" -> FieldWriter::headers;
      default -> isFixed(type) ? new LongWriter() : FieldWriter::bytes;
    };
  }

  /** Returns true if a row contains values of the type in 8 bytes, and false if it contains their offset and size. */
  private static boolean isFixed(DataType type) {
    return type instanceof NullType || UnsafeRow.isFixedLength(type);
  }

  /**
   * Copies a value of variable length: a string, or the bytes of a binary value, a struct, an array, a map or a large
   * decimal. They have the same layout in a row, and getUTF8String creates no array on the heap.
   */
  private static void bytes(UnsafeRow row, int ordinal, RowBuffer buffer) {
    buffer.putBytes(row.getUTF8String(ordinal));
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

  /** Writes the 8 bytes of a column of fixed length, such as the microseconds of {@code timestamp}. */
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
