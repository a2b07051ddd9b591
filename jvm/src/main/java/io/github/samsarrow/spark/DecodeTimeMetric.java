package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** Time that tasks spent decoding. */
public final class DecodeTimeMetric extends CustomSumMetric {
  static final String NAME = "decodeTime";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String description() {
    return "time to decode (ms)";
  }
}
