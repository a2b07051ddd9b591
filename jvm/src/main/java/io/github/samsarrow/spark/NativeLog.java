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

  private static void write(Map<?, ?> line) {
    Logger logger = LoggerFactory.getLogger("io.github." + line.get("logger"));
    String text = (String) line.get("text");
    switch ((String) line.get("level")) {
      case "ERROR" -> logger.error(text);
      case "WARN" -> logger.warn(text);
      default -> logger.info(text);
    }
  }
}
