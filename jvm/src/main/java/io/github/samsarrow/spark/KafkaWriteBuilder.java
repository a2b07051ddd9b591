package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.StructType;

/** What a write can be: appended, or in streams the whole result, or what changed of it. */
final class WriteBuild implements SupportsTruncate, SupportsStreamingUpdateAsAppend {
  private final Options options;
  private final StructType schema;
  private boolean truncating;

  WriteBuild(Options options, StructType schema) {
    this.options = options;
    this.schema = schema;
  }

  @Override
  public WriteBuilder truncate() {
    truncating = true;
    return this;
  }

  @Override
  public Write build() {
    return new KafkaWrite(options, schema, truncating);
  }
}
