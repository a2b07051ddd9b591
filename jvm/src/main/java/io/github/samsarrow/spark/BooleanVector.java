package io.github.samsarrow.spark;

import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.Platform;

/** Column of booleans. Each boolean takes one bit, starting with the least significant bit of a byte. */
final class BooleanVector extends RawVector {
  private long data;

  BooleanVector() {
    super(DataTypes.BooleanType);
  }

  @Override
  void attach(long slots, int rows) {
    super.attach(slots, rows);
    data = slot(slots, 2);
  }

  @Override
  public boolean getBoolean(int row) {
    int at = index(row);
    return (Platform.getByte(null, data + (at >> 3)) >> (at & 7) & 1) != 0;
  }
}
