package io.github.samsarrow.spark;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * Range of offsets of one partition, which one task reads. In real-time mode the range has no end.
 *
 * @param json the range in the library's JSON, which is parsed again in the task
 * @param preferredLocations executor that should read the partition in every micro-batch; empty if there is no
 *     preference
 */
record KafkaRange(String json, String[] preferredLocations) implements InputPartition {
  /** Returns the ranges of a plan. */
  static InputPartition[] all(Map<String, Object> plan) {
    return all(plan, ExecutorLocations.executors());
  }

  /**
   * Returns the ranges of a plan, each with its preferred executor. Ranges of a partition that several tasks read have
   * no preferred executor.
   */
  static InputPartition[] all(Map<String, Object> plan, List<String> executors) {
    List<Map<?, ?>> ranges = ((List<?>) plan.get("ranges")).stream().<Map<?, ?>>map(Map.class::cast).toList();
    Set<List<?>> seen = new HashSet<>();
    Set<List<?>> split = new HashSet<>();
    ranges.forEach(range -> (seen.add(partition(range)) ? seen : split).add(partition(range)));
    return ranges.stream()
        .map(range -> new KafkaRange(Json.text(range), preferredExecutor(partition(range), split, executors)))
        .toArray(InputPartition[]::new);
  }

  private static List<?> partition(Map<?, ?> range) {
    return List.of(range.get("topic"), range.get("partition"));
  }

  private static String[] preferredExecutor(List<?> partition, Set<List<?>> split, List<String> executors) {
    boolean anywhere = executors.isEmpty() || split.contains(partition);
    return anywhere ? new String[0] : new String[] {executors.get(Math.floorMod(partition.hashCode(), executors.size()))};
  }

  @SuppressWarnings("unchecked")
  Map<String, Object> fields() {
    return (Map<String, Object>) Json.parse(json);
  }

  /** Describes the range for error messages. */
  String text() {
    Map<String, Object> range = fields();
    String end = range.get("end") == null ? "on" : "to " + range.get("end");
    return String.format(
        "%s-%s from offset %s %s", range.get("topic"), range.get("partition"), range.get("start"), end);
  }

  /** Leaves out all other fields, because they may contain credentials. */
  @Override
  public String toString() {
    return text();
  }
}
