package io.github.samsarrow.spark;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** What Spark shows of a read, in its SQL tab: the counters of the core. */
final class Metrics {
  /** Places in the core's counters. */
  static final int WAIT_NS = 0;

  static final int DECODE_NS = 1;
  static final int FETCHED_BYTES = 2;
  static final int PEAK_BYTES = 4;
  static final int LOST_OFFSETS = 5;
  static final int OUT_OF_RANGE = 6;
  static final int COUNT = 7;

  private static final long NS_A_MS = 1_000_000;

  private Metrics() {}

  /** Spark makes each again by the name of its class, which must not be a nested one; none where it would not find it. */
  static CustomMetric[] supported() {
    if (!found()) {
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
   * Whether the application's class loader has these classes. Spark shows metrics on a thread of its own: it would log
   * a stack trace for each metric of a jar that is only a session's. True where Spark's inner classes, which alone know
   * that loader, have changed.
   */
  private static boolean found() {
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
      new Value(WaitTimeMetric.NAME, counters[WAIT_NS] / NS_A_MS),
      new Value(DecodeTimeMetric.NAME, counters[DECODE_NS] / NS_A_MS),
      new Value(FetchedBytesMetric.NAME, counters[FETCHED_BYTES]),
      new Value(PeakMemoryMetric.NAME, counters[PEAK_BYTES]),
      new Value(DataLossMetric.NAME, counters[LOST_OFFSETS]),
      new Value(OffsetOutOfRangeMetric.NAME, counters[OUT_OF_RANGE])
    };
  }

  private record Value(String name, long value) implements CustomTaskMetric {}
}
