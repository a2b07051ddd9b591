package io.github.samsarrow.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

/** Ints, longs and timestamps. */
final class NumberVector extends RawVector {
  private long data;

  NumberVector(DataType type) {
    super(type);
  }

  @Override
  void point(long slots, int rows) {
    super.point(slots, rows);
    data = slot(slots, 2);
  }

  @Override
  public int getInt(int row) {
    return Platform.getInt(null, data + (long) index(row) * Integer.BYTES);
  }

  @Override
  public long getLong(int row) {
    return Platform.getLong(null, data + (long) index(row) * Long.BYTES);
  }
}
