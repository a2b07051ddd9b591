package io.github.samsarrow.spark;

import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;

/** Spark's real-time mode (SPARK-52330), which it has from 4.1 on. */
final class RealTime {
  private static final String MODE = "org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode";
  private static final boolean KNOWN = known();

  private RealTime() {}

  private static boolean known() {
    try {
      Class.forName(MODE, false, RealTime.class.getClassLoader());
      return true;
    } catch (ClassNotFoundException none) {
      return false;
    }
  }

  /** A stream that can do all that this Spark knows. The class of the mode is loaded only where Spark has it. */
  static MicroBatchStream stream(KafkaScan scan, Options options, String checkpoint) {
    return KNOWN ? modern(scan, options, checkpoint) : new KafkaStream(scan, options, checkpoint);
  }

  private static MicroBatchStream modern(KafkaScan scan, Options options, String checkpoint) {
    return new RealTimeStream(scan, options, checkpoint);
  }
}
