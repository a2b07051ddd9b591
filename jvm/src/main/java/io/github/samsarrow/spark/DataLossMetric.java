package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** Number of offsets that were lost. The metric has the same name in Spark's own connector. */
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
