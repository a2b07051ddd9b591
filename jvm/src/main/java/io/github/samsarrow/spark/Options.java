package io.github.samsarrow.spark;

import java.io.File;
import java.io.Serializable;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkFiles;
import org.apache.spark.network.util.JavaUtils;

/** The options of a read or a write as given, their names in lower case. They may hold secrets: no text shows them. */
final class Options implements Serializable {
  private static final long serialVersionUID = 1;
  private static final String MAX_DELAY = "15m";
  private static final List<String> PARTS = List.of("key", "value");

  private final TreeMap<String, String> given = new TreeMap<>();

  /** What is logged in with, as the core says it; null where that is among the options. */
  private final TreeMap<String, String> token;

  /** What a registry said that keys and values look like, in the words of the core. */
  private final String found;

  Options(Map<String, String> options) {
    this(options, null, "{}");
  }

  private Options(Map<String, String> options, Map<String, String> token, String found) {
    options.forEach((name, value) -> given.put(name.toLowerCase(Locale.ROOT), value));
    this.token = token == null ? null : new TreeMap<>(token);
    this.found = found;
  }

  /** The options of a table, and those of one read or write of it, which win. */
  Options and(Map<String, String> more) {
    TreeMap<String, String> both = new TreeMap<>(given);
    more.forEach((name, value) -> both.put(name.toLowerCase(Locale.ROOT), value));
    return new Options(both, token, found);
  }

  /** The same where a registry was asked. */
  Options knowing(String found) {
    return new Options(given, token, found);
  }

  String found() {
    return found;
  }

  /** The columns that are decoded, and those that come with them. */
  Set<String> decoded() {
    Set<String> names = new LinkedHashSet<>();
    for (String part : PARTS) {
      if (!given.getOrDefault(part + ".format", "").isBlank()) {
        names.add(part);
        if (nullsBad(part)) {
          names.add("raw_" + part);
          names.add(part + "_error");
        }
      }
    }
    return names;
  }

  /** Whether fields that Spark does not use need not be read: what is wrong with one is an error, and no column says so. */
  boolean prunes(String column) {
    return decoded().contains(column) && !nullsBad(column);
  }

  private boolean nullsBad(String part) {
    return given.getOrDefault(part + ".onerror", "").trim().equalsIgnoreCase("null");
  }

  /** What tasks get: a token in place of the login, where that is asked for. */
  @SuppressWarnings("unchecked")
  Options forTasks() {
    if (!given.containsKey("delegationtoken")) {
      return this;
    }
    Map<String, Object> answer = Client.ask(this, Client.question("token"));
    Map<String, String> left = new TreeMap<>(given);
    left.keySet().removeAll((List<String>) answer.get("login"));
    return new Options(left, (Map<String, String>) answer.get("token"), found);
  }

  /** For the core, with what this process adds: where Spark puts files, of the session and of the application. */
  byte[] json() {
    Map<String, Object> here = new HashMap<>();
    here.put("options", given);
    here.put("folders", folders());
    here.put("token", token);
    return Json.bytes(here);
  }

  /** None outside of Spark. */
  private static List<String> folders() {
    return SparkEnv.get() == null
        ? List.of()
        : List.of(SparkFiles.get(""), new File(SparkFiles.getRootDirectory()).getAbsolutePath());
  }

  /** What is read, as one sees it in plans. */
  String subject() {
    for (String name : new String[] {"subscribe", "subscribepattern", "assign"}) {
      if (given.containsKey(name)) {
        return given.get(name);
      }
    }
    return "";
  }

  /** A number that the core has checked. */
  Long number(String name) {
    String text = given.get(name);
    return text == null ? null : Long.valueOf(text.trim());
  }

  /** {@code maxTriggerDelay} as Spark reads times. */
  long maxTriggerDelayMs() {
    String text = given.getOrDefault("maxtriggerdelay", MAX_DELAY);
    return JavaUtils.timeStringAsMs(text);
  }

  @Override
  public String toString() {
    return "Options(" + subject() + ")";
  }
}
