package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.read.streaming.PartitionOffset;

/**
 * Offset at which a task ended in a real-time batch.
 *
 * @param next the next offset to read
 */
record KafkaPartitionOffset(String topic, int partition, long next) implements PartitionOffset {}
