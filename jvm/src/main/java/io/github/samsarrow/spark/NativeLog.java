package io.github.samsarrow.spark;

import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes the library's log lines to the loggers below {@code io.github.samsarrow}, so that they appear in Spark's log.
 * The library never calls Java, so each call from Java also fetches the queued lines.
 */
final class NativeLog {
  private static final String PREFIX = "io.github.";

  private NativeLog() {}

  /** Fetches the queued lines from the library and writes them to the loggers. */
  static void drain() {
    byte[] lines = Native.lines();
    if (lines.length > 0) {
      for (Object line : (List<?>) Json.parse(lines)) {
        write((Map<?, ?>) line);
      }
    }
  }

  /** Returns the lowest level of the lines that the library queues: that of the common parent of its loggers. */
  static String level() {
    Logger parent = LoggerFactory.getLogger(PREFIX + "samsarrow");
    if (parent.isTraceEnabled()) {
      return "TRACE";
    }
    return parent.isDebugEnabled() ? "DEBUG" : "INFO";
  }

  private static void write(Map<?, ?> line) {
    Logger logger = LoggerFactory.getLogger(PREFIX + line.get("logger"));
    String text = (String) line.get("text");
    switch ((String) line.get("level")) {
      case "ERROR" -> logger.error(text);
      case "WARN" -> logger.warn(text);
      case "INFO" -> logger.info(text);
      case "DEBUG" -> logger.debug(text);
      default -> logger.trace(text);
    }
  }
}
