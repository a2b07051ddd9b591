package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.read.streaming.PartitionOffset;

/**
 * Where a task has stopped.
 *
 * @param next the offset that is read next
 */
record KafkaPartitionOffset(String topic, int partition, long next) implements PartitionOffset {}
