package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** Time for which tasks waited for brokers, in milliseconds. */
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
