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

/** One task's rows: into a block, and block after block to the core, which sends them. */
final class Writer implements DataWriter<InternalRow> {
  private static final long BLOCK_BYTES = 1 << 20;

  /** What a row may take in a block beyond what it takes in Spark: there a timestamp has no mark that it is there. */
  private static final long BEYOND = 8;

  private final StructType schema;
  private final int[] ordinals;
  private final Cell[] cells;
  private final TaskContext task;
  private final Client client;
  private final long handle;
  private Block block = new Block(0, 0);
  private UnsafeProjection projection;
  private boolean stored;
  private boolean closed;

  /**
   * For one task.
   *
   * @param columns that are sent, in their order
   * @param question to the core, which names them and the task
   * @param task that writes, or null
   */
  Writer(Options options, StructType schema, List<String> columns, Map<String, Object> question, TaskContext task) {
    this.schema = schema;
    this.task = task;
    ordinals = columns.stream().mapToInt(schema::fieldIndex).toArray();
    cells = columns.stream().map(Cell::of).toArray(Cell[]::new);
    client = new Client(options);
    try {
      handle = client.openWriter(question);
    } catch (RuntimeException | Error error) {
      client.close();
      throw error;
    }
  }

  @Override
  public void write(InternalRow given) throws IOException {
    UnsafeRow row = given instanceof UnsafeRow same ? same : projected(given);
    long bytes = row.getSizeInBytes() + BEYOND;
    if (!block.hasRoom(bytes)) {
      send();
      if (!block.hasRoom(bytes)) {
        long size = Math.max(bytes, BLOCK_BYTES);
        block = new Block(Native.block(handle, size), size);
      }
    }
    for (int i = 0; i < cells.length; i++) {
      if (row.isNullAt(ordinals[i])) {
        cells[i].putNull(block);
      } else {
        cells[i].put(row, ordinals[i], block);
      }
    }
    block.rowDone();
  }

  /** Most operators of Spark give rows of bytes; some give objects. */
  private UnsafeRow projected(InternalRow row) {
    if (projection == null) {
      projection = UnsafeProjection.create(schema);
    }
    return projection.apply(row);
  }

  private void send() throws IOException {
    if (block.rows() > 0) {
      Native.write(handle, block.length(), block.rows());
      await(false);
      block.clear();
    }
  }

  private void await(boolean all) throws IOException {
    try {
      while (!Native.sent(handle, all, Waiting.MS)) {
        Waiting.check(task, "brokers to take rows");
      }
    } finally {
      Log.drain();
    }
  }

  /**
   * All rows are stored then, or the task fails. The driver needs no message to know, and could not read one of a class
   * of ours where the jar is only a session's: Spark reads results of tasks with the application's class loader.
   */
  @Override
  public WriterCommitMessage commit() throws IOException {
    send();
    await(true);
    stored = true;
    return null;
  }

  /** What was sent stays; what was not is dropped by {@link #close}, which Spark calls next. */
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
    block = new Block(0, 0);
    try {
      Native.closeWriter(handle, stored);
    } finally {
      client.close();
    }
  }
}
