package io.github.samsarrow.spark;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads one partition in real-time mode, row by row. Spark decides when the batch ends. */
final class RealTimeReader implements SupportsRealTimeRead<InternalRow> {
  private static final String OFFSET = "offset";

  private final Reader batches;
  private final String topic;
  private final int partition;
  private final ColumnVector offsets;
  /** Rows with the columns that Spark requested; the offset column is always read. */
  private final ColumnarBatch rows;

  private int row = -1;
  private long next;

  RealTimeReader(Options options, StructType schema, KafkaRange range, TaskContext task) {
    Map<String, Object> from = range.fields();
    topic = (String) from.get("topic");
    partition = Math.toIntExact((Long) from.get("partition"));
    next = (Long) from.get("start");
    boolean hasOffset = List.of(schema.fieldNames()).contains(OFFSET);
    StructType read = hasOffset ? schema : schema.add(OFFSET, DataTypes.LongType);
    batches = new Reader(options, read, null, range, task);
    ColumnarBatch all = batches.get();
    offsets = all.column(read.fieldIndex(OFFSET));
    ColumnVector[] columns = new ColumnVector[schema.size()];
    Arrays.setAll(columns, all::column);
    rows = new ColumnarBatch(columns);
  }

  /** Not supported, because without a timeout the batch would never end. */
  @Override
  public boolean next() {
    throw new UnsupportedOperationException("real-time mode reads rows with a timeout");
  }

  /** Spark 4.1 calls this method instead of the method with two arguments. */
  @Override
  public RecordStatus nextWithTimeout(Long timeoutMs) throws IOException {
    return RecordStatus.newStatusWithoutArrivalTime(nextWithin(timeoutMs));
  }

  @Override
  public RecordStatus nextWithTimeout(Long nowMs, Long timeoutMs) throws IOException {
    return nextWithTimeout(timeoutMs);
  }

  private boolean nextWithin(long timeoutMs) throws IOException {
    if (row + 1 >= rows.numRows()) {
      row = -1;
      rows.setNumRows(0);
      if (!batches.next(timeoutMs)) {
        return false;
      }
      rows.setNumRows(batches.get().numRows());
    }
    row++;
    next = offsets.getLong(row) + 1;
    return true;
  }

  @Override
  public InternalRow get() {
    return rows.getRow(row);
  }

  /** Returns the next offset to read. Spark calls this once, at the end of the batch. */
  @Override
  public PartitionOffset getOffset() {
    batches.finish();
    return new KafkaPartitionOffset(topic, partition, next);
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return batches.currentMetricsValues();
  }

  @Override
  public void close() {
    batches.close();
  }
}
