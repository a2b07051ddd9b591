package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.read.streaming.PartitionOffset;

/**
 * End of a task's part of a real-time batch.
 *
 * @param next the next offset to read
 */
record KafkaPartitionOffset(String topic, int partition, long next) implements PartitionOffset {}
