package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** Metric with the name of Spark's connector. */
public final class OffsetOutOfRangeMetric extends CustomSumMetric {
  static final String NAME = "offsetOutOfRange";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String description() {
    return "fetches at offsets out of range";
  }
}
