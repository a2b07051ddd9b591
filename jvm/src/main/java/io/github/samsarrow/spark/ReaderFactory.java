package io.github.samsarrow.spark;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Creates the readers of tasks, which return columnar batches or rows of these batches. */
final class ReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1;

  private final Options options;
  private final StructType schema;
  private final boolean columnar;
  private final Integer limit;

  /**
   * Creates the factory of one read.
   *
   * @param limit maximum number of rows of each task, or null
   */
  ReaderFactory(Options options, StructType schema, boolean columnar, Integer limit) {
    this.options = options;
    this.schema = schema;
    this.columnar = columnar;
    this.limit = limit;
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return columnar;
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new Reader(options, schema, limit, (KafkaRange) partition, TaskContext.get());
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new RowReader(new Reader(options, schema, limit, (KafkaRange) partition, TaskContext.get()));
  }
}
