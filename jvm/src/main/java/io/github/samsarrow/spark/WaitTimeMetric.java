package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** Total time that tasks spent waiting for brokers, in milliseconds. */
public final class WaitTimeMetric extends CustomSumMetric {
  static final String NAME = "waitTime";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String description() {
    return "time waited for brokers (ms)";
  }
}
