package io.github.samsarrow.spark;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.unsafe.Platform;

/** Column of record headers: a list of key-value pairs per row, or null if the record has no headers. */
final class HeadersVector extends RawVector {
  private final Pairs pairs;
  private long offsets;

  HeadersVector(ArrayType type) {
    super(type);
    pairs = new Pairs(type.elementType());
  }

  @Override
  void attach(long slots, int rows) {
    super.attach(slots, rows);
    offsets = slot(slots, 1);
    pairs.attachAll(slots, offset(rows));
  }

  @Override
  void detach() {
    super.detach();
    pairs.detach();
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

  /** All header pairs of a batch. */
  private static final class Pairs extends RawVector {
    private final BytesVector keys = new BytesVector(DataTypes.StringType);
    private final BytesVector values = new BytesVector(DataTypes.BinaryType);

    Pairs(DataType type) {
      super(type);
    }

    void attachAll(long slots, int count) {
      setRows(count, 0, false);
      keys.setRows(count, 0, false);
      keys.setData(slot(slots, 2), slot(slots, 3));
      values.setRows(count, slot(slots, 4), false);
      values.setData(slot(slots, 5), slot(slots, 6));
    }

    @Override
    void detach() {
      super.detach();
      keys.detach();
      values.detach();
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      return ordinal == 0 ? keys : values;
    }
  }
}
