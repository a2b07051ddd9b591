package io.github.samsarrow.spark;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.unsafe.Platform;

/** Column of lists: an array of offsets into one vector with the items of all rows. */
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
  void attach(long slots, int rows) {
    super.attach(slots, rows);
    offsets = slot(slots, 1);
    long nested = slots + ColumnLayout.VECTOR;
    items.attach(nested, length(nested));
  }

  @Override
  void detach() {
    super.detach();
    items.detach();
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
