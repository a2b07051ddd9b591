package io.github.samsarrow.spark;

import java.io.InterruptedIOException;
import org.apache.spark.TaskContext;

/** Checks between two waits in the library whether a task was killed or a thread interrupted. */
final class KillCheck {
  /** Maximum time of one wait in the library, after which a kill or an interrupt is detected. */
  static final int MS = 50;

  private KillCheck() {}

  /**
   * Throws if the task was killed or the thread was interrupted.
   *
   * @param task the waiting task, or null
   * @param what description of the wait
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
