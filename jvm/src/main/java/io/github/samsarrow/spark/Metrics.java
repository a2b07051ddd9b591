package io.github.samsarrow.spark;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** Metrics of a read that Spark shows in its SQL tab. Their values are taken from the counters of the library. */
final class Metrics {
  /** Indexes of the counters that the library returns. */
  static final int WAIT_NS = 0;

  static final int DECODE_NS = 1;
  static final int FETCHED_BYTES = 2;
  static final int PEAK_BYTES = 4;
  static final int LOST_OFFSETS = 5;
  static final int OUT_OF_RANGE = 6;
  static final int COUNT = 7;

  private static final long NS_PER_MS = 1_000_000;

  private Metrics() {}

  /**
   * Returns the metrics, or none if Spark would not find their classes. Spark instantiates each metric by its class
   * name, so the classes cannot be nested.
   */
  static CustomMetric[] supported() {
    if (!areClassesVisible()) {
      return new CustomMetric[0];
    }
    return new CustomMetric[] {
      new WaitTimeMetric(),
      new DecodeTimeMetric(),
      new FetchedBytesMetric(),
      new PeakMemoryMetric(),
      new DataLossMetric(),
      new OffsetOutOfRangeMetric()
    };
  }

  /**
   * Returns true if the application's class loader has the metric classes, or if the loader cannot be found because
   * Spark's internal classes have changed. Spark aggregates metrics on a separate thread that uses this loader. If the
   * jar was added to a session only, Spark would log a stack trace for each metric.
   */
  private static boolean areClassesVisible() {
    try {
      ClassLoader application = SparkSession.active().sharedState().jarClassLoader().getParent();
      return Class.forName(Metrics.class.getName(), false, application) == Metrics.class;
    } catch (ClassNotFoundException error) {
      return false;
    } catch (LinkageError | RuntimeException error) {
      return true;
    }
  }

  static CustomTaskMetric[] values(long[] counters) {
    return new CustomTaskMetric[] {
      new Value(WaitTimeMetric.NAME, counters[WAIT_NS] / NS_PER_MS),
      new Value(DecodeTimeMetric.NAME, counters[DECODE_NS] / NS_PER_MS),
      new Value(FetchedBytesMetric.NAME, counters[FETCHED_BYTES]),
      new Value(PeakMemoryMetric.NAME, counters[PEAK_BYTES]),
      new Value(DataLossMetric.NAME, counters[LOST_OFFSETS]),
      new Value(OffsetOutOfRangeMetric.NAME, counters[OUT_OF_RANGE])
    };
  }

  private record Value(String name, long value) implements CustomTaskMetric {}
}
