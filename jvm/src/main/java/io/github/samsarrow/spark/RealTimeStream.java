package io.github.samsarrow.spark;

import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;

/**
 * A streaming query's source that also reads in real-time mode: a batch lasts as long as the trigger says, and each
 * task reads on while it does.
 */
final class RealTimeStream extends KafkaStream implements SupportsRealTimeMode {
  private final KafkaScan scan;

  RealTimeStream(KafkaScan scan, Options options, String checkpoint) {
    super(scan, options, checkpoint);
    this.scan = scan;
  }

  @Override
  public void prepareForRealTimeMode() {
    scan.readInRealTime();
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start) {
    return open(start);
  }

  /** Where the tasks of a batch have stopped. */
  @Override
  public Offset mergeOffsets(PartitionOffset[] ends) {
    Map<String, Map<String, Long>> merged = new TreeMap<>();
    for (PartitionOffset end : ends) {
      KafkaPartitionOffset one = (KafkaPartitionOffset) end;
      merged.computeIfAbsent(one.topic(), topic -> new TreeMap<>()).put(Integer.toString(one.partition()), one.next());
    }
    return KafkaOffset.of(merged);
  }
}
