package io.github.samsarrow.spark;

import java.io.InterruptedIOException;
import org.apache.spark.TaskContext;

/** What tasks do between two waits in the core. */
final class Waiting {
  /** The longest that a killed task waits in the core. */
  static final int MS = 50;

  private Waiting() {}

  /**
   * Ends a task that was killed.
   *
   * @param task that waits, or null
   * @param what it waits for
   */
  static void check(TaskContext task, Object what) throws InterruptedIOException {
    if (Thread.interrupted()) {
      throw new InterruptedIOException("interrupted while waiting for " + what);
    }
    if (task != null) {
      task.killTaskIfInterrupted();
    }
  }
}
