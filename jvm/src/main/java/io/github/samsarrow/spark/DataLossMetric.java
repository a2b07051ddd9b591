package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** Named as Spark's connector names it. */
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
