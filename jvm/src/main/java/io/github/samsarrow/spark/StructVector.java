package io.github.samsarrow.spark;

import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Column of structs: a vector for each field, each with the same number of rows. */
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
  void attach(long slots, int rows) {
    super.attach(slots, rows);
    long at = slots + ColumnLayout.VECTOR;
    for (RawVector field : fields) {
      field.attach(at, rows);
      at += field.vectors() * ColumnLayout.VECTOR;
    }
  }

  @Override
  void detach() {
    super.detach();
    for (RawVector field : fields) {
      field.detach();
    }
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return fields[ordinal];
  }
}
