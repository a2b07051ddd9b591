package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.StructType;

/** Builds a write that appends rows or, in a streaming query, writes the complete result or its updates. */
final class KafkaWriteBuilder implements SupportsTruncate, SupportsStreamingUpdateAsAppend {
  private final Options options;
  private final StructType schema;
  private final WriterSchemas writerSchemas;
  private boolean truncating;

  KafkaWriteBuilder(Options options, StructType schema, WriterSchemas writerSchemas) {
    this.options = options;
    this.schema = schema;
    this.writerSchemas = writerSchemas;
  }

  @Override
  public WriteBuilder truncate() {
    truncating = true;
    return this;
  }

  @Override
  public Write build() {
    return new KafkaWrite(options, schema, writerSchemas, truncating);
  }
}
