package io.github.samsarrow.spark;

/**
 * Native functions of the library. Handles consist of a slot and a generation, so that the library can reject the
 * handle of a closed object. All functions throw {@link SamsarrowException}. JSON is passed as UTF-8.
 */
final class Native {
  private Native() {}

  /** Creates a client with the options of {@link Options#json}. Clients with equal options share their state. */
  static native long client(byte[] options);

  /** Starts a driver request; request and response are JSON. */
  static native long plan(long client, byte[] request);

  /**
   * Waits up to {@code ms} milliseconds for the response.
   *
   * @return the response as JSON, or null if it has not arrived
   */
  static native byte[] answer(long request, int ms);

  /** Releases a request, and cancels it if its response has not arrived. */
  static native void cancel(long request);

  /** Opens a reader of one offset range. */
  static native long open(long client, byte[] range);

  /**
   * Waits up to {@code ms} milliseconds for rows and writes the addresses of their columns into {@code layout}. The
   * addresses are valid until the next call for this reader.
   *
   * @return the number of rows, 0 if none have arrived, -1 at the end of the range
   */
  static native int next(long reader, long layout, int ms);

  /** Closes a reader. {@code whole} is true if the reader has reached the end of its range. */
  static native void close(long reader, boolean whole);

  /** Returns the counters of a reader, at the indexes in {@link Metrics}. */
  static native long[] counters(long reader);

  /**
   * Opens a writer for the rows of one task. {@code request} is a {@code write_task} request, which names the columns.
   */
  static native long openWriter(long client, byte[] request);

  /** Allocates a row buffer, which replaces the previous row buffer, and returns its address. */
  static native long block(long writer, long bytes);

  /**
   * Sends the rows in the first {@code length} bytes of the buffer. Call it only after {@code sent} has returned true
   * for the rows of the previous call.
   */
  static native void write(long writer, long length, int rows);

  /**
   * Waits up to {@code ms} milliseconds until the rows of the last call are queued or, with {@code all}, until brokers
   * have stored all rows and, for exactly-once writes, committed the transaction.
   *
   * @return true if the rows are queued or stored, false if the time has passed
   */
  static native boolean sent(long writer, boolean all, int ms);

  /** Closes a writer, frees its buffer and drops unsent rows. {@code whole} is true if all rows are stored. */
  static native void closeWriter(long writer, boolean whole);

  static native void release(long client);

  /** Returns the queued log lines as JSON, or no bytes if no line is queued. */
  static native byte[] lines();

  /** Returns the library's version and ABI number as JSON. */
  static native byte[] about();
}
