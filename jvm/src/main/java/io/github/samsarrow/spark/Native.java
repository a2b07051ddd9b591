package io.github.samsarrow.spark;

/**
 * The core's entries. Handles are a slot and a generation: a stale one raises. Every entry raises
 * {@link SamsarrowException}; JSON is UTF-8.
 */
final class Native {
  private Native() {}

  /** A client with these options, as {@link Options#json} writes them; equal ones share one, counted. */
  static native long client(byte[] options);

  /** Begins a request for the answer to a question of the driver's, which is JSON. */
  static native long plan(long client, byte[] question);

  /**
   * Waits for an answer for at most {@code ms}.
   *
   * @return it, as JSON, or null if there is none yet
   */
  static native byte[] answer(long request, int ms);

  /** Ends a request, answered or not. */
  static native void cancel(long request);

  /** A reader of one offset range. */
  static native long open(long client, byte[] range);

  /**
   * Waits for rows for at most {@code ms} and writes into {@code frame} where they are, until the reader's next call.
   *
   * @return the number of rows, 0 if there are none yet, -1 at the end of the range
   */
  static native int next(long reader, long frame, int ms);

  /** Ends a reader; {@code whole} where it has read all of its range. */
  static native void close(long reader, boolean whole);

  /** Numbers of a reader so far, at the places that {@link Metrics} names. */
  static native long[] counters(long reader);

  /** A writer of one task's rows, of the columns that a question {@code write_task} names. */
  static native long openWriter(long client, byte[] question);

  /** The address of a block of so many bytes for rows, in place of the one before. */
  static native long block(long writer, long bytes);

  /** Takes the rows in the first {@code length} bytes of the block, once those of the last call are sent. */
  static native void write(long writer, long length, int rows);

  /**
   * Waits for at most {@code ms} until the rows of the last call are queued; with {@code all} until brokers have stored
   * all rows, and committed them where they are written exactly once.
   *
   * @return whether that is so
   */
  static native boolean sent(long writer, boolean all, int ms);

  /** Ends a writer, and frees its block; what is not stored is dropped unless {@code whole} says that all is. */
  static native void closeWriter(long writer, boolean whole);

  static native void release(long client);

  /** What the core has logged since the last call, as JSON; empty where that is nothing. */
  static native byte[] lines();

  /** Version and ABI number of the library, as JSON. */
  static native byte[] about();
}
