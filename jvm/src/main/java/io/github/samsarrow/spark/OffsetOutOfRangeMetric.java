package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** Number of fetches at offsets that were out of range. The metric has the same name in Spark's own connector. */
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
