package io.github.samsarrow.spark;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;

/** Writes the rows of one task: fills row buffers and passes them to the library. */
final class Writer implements DataWriter<InternalRow> {
  private static final long BUFFER_BYTES = 1 << 20;

  /**
   * Maximum number of bytes by which a row in the buffer exceeds Spark's row, because key, value and timestamp may have
   * a null marker each.
   */
  private static final long EXTRA_BYTES = 16;

  private final StructType schema;
  private final int[] ordinals;
  private final FieldWriter[] writers;
  private final TaskContext task;
  private final Client client;
  private final long handle;
  private RowBuffer buffer = new RowBuffer(0, 0);
  private UnsafeProjection projection;
  private boolean stored;
  private boolean closed;

  /**
   * Opens the writer of one task.
   *
   * @param columns columns to send, in order
   * @param request request to the library, which contains the columns and the task
   * @param task the task, or null
   */
  Writer(Options options, StructType schema, List<String> columns, Map<String, Object> request, TaskContext task) {
    this.schema = schema;
    this.task = task;
    ordinals = columns.stream().mapToInt(schema::fieldIndex).toArray();
    writers =
        columns.stream().map(name -> FieldWriter.of(name, schema.apply(name).dataType())).toArray(FieldWriter[]::new);
    client = new Client(options);
    try {
      handle = client.openWriter(request);
    } catch (RuntimeException | Error error) {
      client.close();
      throw error;
    }
  }

  @Override
  public void write(InternalRow row) throws IOException {
    UnsafeRow unsafeRow = row instanceof UnsafeRow unsafe ? unsafe : toUnsafeRow(row);
    long bytes = unsafeRow.getSizeInBytes() + EXTRA_BYTES;
    if (!buffer.hasCapacity(bytes)) {
      send();
      if (!buffer.hasCapacity(bytes)) {
        long size = Math.max(bytes, BUFFER_BYTES);
        buffer = new RowBuffer(Native.block(handle, size), size);
      }
    }
    for (int i = 0; i < writers.length; i++) {
      if (unsafeRow.isNullAt(ordinals[i])) {
        writers[i].putNull(buffer);
      } else {
        writers[i].put(unsafeRow, ordinals[i], buffer);
      }
    }
    buffer.endRow();
  }

  /** Converts a row of objects to an UnsafeRow, which most of Spark's operators produce anyway. */
  private UnsafeRow toUnsafeRow(InternalRow row) {
    if (projection == null) {
      projection = UnsafeProjection.create(schema);
    }
    return projection.apply(row);
  }

  private void send() throws IOException {
    if (buffer.rows() > 0) {
      Native.write(handle, buffer.length(), buffer.rows());
      await(false);
      buffer.clear();
    }
  }

  private void await(boolean all) throws IOException {
    try {
      while (!Native.sent(handle, all, KillCheck.MS)) {
        KillCheck.check(task, "brokers to take rows");
      }
    } finally {
      NativeLog.drain();
    }
  }

  /**
   * Waits until all rows are stored, and throws if this fails. The commit message is null because no message is needed.
   * Besides, the driver could not deserialize a class from a jar that was added to a session only, because Spark reads
   * task results with the application's class loader.
   */
  @Override
  public WriterCommitMessage commit() throws IOException {
    send();
    await(true);
    stored = true;
    return null;
  }

  /** Keeps the rows that are already sent. Unsent rows are dropped by {@link #close}, which Spark calls next. */
  @Override
  public void abort() {
    stored = false;
  }

  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    buffer = new RowBuffer(0, 0);
    try {
      Native.closeWriter(handle, stored);
    } finally {
      client.close();
    }
  }
}
