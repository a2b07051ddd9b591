package io.github.samsarrow.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * A write, checked on the driver. By default rows are written at least once: all rows of a task are stored when the
 * task ends, but repeated tasks and micro-batches write duplicates. With exactlyOnce, tasks commit transactions and
 * skip rows that are already written. In both cases there is nothing to undo after an abort.
 */
final class KafkaWrite implements Write, BatchWrite, StreamingWrite {
  private final Options options;
  private final StructType schema;
  private final boolean truncating;
  private final List<String> columns = new ArrayList<>();
  private final boolean exactlyOnce;

  /**
   * Micro-batch that is written exactly once. {@code tasks} is its number of tasks, and {@code taskCountStored} is true
   * if this number is stored in Kafka.
   */
  private MicroBatch batch;

  private final WriterSchemas writerSchemas;

  private int tasks;
  private boolean taskCountStored;

  /**
   * Checks a write of one batch or query.
   *
   * @param truncating true if existing rows should be replaced, as in the mode overwrite and in the output mode
   *     complete
   */
  KafkaWrite(Options options, StructType schema, WriterSchemas writerSchemas, boolean truncating) {
    this.options = options;
    this.writerSchemas = writerSchemas;
    this.schema = schema;
    this.truncating = truncating;
    Map<String, Object> response = Client.send(options, newRequest("write", schema));
    for (Object column : (List<?>) response.get("columns")) {
      columns.add((String) column);
    }
    exactlyOnce = (Boolean) response.get("exactly_once");
  }

  /** Returns a request with the columns of the DataFrame. */
  static Map<String, Object> newRequest(String ask, StructType schema) {
    List<Object> columns = new ArrayList<>();
    for (StructField field : schema.fields()) {
      columns.add(List.of(field.name(), field.dataType().simpleString(), field.dataType().json()));
    }
    Map<String, Object> request = Client.newRequest(ask);
    request.put("columns", columns);
    return request;
  }

  @Override
  public String description() {
    return KafkaSource.NAME;
  }

  @Override
  public BatchWrite toBatch() {
    if (truncating) {
      throw SamsarrowException.configuration("a topic cannot be overwritten: write with .mode(\"append\")");
    }
    Map<String, Object> request = newRequest("write", schema);
    request.put("batch", true);
    Client.send(options, request);
    return this;
  }

  /**
   * Ignores {@code truncating}. In the output mode complete, each micro-batch writes the whole result again, as with
   * Spark's own connector.
   */
  @Override
  public StreamingWrite toStreaming() {
    return this;
  }

  /**
   * Spark calls this in the thread that runs the micro-batch, just before it starts the tasks. The new factory contains
   * the current delegation token and the schemas to write with, which may have changed.
   */
  @Override
  public WriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    String schemas = writerSchemas.resolve(options, schema);
    if (exactlyOnce) {
      batch = MicroBatch.current();
      tasks = info.numPartitions();
      taskCountStored = (Boolean) sendBatch("begin_write").get("noted");
    }
    return new WriterFactory(options.forTasks().withoutRegistryLogin(), schema, columns, schemas, batch);
  }

  private Map<String, Object> sendBatch(String ask) {
    Map<String, Object> request = newRequest(ask, schema);
    batch.addTo(request);
    request.put("tasks", tasks);
    return Client.send(options, request);
  }

  @Override
  public WriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    return createBatchWriterFactory(info);
  }

  /**
   * Returns false, because a coordinator would have no effect: a task stores its rows before it would request
   * permission to commit, and only one of several concurrent exactly-once attempts of a task can commit its
   * transaction.
   */
  @Override
  public boolean useCommitCoordinator() {
    return false;
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    if (exactlyOnce && !taskCountStored) {
      sendBatch("end_write");
    }
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {}

  @Override
  public void commit(long epoch, WriterCommitMessage[] messages) {
    commit(messages);
  }

  @Override
  public void abort(long epoch, WriterCommitMessage[] messages) {}
}
