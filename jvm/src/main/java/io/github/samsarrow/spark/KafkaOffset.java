package io.github.samsarrow.spark;

import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * Next offsets to read, formatted as {@code {"topic":{"0":23}}}. Spark's connector and the Python source use the same
 * JSON, so each source can continue checkpoints of the others.
 */
final class KafkaOffset extends Offset {
  private final String text;
  private final TreeMap<String, TreeMap<Integer, Long>> offsets = new TreeMap<>();

  /** Keeps the JSON text of a checkpoint unchanged, because Spark compares offsets by their text. */
  private KafkaOffset(String text, Object parsed) {
    for (Map.Entry<?, ?> topic : ((Map<?, ?>) parsed).entrySet()) {
      TreeMap<Integer, Long> partitions = new TreeMap<>();
      for (Map.Entry<?, ?> partition : ((Map<?, ?>) topic.getValue()).entrySet()) {
        partitions.put(Integer.valueOf((String) partition.getKey()), (Long) partition.getValue());
      }
      offsets.put((String) topic.getKey(), partitions);
    }
    this.text = text == null ? Json.text(offsets) : text;
  }

  /** Converts the offsets in a response of the library. */
  static KafkaOffset of(Object parsed) {
    return new KafkaOffset(null, parsed);
  }

  /** Parses the offsets in a checkpoint. */
  static KafkaOffset of(String text) {
    try {
      return new KafkaOffset(text, Json.parse(text));
    } catch (ClassCastException | IllegalArgumentException error) {
      throw SamsarrowException.configuration(
          "the checkpoint has offsets of another source: " + text + " instead of {\"topic\":{\"0\":23}}; give the query "
              + "a separate checkpointLocation");
    }
  }

  Map<String, TreeMap<Integer, Long>> offsets() {
    return offsets;
  }

  /** Returns the offset of a partition, or 0 if the partition is missing. */
  long at(String topic, int partition) {
    return offsets.getOrDefault(topic, new TreeMap<>()).getOrDefault(partition, 0L);
  }

  @Override
  public String json() {
    return text;
  }
}
