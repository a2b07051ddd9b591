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
 * Column in Arrow's layout, which is read from native memory. One vector serves all batches of a reader, as in Spark's
 * Parquet reader. Closing a vector does nothing, because the library owns the memory.
 *
 * <p>With {@code -ea:io.github.samsarrow...} each access is checked, and an access after the batch is an error.
 */
abstract class RawVector extends ColumnVector {
  /** Mask that converts row numbers to indexes: normally −1, but 0 if all rows share a single stored value. */
  private int indexMask = -1;

  private int rows;
  private long validity;

  RawVector(DataType type) {
    super(type);
  }

  /** Creates a vector for each column of a schema. */
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

  /** Creates a vector for a type, including nested vectors. */
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

  /** Returns the number of vectors for which the library writes slots: this vector, followed by its nested vectors. */
  int vectors() {
    return 1;
  }

  /** Reads the addresses of the next batch from its slots. */
  void attach(long slots, int rows) {
    setRows(rows, slot(slots, 0), slot(slots, 7) == 1);
  }

  final void setRows(int rows, long validity, boolean constant) {
    this.rows = rows;
    this.validity = validity;
    indexMask = constant ? 0 : -1;
  }

  /** Marks the memory as freed, so that assertions detect later accesses. */
  void detach() {
    rows = 0;
  }

  /** Returns the number of values of a nested vector, from its slots. */
  static int length(long slots) {
    return Math.toIntExact(slot(slots, 3));
  }

  static long slot(long slots, int number) {
    return Platform.getLong(null, slots + (long) number * ColumnLayout.SLOT);
  }

  /** Returns the index at which the value of a row is stored. */
  final int index(int row) {
    assert row >= 0 && row < rows : "row " + row + " of " + rows + " in a column of " + dataType().simpleString();
    return row & indexMask;
  }

  /** Returns the number of stored values, which is 1 if all rows share a single value. */
  final int values() {
    return (rows - 1 & indexMask) + 1;
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
    throw unsupported("int");
  }

  @Override
  public long getLong(int row) {
    throw unsupported("long");
  }

  @Override
  public UTF8String getUTF8String(int row) {
    throw unsupported("string");
  }

  @Override
  public byte[] getBinary(int row) {
    throw unsupported("binary");
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw unsupported("array");
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw unsupported("struct");
  }

  @Override
  public boolean getBoolean(int row) {
    throw unsupported("boolean");
  }

  @Override
  public byte getByte(int row) {
    throw unsupported("byte");
  }

  @Override
  public short getShort(int row) {
    throw unsupported("short");
  }

  @Override
  public float getFloat(int row) {
    throw unsupported("float");
  }

  @Override
  public double getDouble(int row) {
    throw unsupported("double");
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw unsupported("map");
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw unsupported("decimal");
  }

  private UnsupportedOperationException unsupported(String type) {
    return new UnsupportedOperationException("a column of " + dataType().simpleString() + " has no " + type);
  }
}
