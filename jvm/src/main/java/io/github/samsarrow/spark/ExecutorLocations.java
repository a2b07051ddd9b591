package io.github.samsarrow.spark;

import java.util.List;
import org.apache.spark.SparkEnv;
import org.apache.spark.storage.BlockManager;
import scala.jdk.javaapi.CollectionConverters;

/** The executors that there are, by the names that Spark's scheduler has for them as places. */
final class Places {
  /** {@code -Dsamsarrow.locations=false} on the driver: tasks go anywhere. */
  private static final String LOCATIONS = "samsarrow.locations";

  private Places() {}

  /**
   * In an order that stays while they do, so that a partition finds the clients of its last micro-batch again. None on one
   * machine, or where Spark's inner classes, which alone know them, have changed.
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
