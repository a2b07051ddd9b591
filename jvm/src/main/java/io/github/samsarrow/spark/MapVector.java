package io.github.samsarrow.spark;

import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;

/** Maps: offsets into the keys and the values of all rows. */
final class MapVector extends RawVector {
  private final RawVector keys;
  private final RawVector values;
  private long offsets;

  MapVector(MapType type) {
    super(type);
    keys = of(type.keyType());
    values = of(type.valueType());
  }

  @Override
  int vectors() {
    return 1 + keys.vectors() + values.vectors();
  }

  @Override
  void point(long slots, int rows) {
    super.point(slots, rows);
    offsets = slot(slots, 1);
    long within = slots + Frame.VECTOR;
    keys.point(within, length(within));
    within += keys.vectors() * Frame.VECTOR;
    values.point(within, length(within));
  }

  @Override
  void leave() {
    super.leave();
    keys.leave();
    values.leave();
  }

  private int offset(int index) {
    return Platform.getInt(null, offsets + (long) index * Integer.BYTES);
  }

  @Override
  public ColumnarMap getMap(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int at = index(row);
    int start = offset(at);
    return new ColumnarMap(keys, values, start, offset(at + 1) - start);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return ordinal == 0 ? keys : values;
  }
}
