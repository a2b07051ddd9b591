package io.github.samsarrow.spark;

import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;

/**
 * Source of a streaming query that supports real-time mode: each batch lasts for the interval of the trigger, and its
 * tasks read until the batch ends.
 */
final class RealTimeStream extends KafkaStream implements SupportsRealTimeMode {
  private final KafkaScan scan;

  RealTimeStream(KafkaScan scan, Options options, String checkpoint) {
    super(scan, options, checkpoint);
    this.scan = scan;
  }

  @Override
  public void prepareForRealTimeMode() {
    scan.enableRealTimeMode();
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start) {
    return planRealTime(start);
  }

  /** Merges the end offsets of all tasks of a batch. */
  @Override
  public Offset mergeOffsets(PartitionOffset[] ends) {
    Map<String, Map<String, Long>> merged = new TreeMap<>();
    for (PartitionOffset end : ends) {
      KafkaPartitionOffset partition = (KafkaPartitionOffset) end;
      merged
          .computeIfAbsent(partition.topic(), topic -> new TreeMap<>())
          .put(Integer.toString(partition.partition()), partition.next());
    }
    return KafkaOffset.of(merged);
  }
}
