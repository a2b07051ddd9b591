package io.github.samsarrow.spark;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.unsafe.Platform;

/** Lists: offsets into the items of all rows. */
final class ListVector extends RawVector {
  private final RawVector items;
  private long offsets;

  ListVector(ArrayType type) {
    super(type);
    items = of(type.elementType());
  }

  @Override
  int vectors() {
    return 1 + items.vectors();
  }

  @Override
  void point(long slots, int rows) {
    super.point(slots, rows);
    offsets = slot(slots, 1);
    long within = slots + Frame.VECTOR;
    items.point(within, length(within));
  }

  @Override
  void leave() {
    super.leave();
    items.leave();
  }

  private int offset(int index) {
    return Platform.getInt(null, offsets + (long) index * Integer.BYTES);
  }

  @Override
  public ColumnarArray getArray(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int at = index(row);
    int start = offset(at);
    return new ColumnarArray(items, start, offset(at + 1) - start);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return items;
  }
}
