package io.github.samsarrow.spark;

import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the core logs, written where Spark writes its own: below the logger {@code io.github.samsarrow}. The core never
 * calls Java, so each call of Java's fetches the lines that wait.
 */
final class Log {
  private Log() {}

  /** Writes what waits. */
  static void drain() {
    byte[] lines = Native.lines();
    if (lines.length > 0) {
      for (Object line : (List<?>) Json.parse(lines)) {
        write((Map<?, ?>) line);
      }
    }
  }

  private static void write(Map<?, ?> line) {
    String name = ((String) line.get("target")).replaceFirst("^samsarrow_", "samsarrow.").replace("::", ".");
    Logger logger = LoggerFactory.getLogger("io.github." + name);
    String text = (String) line.get("text");
    switch ((String) line.get("level")) {
      case "ERROR" -> logger.error(text);
      case "WARN" -> logger.warn(text);
      default -> logger.info(text);
    }
  }
}
