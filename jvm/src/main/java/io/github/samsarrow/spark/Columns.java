package io.github.samsarrow.spark;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The columns of Spark's own connector, in its order and with its types. */
final class Columns {
  static final DataType HEADER =
      new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType);
  private static final Map<String, DataType> TYPES =
      Map.of(
          "binary", DataTypes.BinaryType,
          "string", DataTypes.StringType,
          "int", DataTypes.IntegerType,
          "long", DataTypes.LongType,
          "timestamp", DataTypes.TimestampType,
          "headers", DataTypes.createArrayType(HEADER));
  private static final StructType ALL =
      new StructType()
          .add("key", DataTypes.BinaryType)
          .add("value", DataTypes.BinaryType)
          .add("topic", DataTypes.StringType)
          .add("partition", DataTypes.IntegerType)
          .add("offset", DataTypes.LongType)
          .add("timestamp", DataTypes.TimestampType)
          .add("timestampType", DataTypes.IntegerType)
          .add("headers", TYPES.get("headers"));

  private Columns() {}

  /** The columns that the options ask for, which are checked. */
  static StructType of(Options options) {
    StructType schema = new StructType();
    for (Object one : (List<?>) Client.ask(options, Client.question("schema")).get("columns")) {
      Map<?, ?> column = (Map<?, ?>) one;
      schema = schema.add((String) column.get("name"), TYPES.get((String) column.get("type")));
    }
    return schema;
  }

  /**
   * What {@code .schema(...)} asks for: a choice of the columns in any order, key and value as binary or string.
   *
   * @throws SamsarrowException a column does not exist, is named twice or has another type
   */
  static StructType chosen(StructType wanted) {
    Map<String, StructField> chosen = new LinkedHashMap<>();
    for (StructField field : wanted.fields()) {
      boolean text =
          (field.name().equals("key") || field.name().equals("value"))
              && field.dataType().equals(DataTypes.StringType);
      DataType type = text ? DataTypes.StringType : typeOf(field.name());
      if (type == null || !type.catalogString().equals(field.dataType().catalogString())) {
        throw SamsarrowException.configuration(
            String.format(
                "column %s %s cannot be read: this source has %s, of which .schema(...) may choose, key and value as "
                    + "binary or string; cast other columns in the DataFrame",
                field.name(), field.dataType().simpleString(), ALL.simpleString()));
      }
      chosen.put(field.name(), new StructField(field.name(), type, true, field.metadata()));
    }
    if (chosen.isEmpty() || chosen.size() < wanted.size()) {
      throw SamsarrowException.configuration(
          "a schema needs columns, each exactly once, not " + wanted.simpleString());
    }
    return new StructType(chosen.values().toArray(new StructField[0]));
  }

  private static DataType typeOf(String name) {
    return List.of(ALL.fieldNames()).contains(name) ? ALL.apply(name).dataType() : null;
  }

  /** The columns of {@code part} with their whole types: Spark prunes inside of headers too, which nobody can. */
  static StructType restored(StructType part, StructType whole) {
    StructType restored = new StructType();
    for (String name : part.fieldNames()) {
      restored = restored.add(whole.apply(name));
    }
    return restored;
  }
}
