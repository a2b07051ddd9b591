package io.github.samsarrow.spark;

import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Structs: a vector for each field, with as many rows. */
final class StructVector extends RawVector {
  private final RawVector[] fields;
  private final int vectors;

  StructVector(StructType type) {
    super(type);
    fields = new RawVector[type.size()];
    int count = 1;
    for (int i = 0; i < fields.length; i++) {
      fields[i] = of(type.fields()[i].dataType());
      count += fields[i].vectors();
    }
    vectors = count;
  }

  @Override
  int vectors() {
    return vectors;
  }

  @Override
  void point(long slots, int rows) {
    super.point(slots, rows);
    long at = slots + Frame.VECTOR;
    for (RawVector field : fields) {
      field.point(at, rows);
      at += field.vectors() * Frame.VECTOR;
    }
  }

  @Override
  void leave() {
    super.leave();
    for (RawVector field : fields) {
      field.leave();
    }
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return fields[ordinal];
  }
}
