package io.github.samsarrow.spark;

import java.io.InterruptedIOException;
import org.apache.spark.TaskContext;

/** Checks between two waits in the core, of tasks and of the driver. */
final class Waiting {
  /** The longest that a killed task or an interrupted thread waits in the core. */
  static final int MS = 50;

  private Waiting() {}

  /**
   * Ends the wait of a task that was killed, and of a thread that was interrupted.
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
