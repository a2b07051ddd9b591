package io.github.samsarrow.spark;

import java.util.List;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.types.StructType;

/** Creates the writers of tasks. */
final class WriterFactory implements DataWriterFactory, StreamingDataWriterFactory {
  private static final long serialVersionUID = 1;

  private final Options options;
  private final StructType schema;
  private final List<String> columns;
  private final String schemas;
  private final MicroBatch batch;

  /**
   * Creates the factory of one write.
   *
   * @param columns columns to send, in order
   * @param schemas schemas that keys and values are written with, in the library's JSON
   * @param batch micro-batch that is written exactly once, or null
   */
  WriterFactory(Options options, StructType schema, List<String> columns, String schemas, MicroBatch batch) {
    this.options = options;
    this.schema = schema;
    this.columns = columns;
    this.schemas = schemas;
    this.batch = batch;
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partition, long task) {
    Map<String, Object> request = KafkaWrite.newRequest("write_task", schema);
    request.put("schemas", Json.parse(schemas));
    request.put("partition", partition);
    if (batch != null) {
      batch.addTo(request);
      request.put("task", partition);
    }
    return new Writer(options, schema, columns, request, TaskContext.get());
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
    return createWriter(partition, task);
  }
}
