package io.github.samsarrow.spark;

import java.util.List;
import org.apache.spark.SparkEnv;
import org.apache.spark.storage.BlockManager;
import scala.jdk.javaapi.CollectionConverters;

/** Selects executors as preferred locations of tasks. */
final class ExecutorLocations {
  /** {@code -Dsamsarrow.locations=false} on the driver disables preferred executors. */
  private static final String LOCATIONS = "samsarrow.locations";

  private ExecutorLocations() {}

  /**
   * Returns the executors in a stable order, so that all micro-batches read a partition on the executor that has a
   * connected client. Returns none on a single machine, or if the internal classes of Spark that list executors have
   * changed.
   */
  static List<String> executors() {
    if (!Boolean.parseBoolean(System.getProperty(LOCATIONS, "true"))) {
      return List.of();
    }
    try {
      BlockManager mine = SparkEnv.get().blockManager();
      return CollectionConverters.asJava(mine.master().getPeers(mine.blockManagerId())).stream()
          .map(peer -> "executor_" + peer.host() + "_" + peer.executorId())
          .sorted()
          .toList();
    } catch (LinkageError | RuntimeException error) {
      return List.of();
    }
  }
}
