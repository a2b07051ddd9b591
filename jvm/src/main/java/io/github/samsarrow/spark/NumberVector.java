package io.github.samsarrow.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

/** Column of numbers, dates or timestamps, or of the null type. */
final class NumberVector extends RawVector {
  private long data;

  NumberVector(DataType type) {
    super(type);
  }

  @Override
  void attach(long slots, int rows) {
    super.attach(slots, rows);
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

  @Override
  public byte getByte(int row) {
    return Platform.getByte(null, data + index(row));
  }

  @Override
  public short getShort(int row) {
    return Platform.getShort(null, data + (long) index(row) * Short.BYTES);
  }

  @Override
  public float getFloat(int row) {
    return Platform.getFloat(null, data + (long) index(row) * Float.BYTES);
  }

  @Override
  public double getDouble(int row) {
    return Platform.getDouble(null, data + (long) index(row) * Double.BYTES);
  }
}
