package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;

/** Spark's real-time mode (SPARK-52330), available from 4.1. */
final class RealTime {
  private static final String MODE_INTERFACE = "org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode";
  private static final boolean AVAILABLE = isAvailable();

  private RealTime() {}

  private static boolean isAvailable() {
    try {
      Class.forName(MODE_INTERFACE, false, RealTime.class.getClassLoader());
      return true;
    } catch (ClassNotFoundException none) {
      return false;
    }
  }

  /**
   * Creates a stream with real-time mode if Spark supports it. The class that implements the mode is loaded only then.
   */
  static MicroBatchStream stream(KafkaScan scan, Options options, String checkpoint) {
    return AVAILABLE ? realTimeStream(scan, options, checkpoint) : new KafkaStream(scan, options, checkpoint);
  }

  private static MicroBatchStream realTimeStream(KafkaScan scan, Options options, String checkpoint) {
    return new RealTimeStream(scan, options, checkpoint);
  }
}
