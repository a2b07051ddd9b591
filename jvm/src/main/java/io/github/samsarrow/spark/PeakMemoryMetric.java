package io.github.samsarrow.spark;

import java.util.Arrays;
import org.apache.spark.sql.connector.metric.CustomMetric;

/** Maximum native memory of a task, in bytes. */
public final class PeakMemoryMetric implements CustomMetric {
  static final String NAME = "peakNativeMemory";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String description() {
    return "peak native memory of a task (bytes)";
  }

  @Override
  public String aggregateTaskMetrics(long[] values) {
    return Long.toString(Arrays.stream(values).max().orElse(0));
  }
}
