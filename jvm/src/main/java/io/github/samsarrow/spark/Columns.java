package io.github.samsarrow.spark;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Columns of a read. They have the order and types of Spark's own connector, except that keys and values may be decoded
 * to other types.
 */
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
   * Columns of a read, and the registry schemas that they were derived from.
   *
   * @param registrySchemas schemas from the registry that determine the types of keys and values, as the library's JSON
   */
  record ReadSchema(StructType schema, String registrySchemas) {}

  /**
   * Validates the options and returns the columns of the read.
   *
   * @param chosen types that {@code .schema(...)} sets for typed keys and values
   */
  static ReadSchema resolve(Options options, Map<String, Object> chosen) {
    Map<String, Object> request = Client.newRequest("schema");
    request.put("chosen", chosen);
    Map<String, Object> response = Client.send(options, request);
    StructType schema = new StructType();
    for (Object element : (List<?>) response.get("columns")) {
      Map<?, ?> column = (Map<?, ?>) element;
      String type = (String) column.get("type");
      schema = schema.add((String) column.get("name"), TYPES.containsKey(type) ? TYPES.get(type) : DataType.fromJson(type));
    }
    return new ReadSchema(schema, Json.text(response.get("found")));
  }

  /** Returns the types of the decoded columns by name, in Spark's JSON. */
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
   * Returns the columns that {@code .schema(...)} selects, in any order. The columns key and value may be binary or
   * string.
   *
   * @param decoded columns whose types the library checks
   * @throws SamsarrowException if a column does not exist, is named twice or has another type
   */
  static StructType select(StructType requested, Set<String> decoded) {
    Map<String, StructField> selected = new LinkedHashMap<>();
    for (StructField field : requested.fields()) {
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
      selected.put(field.name(), new StructField(field.name(), type, true, field.metadata()));
    }
    if (selected.isEmpty() || selected.size() < requested.size()) {
      throw SamsarrowException.configuration(
          "a schema needs columns, each exactly once, not " + requested.simpleString());
    }
    return new StructType(selected.values().toArray(new StructField[0]));
  }

  private static DataType typeOf(String name) {
    return List.of(ALL.fieldNames()).contains(name) ? ALL.apply(name).dataType() : null;
  }

  /** Restores the full types of columns whose fields must not be pruned. Spark prunes the fields of all structs. */
  static StructType restoreStructs(StructType pruned, StructType full, Options options) {
    StructType restored = new StructType();
    for (StructField field : pruned.fields()) {
      restored = restored.add(options.canPruneFields(field.name()) ? field : full.apply(field.name()));
    }
    return restored;
  }
}
