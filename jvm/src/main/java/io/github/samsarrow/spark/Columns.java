package io.github.samsarrow.spark;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The columns of Spark's own connector, in its order and with its types; and those that are decoded. */
final class Columns {
  static final String HEADERS = "headers";
  static final DataType HEADER =
      new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType);
  private static final Map<String, DataType> TYPES =
      Map.of(
          "binary", DataTypes.BinaryType,
          "string", DataTypes.StringType,
          "int", DataTypes.IntegerType,
          "long", DataTypes.LongType,
          "timestamp", DataTypes.TimestampType,
          HEADERS, DataTypes.createArrayType(HEADER));
  private static final StructType ALL =
      new StructType()
          .add("key", DataTypes.BinaryType)
          .add("value", DataTypes.BinaryType)
          .add("topic", DataTypes.StringType)
          .add("partition", DataTypes.IntegerType)
          .add("offset", DataTypes.LongType)
          .add("timestamp", DataTypes.TimestampType)
          .add("timestampType", DataTypes.IntegerType)
          .add(HEADERS, TYPES.get(HEADERS));

  private Columns() {}

  /**
   * The columns of a read.
   *
   * @param schema with their types
   * @param found what a registry said that keys and values look like, in the words of the core
   */
  record Asked(StructType schema, String found) {}

  /**
   * The columns that the options ask for, which are checked.
   *
   * @param chosen types that {@code .schema(...)} gives to columns that are decoded
   */
  static Asked ask(Options options, Map<String, Object> chosen) {
    Map<String, Object> question = Client.question("schema");
    question.put("chosen", chosen);
    Map<String, Object> answer = Client.ask(options, question);
    StructType schema = new StructType();
    for (Object one : (List<?>) answer.get("columns")) {
      Map<?, ?> column = (Map<?, ?>) one;
      String type = (String) column.get("type");
      schema = schema.add((String) column.get("name"), TYPES.containsKey(type) ? TYPES.get(type) : DataType.fromJson(type));
    }
    return new Asked(schema, Json.text(answer.get("found")));
  }

  /** Of columns that are decoded their types, as Spark writes them. */
  static Map<String, Object> types(StructType schema, Set<String> decoded) {
    Map<String, Object> types = new LinkedHashMap<>();
    for (StructField field : schema.fields()) {
      if (decoded.contains(field.name())) {
        types.put(field.name(), field.dataType().json());
      }
    }
    return types;
  }

  /**
   * What {@code .schema(...)} asks for: a choice of the columns in any order, key and value as binary or string.
   *
   * @param decoded columns whose types the core looks at
   * @throws SamsarrowException a column does not exist, is named twice or has another type
   */
  static StructType chosen(StructType wanted, Set<String> decoded) {
    Map<String, StructField> chosen = new LinkedHashMap<>();
    for (StructField field : wanted.fields()) {
      boolean text =
          (field.name().equals("key") || field.name().equals("value"))
              && field.dataType().equals(DataTypes.StringType);
      DataType type = text ? DataTypes.StringType : typeOf(field.name());
      if (decoded.contains(field.name())) {
        type = field.dataType();
      }
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

  /** The columns of {@code part} with their whole types: Spark prunes inside of those too of which nobody can. */
  static StructType restored(StructType part, StructType whole, Options options) {
    StructType restored = new StructType();
    for (StructField field : part.fields()) {
      restored = restored.add(options.prunes(field.name()) ? field : whole.apply(field.name()));
    }
    return restored;
  }
}
