package io.github.samsarrow.spark;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.unsafe.Platform;

/** Headers: a list of pairs for each row, null where there are none. */
final class HeadersVector extends RawVector {
  private final Pairs pairs;
  private long offsets;

  HeadersVector(ArrayType type) {
    super(type);
    pairs = new Pairs(type.elementType());
  }

  @Override
  void point(long slots, int rows) {
    super.point(slots, rows);
    offsets = slot(slots, 1);
    pairs.pointAll(slots, offset(rows));
  }

  @Override
  void leave() {
    super.leave();
    pairs.leave();
  }

  private int offset(int index) {
    return Platform.getInt(null, offsets + (long) index * Integer.BYTES);
  }

  @Override
  public ColumnarArray getArray(int row) {
    int at = index(row);
    int start = offset(at);
    int end = offset(at + 1);
    assert 0 <= start && start <= end && end <= offset(values())
        : "headers " + start + " to " + end + ", where there are " + offset(values());
    return new ColumnarArray(pairs, start, end - start);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return pairs;
  }

  /** All pairs of a batch. */
  private static final class Pairs extends RawVector {
    private final BytesVector keys = new BytesVector(DataTypes.StringType);
    private final BytesVector values = new BytesVector(DataTypes.BinaryType);

    Pairs(DataType type) {
      super(type);
    }

    void pointAll(long slots, int count) {
      cover(count, 0, false);
      keys.cover(count, 0, false);
      keys.lie(slot(slots, 2), slot(slots, 3));
      values.cover(count, slot(slots, 4), false);
      values.lie(slot(slots, 5), slot(slots, 6));
    }

    @Override
    void leave() {
      super.leave();
      keys.leave();
      values.leave();
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      return ordinal == 0 ? keys : values;
    }
  }
}
