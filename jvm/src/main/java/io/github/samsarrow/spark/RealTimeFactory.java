package io.github.samsarrow.spark;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;

/** Creates the readers of tasks in real-time mode, which read row by row. */
final class RealTimeFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1;

  private final Options options;
  private final StructType schema;

  RealTimeFactory(Options options, StructType schema) {
    this.options = options;
    this.schema = schema;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new RealTimeReader(options, schema, (KafkaRange) partition, TaskContext.get());
  }
}
