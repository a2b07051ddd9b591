package io.github.samsarrow.spark;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Columnar reader of one range. The memory of a batch belongs to the library, and is valid until the next batch is
 * requested. Spark may call {@code next} from a thread other than the task's, and {@code close} during such a call.
 */
final class Reader implements PartitionReader<ColumnarBatch> {
  /**
   * {@code -Dsamsarrow.prefetch.bytes} on executors: maximum number of bytes that all readers of an executor may
   * prefetch.
   */
  private static final String PREFETCH = "samsarrow.prefetch.bytes";

  private final KafkaRange range;
  private final TaskContext task;
  private final Client client;
  private final long handle;
  private final ColumnLayout layout;
  private final RawVector[] columns;
  private final ColumnarBatch batch;
  private long[] counters = new long[Metrics.COUNT];
  private boolean ended;
  private boolean closed;

  Reader(Options options, StructType schema, Integer limit, KafkaRange range, TaskContext task) {
    this.range = range;
    this.task = task;
    columns = RawVector.of(schema);
    batch = new ColumnarBatch(columns);
    client = new Client(options);
    int vectors = Arrays.stream(columns).mapToInt(RawVector::vectors).sum();
    layout = new ColumnLayout(vectors);
    try {
      Map<String, Object> request = range.fields();
      request.put("columns", List.of(schema.fieldNames()));
      request.put("count_only", schema.isEmpty());
      request.put("vectors", vectors);
      request.put("types", options.types(schema));
      request.put("found", Json.parse(options.registrySchemas()));
      request.put("limit", limit);
      request.put("process", Long.getLong(PREFETCH));
      handle = client.open(request);
    } catch (RuntimeException | Error error) {
      layout.free();
      client.close();
      throw error;
    }
    if (task != null) {
      // Spark's own listener sets the bytes read to 0. Listeners run in reverse order, so this listener runs after
      // Spark's listener.
      task.addTaskCompletionListener((TaskCompletionListener) this::completed);
    }
  }

  private void completed(TaskContext context) {
    close();
    context.taskMetrics().inputMetrics().incBytesRead(counters[Metrics.FETCHED_BYTES]);
  }

  @Override
  public boolean next() throws IOException {
    while (true) {
      int rows = poll(KillCheck.MS);
      if (rows != 0) {
        return rows > 0;
      }
      KillCheck.check(task, range);
    }
  }

  /** Returns true if a batch arrived within the timeout. Used for ranges without an end. */
  boolean next(long timeoutMs) throws IOException {
    long begun = System.nanoTime();
    while (true) {
      long remaining = timeoutMs - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
      int rows = poll((int) Math.max(0, Math.min(remaining, KillCheck.MS)));
      if (rows != 0 || remaining <= 0) {
        return rows > 0;
      }
      KillCheck.check(task, range);
    }
  }

  /** Marks the range as read to its end, so that the library keeps the partition's consumer for the next task. */
  synchronized void finish() {
    ended = true;
  }

  /**
   * Returns the number of rows in the next batch, 0 if no batch has arrived, or -1 at the end of the range. The library
   * enforces the poll timeout.
   */
  private synchronized int poll(int ms) {
    if (ended) {
      return -1;
    }
    if (closed) {
      throw new IllegalStateException("the reader of " + range + " is closed");
    }
    int rows;
    try {
      rows = Native.next(handle, layout.address(), ms);
    } finally {
      NativeLog.drain();
    }
    if (rows < 0) {
      ended = true;
    } else if (rows > 0) {
      long slots = layout.slots();
      for (RawVector column : columns) {
        column.attach(slots, rows);
        slots += column.vectors() * ColumnLayout.VECTOR;
      }
      batch.setNumRows(rows);
    }
    return rows;
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return Metrics.values(currentCounters());
  }

  private synchronized long[] currentCounters() {
    if (!closed) {
      counters = Native.counters(handle);
    }
    return counters;
  }

  @Override
  public synchronized void close() {
    if (closed) {
      return;
    }
    closed = true;
    for (RawVector column : columns) {
      column.detach();
    }
    try {
      counters = Native.counters(handle);
      Native.close(handle, ended);
    } finally {
      layout.free();
      client.close();
    }
  }
}
