package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** Metric with the name of Spark's connector. */
public final class DataLossMetric extends CustomSumMetric {
  static final String NAME = "dataLoss";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String description() {
    return "offsets that were lost";
  }
}
