package io.github.samsarrow.spark;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column in Arrow's layout, read by address. One vector serves all batches of a reader, as Parquet's do. The core
 * owns the memory: closing a vector does nothing.
 *
 * <p>With {@code -ea:io.github.samsarrow...} each access is checked, and a late one is an error.
 */
abstract class RawVector extends ColumnVector {
  /** All bits, or none where one value stands for all rows. */
  private int every = -1;

  private int rows;
  private long validity;

  RawVector(DataType type) {
    super(type);
  }

  /** A vector for each column of a schema. */
  static RawVector[] of(StructType schema) {
    RawVector[] columns = new RawVector[schema.size()];
    for (int i = 0; i < columns.length; i++) {
      StructField field = schema.fields()[i];
      columns[i] =
          field.name().equals(Columns.HEADERS)
              ? new HeadersVector((ArrayType) field.dataType())
              : of(field.dataType());
    }
    return columns;
  }

  /** A vector of a type, with those within it. */
  static RawVector of(DataType type) {
    if (type instanceof StructType struct) {
      return new StructVector(struct);
    }
    if (type instanceof ArrayType list) {
      return new ListVector(list);
    }
    if (type instanceof MapType map) {
      return new MapVector(map);
    }
    if (type instanceof DecimalType decimal) {
      return new DecimalVector(decimal);
    }
    if (type.equals(DataTypes.BooleanType)) {
      return new BooleanVector();
    }
    return type.equals(DataTypes.BinaryType) || type.equals(DataTypes.StringType)
        ? new BytesVector(type)
        : new NumberVector(type);
  }

  /** How many vectors the core writes about: this one, and those within it, which follow it. */
  int vectors() {
    return 1;
  }

  /** Takes over what the core wrote about the column of the next batch. */
  void point(long slots, int rows) {
    cover(rows, slot(slots, 0), slot(slots, 7) == 1);
  }

  final void cover(int rows, long validity, boolean constant) {
    this.rows = rows;
    this.validity = validity;
    every = constant ? 0 : -1;
  }

  /** The memory is not ours any more. */
  void leave() {
    rows = 0;
  }

  /** How many values a vector within another one has. */
  static int length(long slots) {
    return Math.toIntExact(slot(slots, 3));
  }

  static long slot(long slots, int number) {
    return Platform.getLong(null, slots + (long) number * Frame.SLOT);
  }

  /** Where the value of a row is. */
  final int index(int row) {
    assert row >= 0 && row < rows : "row " + row + " of " + rows + " in a column of " + dataType().simpleString();
    return row & every;
  }

  /** How many values there are: one, where it stands for all rows. */
  final int values() {
    return (rows - 1 & every) + 1;
  }

  @Override
  public final void close() {}

  @Override
  public final void closeIfFreeable() {}

  @Override
  public final boolean hasNull() {
    return validity != 0;
  }

  @Override
  public final int numNulls() {
    int nulls = 0;
    for (int row = 0; validity != 0 && row < rows; row++) {
      nulls += isNullAt(row) ? 1 : 0;
    }
    return nulls;
  }

  @Override
  public final boolean isNullAt(int row) {
    int at = index(row);
    return validity != 0 && (Platform.getByte(null, validity + (at >> 3)) >> (at & 7) & 1) == 0;
  }

  @Override
  public int getInt(int row) {
    throw other("int");
  }

  @Override
  public long getLong(int row) {
    throw other("long");
  }

  @Override
  public UTF8String getUTF8String(int row) {
    throw other("string");
  }

  @Override
  public byte[] getBinary(int row) {
    throw other("binary");
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw other("array");
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw other("struct");
  }

  @Override
  public boolean getBoolean(int row) {
    throw other("boolean");
  }

  @Override
  public byte getByte(int row) {
    throw other("byte");
  }

  @Override
  public short getShort(int row) {
    throw other("short");
  }

  @Override
  public float getFloat(int row) {
    throw other("float");
  }

  @Override
  public double getDouble(int row) {
    throw other("double");
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw other("map");
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw other("decimal");
  }

  private UnsupportedOperationException other(String asked) {
    return new UnsupportedOperationException("a column of " + dataType().simpleString() + " has no " + asked);
  }
}
