package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;

/** What a write can be: appended, or in streams the whole result, or what changed of it. */
final class WriteBuild implements SupportsTruncate, SupportsStreamingUpdateAsAppend {
  private final LogicalWriteInfo info;
  private boolean truncating;

  WriteBuild(LogicalWriteInfo info) {
    this.info = info;
  }

  @Override
  public WriteBuilder truncate() {
    truncating = true;
    return this;
  }

  @Override
  public Write build() {
    return new KafkaWrite(new Options(info.options()), info.schema(), truncating);
  }
}
