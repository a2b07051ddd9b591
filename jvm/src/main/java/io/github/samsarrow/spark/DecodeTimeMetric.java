package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** Total time that tasks spent decoding records, in milliseconds. */
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
