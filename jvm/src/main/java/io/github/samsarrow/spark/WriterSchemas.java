package io.github.samsarrow.spark;

import java.util.Map;
import org.apache.spark.sql.types.StructType;

/**
 * Schemas that keys and values are written with. Spark creates a write for each micro-batch, but keeps the table, which
 * has this object, so that a registered schema is registered once.
 */
final class WriterSchemas {
  private Options options;
  private String json = "{}";

  /**
   * Returns the schemas to write with, in the library's JSON. Those of an earlier micro-batch serve again only if the
   * options are the same, because ids are valid in one registry.
   */
  synchronized String resolve(Options options, StructType schema) {
    if (!options.encodes()) {
      return "{}";
    }
    Map<String, Object> request = KafkaWrite.newRequest("write_schemas", schema);
    request.put("schemas", Json.parse(options.isSame(this.options) ? json : "{}"));
    json = Json.text(Client.send(options, request).get("schemas"));
    this.options = options;
    return json;
  }
}
