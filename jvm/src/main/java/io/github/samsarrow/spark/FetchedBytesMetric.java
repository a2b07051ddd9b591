package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** Size of the fetched records, in bytes. */
public final class FetchedBytesMetric extends CustomSumMetric {
  static final String NAME = "fetchedBytes";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String description() {
    return "bytes fetched";
  }
}
