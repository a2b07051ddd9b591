package io.github.samsarrow.spark;

/**
 * Native functions of the library. Handles consist of a slot and a generation, so that a stale one is rejected. All
 * functions throw {@link SamsarrowException}; JSON is UTF-8.
 */
final class Native {
  private Native() {}

  /** Creates a client with the options of {@link Options#json}. Clients with equal options share their state. */
  static native long client(byte[] options);

  /** Starts a driver request; request and response are JSON. */
  static native long plan(long client, byte[] request);

  /**
   * Waits for the response for {@code ms} or less.
   *
   * @return the response as JSON, or null if it has not arrived
   */
  static native byte[] answer(long request, int ms);

  /** Cancels and releases a request, answered or not. */
  static native void cancel(long request);

  /** Opens a reader of one offset range. */
  static native long open(long client, byte[] range);

  /**
   * Waits for rows for {@code ms} or less and writes their addresses into {@code layout}. They are valid until the
   * reader's next call.
   *
   * @return the number of rows, 0 if none have arrived, -1 at the end of the range
   */
  static native int next(long reader, long layout, int ms);

  /** Closes a reader; {@code whole} if it has read its whole range. */
  static native void close(long reader, boolean whole);

  /** Returns the counters of a reader, at the indexes in {@link Metrics}. */
  static native long[] counters(long reader);

  /** Opens a writer for the rows of one task; the columns are those of a {@code write_task} request. */
  static native long openWriter(long client, byte[] request);

  /** Allocates a row buffer, which replaces the previous one, and returns its address. */
  static native long block(long writer, long bytes);

  /** Sends the rows in the first {@code length} bytes of the buffer. Those of the previous call must be sent. */
  static native void write(long writer, long length, int rows);

  /**
   * Waits for {@code ms} or less until the rows of the last call are queued or, with {@code all}, until brokers
   * have stored all rows and committed them if they are written exactly once.
   *
   * @return true if they are
   */
  static native boolean sent(long writer, boolean all, int ms);

  /** Closes a writer and frees its buffer. Unsent rows are dropped; {@code whole} if all rows are stored. */
  static native void closeWriter(long writer, boolean whole);

  static native void release(long client);

  /** Returns the queued log lines as JSON; empty if there are none. */
  static native byte[] lines();

  /** Returns the library's version and ABI number as JSON. */
  static native byte[] about();
}
