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
 * One write, checked on the driver. At least once: rows of a task are stored when it ends, and those of a task or
 * micro-batch that Spark repeats are there again. Or exactly once, where tasks commit by themselves, and find out what is
 * there already. So there is nothing to take back.
 */
final class KafkaWrite implements Write, BatchWrite, StreamingWrite {
  private final Options options;
  private final StructType schema;
  private final boolean truncating;
  private final List<String> columns = new ArrayList<>();
  private final boolean exactlyOnce;

  /** That is written exactly once, by so many tasks; whether this is noted. */
  private MicroBatch batch;

  private int tasks;
  private boolean noted;

  /**
   * For one batch or query.
   *
   * @param truncating whether what is there is to go: the mode overwrite, or the output mode complete
   */
  KafkaWrite(Options options, StructType schema, boolean truncating) {
    this.options = options;
    this.schema = schema;
    this.truncating = truncating;
    Map<String, Object> answer = Client.ask(options, question("write", schema));
    for (Object column : (List<?>) answer.get("columns")) {
      columns.add((String) column);
    }
    exactlyOnce = (Boolean) answer.get("exactly_once");
  }

  /** A question about the columns that there are. */
  static Map<String, Object> question(String ask, StructType schema) {
    List<Object> columns = new ArrayList<>();
    for (StructField field : schema.fields()) {
      columns.add(List.of(field.name(), field.dataType().simpleString()));
    }
    Map<String, Object> question = Client.question(ask);
    question.put("columns", columns);
    return question;
  }

  @Override
  public String description() {
    return Source.NAME;
  }

  @Override
  public BatchWrite toBatch() {
    if (truncating) {
      throw SamsarrowException.configuration("a topic cannot be overwritten: write with .mode(\"append\")");
    }
    Map<String, Object> question = question("write", schema);
    question.put("batch", true);
    Client.ask(options, question);
    return this;
  }

  /** A topic gets the whole result each time in the output mode complete, as with Spark's own connector. */
  @Override
  public StreamingWrite toStreaming() {
    return this;
  }

  /**
   * Spark calls this in the thread that runs the micro-batch, just before its tasks: what they log in with may be
   * another than the last time.
   */
  @Override
  public WriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    if (exactlyOnce) {
      batch = MicroBatch.here();
      tasks = info.numPartitions();
      noted = (Boolean) ask("begin_write").get("noted");
    }
    return new WriterFactory(options.forTasks(), schema, columns, batch);
  }

  private Map<String, Object> ask(String about) {
    Map<String, Object> question = question(about, schema);
    batch.addTo(question);
    question.put("tasks", tasks);
    return Client.ask(options, question);
  }

  @Override
  public WriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    return createBatchWriterFactory(info);
  }

  /** Rows are stored before a task asks whether it may commit; of attempts at the same time one alone can commit. */
  @Override
  public boolean useCommitCoordinator() {
    return false;
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    if (exactlyOnce && !noted) {
      ask("end_write");
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
