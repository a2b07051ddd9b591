package io.github.samsarrow.spark;

import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;

/** Column of maps: an array of offsets into the vectors with the keys and values of all rows. */
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
  void attach(long slots, int rows) {
    super.attach(slots, rows);
    offsets = slot(slots, 1);
    long nested = slots + ColumnLayout.VECTOR;
    keys.attach(nested, length(nested));
    nested += keys.vectors() * ColumnLayout.VECTOR;
    values.attach(nested, length(nested));
  }

  @Override
  void detach() {
    super.detach();
    keys.detach();
    values.detach();
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
