package io.github.samsarrow.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayData;

/** How a column of a row gets into a block: its bytes are copied once. */
interface Cell {
  /** Appends the column at {@code ordinal}, which is not null. */
  void put(UnsafeRow row, int ordinal, Block block);

  /** What stands for null. */
  default void putNull(Block block) {
    block.putNull();
  }

  static Cell of(String column) {
    return switch (column) {
      case "partition" -> new IntCell();
      case "timestamp" -> new LongCell();
      case "headers" -> Cell::headers;
      // Binary lies in a row as text does, and this way needs no array on the heap.
      default -> (row, ordinal, block) -> block.putBytes(row.getUTF8String(ordinal));
    };
  }

  private static void headers(UnsafeRow row, int ordinal, Block block) {
    ArrayData headers = row.getArray(ordinal);
    int count = headers.numElements();
    block.putCount(count);
    for (int i = 0; i < count; i++) {
      InternalRow header = headers.isNullAt(i) ? null : headers.getStruct(i, 2);
      for (int field = 0; field < 2; field++) {
        if (header == null || header.isNullAt(field)) {
          block.putNull();
        } else {
          block.putBytes(header.getUTF8String(field));
        }
      }
    }
  }

  /** A column {@code int}. */
  final class IntCell implements Cell {
    @Override
    public void put(UnsafeRow row, int ordinal, Block block) {
      block.putInt(row.getInt(ordinal));
    }

    @Override
    public void putNull(Block block) {
      block.putNoNumber();
    }
  }

  /** A column {@code timestamp}, in microseconds. */
  final class LongCell implements Cell {
    @Override
    public void put(UnsafeRow row, int ordinal, Block block) {
      block.putLong(row.getLong(ordinal));
    }

    @Override
    public void putNull(Block block) {
      block.putNoNumber();
    }
  }
}
