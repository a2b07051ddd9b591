package io.github.samsarrow.spark;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * Offsets of one partition, read by one task; without an end in real-time mode.
 *
 * @param json the range in the words of the core, which reads it again in the task
 * @param preferredLocations where the partition is read each time, if it can be; none where anywhere is as good
 */
record KafkaRange(String json, String[] preferredLocations) implements InputPartition {
  /** The ranges of a plan. */
  static InputPartition[] all(Map<String, Object> plan) {
    return all(plan, Places.executors());
  }

  /** The ranges of a plan, on these executors. Several tasks of one partition go wherever there is room. */
  static InputPartition[] all(Map<String, Object> plan, List<String> executors) {
    List<Map<?, ?>> ranges = ((List<?>) plan.get("ranges")).stream().<Map<?, ?>>map(Map.class::cast).toList();
    Set<List<?>> seen = new HashSet<>();
    Set<List<?>> split = new HashSet<>();
    ranges.forEach(range -> (seen.add(partition(range)) ? seen : split).add(partition(range)));
    return ranges.stream()
        .map(range -> new KafkaRange(Json.text(range), place(partition(range), split, executors)))
        .toArray(InputPartition[]::new);
  }

  private static List<?> partition(Map<?, ?> range) {
    return List.of(range.get("topic"), range.get("partition"));
  }

  private static String[] place(List<?> partition, Set<List<?>> split, List<String> executors) {
    boolean anywhere = executors.isEmpty() || split.contains(partition);
    return anywhere ? new String[0] : new String[] {executors.get(Math.floorMod(partition.hashCode(), executors.size()))};
  }

  @SuppressWarnings("unchecked")
  Map<String, Object> fields() {
    return (Map<String, Object>) Json.parse(json);
  }

  /** For errors. */
  String text() {
    Map<String, Object> range = fields();
    String end = range.get("end") == null ? "on" : "to " + range.get("end");
    return String.format(
        "%s-%s from offset %s %s", range.get("topic"), range.get("partition"), range.get("start"), end);
  }

  /** A range may come with a login of its own, which nobody is to see. */
  @Override
  public String toString() {
    return text();
  }
}
