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
 * One range, batch after batch. The core owns the memory of a batch, until the next one; Spark may ask from another
 * thread than the task's, and close while it asks.
 */
final class Reader implements PartitionReader<ColumnarBatch> {
  /** {@code -Dsamsarrow.prefetch.bytes} on executors: the most that all readers of one may fetch ahead. */
  private static final String PREFETCH = "samsarrow.prefetch.bytes";

  private final KafkaRange range;
  private final TaskContext task;
  private final Client client;
  private final long handle;
  private final Frame frame;
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
    frame = new Frame(vectors);
    try {
      Map<String, Object> wanted = range.fields();
      wanted.put("columns", List.of(schema.fieldNames()));
      wanted.put("count_only", schema.isEmpty());
      wanted.put("vectors", vectors);
      wanted.put("types", Columns.types(schema, options.decoded()));
      wanted.put("found", Json.parse(options.found()));
      wanted.put("limit", limit);
      wanted.put("process", Long.getLong(PREFETCH));
      handle = client.open(wanted);
    } catch (RuntimeException | Error error) {
      frame.free();
      client.close();
      throw error;
    }
    if (task != null) {
      // Listeners run in reverse order: after Spark has set the bytes that it knows of, which are none.
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
      int rows = attempt(Waiting.MS);
      if (rows != 0) {
        return rows > 0;
      }
      Waiting.check(task, range);
    }
  }

  /** Whether a batch came within a time, of a range that has no end. */
  boolean next(long timeoutMs) throws IOException {
    long begun = System.nanoTime();
    while (true) {
      long left = timeoutMs - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
      int rows = attempt((int) Math.max(0, Math.min(left, Waiting.MS)));
      if (rows != 0 || left <= 0) {
        return rows > 0;
      }
      Waiting.check(task, range);
    }
  }

  /** Nothing more is wanted, and all went well: what the core has at hand for the partition is worth keeping. */
  synchronized void finish() {
    ended = true;
  }

  /** Rows of the next batch, 0 if there is none yet, -1 at the end. Who waits for too long, the core knows. */
  private synchronized int attempt(int ms) {
    if (ended) {
      return -1;
    }
    if (closed) {
      throw new IllegalStateException("the reader of " + range + " is closed");
    }
    int rows;
    try {
      rows = Native.next(handle, frame.address(), ms);
    } finally {
      Log.drain();
    }
    if (rows < 0) {
      ended = true;
    } else if (rows > 0) {
      long slots = frame.slots();
      for (RawVector column : columns) {
        column.point(slots, rows);
        slots += column.vectors() * Frame.VECTOR;
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
      column.leave();
    }
    try {
      counters = Native.counters(handle);
      Native.close(handle, ended);
    } finally {
      frame.free();
      client.close();
    }
  }
}
