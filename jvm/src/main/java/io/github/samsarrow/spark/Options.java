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

/** Options of a read or a write; names are in lower case. They may contain secrets, and are never printed. */
final class Options implements Serializable {
  private static final long serialVersionUID = 1;
  private static final String MAX_DELAY = "15m";
  private static final List<String> PARTS = List.of("key", "value");

  private final TreeMap<String, String> options = new TreeMap<>();

  /** Delegation token that replaces the login options, as JSON of the library, or null. */
  private final TreeMap<String, String> token;

  /** Schemas from the registry that determine the types of keys and values, as JSON of the library. */
  private final String registrySchemas;

  Options(Map<String, String> options) {
    this(options, null, "{}");
  }

  private Options(Map<String, String> options, Map<String, String> token, String registrySchemas) {
    options.forEach((name, value) -> this.options.put(name.toLowerCase(Locale.ROOT), value));
    this.token = token == null ? null : new TreeMap<>(token);
    this.registrySchemas = registrySchemas;
  }

  /** Returns the options of a table, overridden by those of one read or write. */
  Options merge(Map<String, String> more) {
    TreeMap<String, String> merged = new TreeMap<>(options);
    more.forEach((name, value) -> merged.put(name.toLowerCase(Locale.ROOT), value));
    return new Options(merged, token, registrySchemas);
  }

  /** Returns these options with schemas from the registry. */
  Options withRegistrySchemas(String registrySchemas) {
    return new Options(options, token, registrySchemas);
  }

  String registrySchemas() {
    return registrySchemas;
  }

  /** Returns the decoded columns, and those that are added for them. */
  Set<String> decoded() {
    Set<String> names = new LinkedHashSet<>();
    for (String part : PARTS) {
      if (!options.getOrDefault(part + ".format", "").isBlank()) {
        names.add(part);
        if (nullOnError(part)) {
          names.add("raw_" + part);
          names.add(part + "_error");
        }
      }
    }
    return names;
  }

  /**
   * Returns true if unused fields of the column need not be read. With {@code onError=null} they are read, since the
   * error columns report errors of all fields.
   */
  boolean canPruneFields(String column) {
    return decoded().contains(column) && !nullOnError(column);
  }

  private boolean nullOnError(String part) {
    return options.getOrDefault(part + ".onerror", "").trim().equalsIgnoreCase("null");
  }

  /** Returns the options for tasks: with {@code delegationToken}, a token replaces the login options. */
  @SuppressWarnings("unchecked")
  Options forTasks() {
    if (!options.containsKey("delegationtoken")) {
      return this;
    }
    Map<String, Object> response = Client.send(this, Client.newRequest("token"));
    Map<String, String> remaining = new TreeMap<>(options);
    remaining.keySet().removeAll((List<String>) response.get("login"));
    return new Options(remaining, (Map<String, String>) response.get("token"), registrySchemas);
  }

  /**
   * Returns the options as JSON for the library, with the folders into which Spark puts the files of session and
   * application.
   */
  byte[] json() {
    Map<String, Object> json = new HashMap<>();
    json.put("options", options);
    json.put("folders", folders());
    json.put("token", token);
    return Json.bytes(json);
  }

  /** Returns no folders outside of Spark. */
  private static List<String> folders() {
    return SparkEnv.get() == null
        ? List.of()
        : List.of(SparkFiles.get(""), new File(SparkFiles.getRootDirectory()).getAbsolutePath());
  }

  /** Returns the topics for query plans. */
  String topics() {
    for (String name : new String[] {"subscribe", "subscribepattern", "assign"}) {
      if (options.containsKey(name)) {
        return options.get(name);
      }
    }
    return "";
  }

  /** Returns a number that the library has validated. */
  Long number(String name) {
    String text = options.get(name);
    return text == null ? null : Long.valueOf(text.trim());
  }

  /** Returns {@code maxTriggerDelay}, parsed by Spark. */
  long maxTriggerDelayMs() {
    String text = options.getOrDefault("maxtriggerdelay", MAX_DELAY);
    return JavaUtils.timeStringAsMs(text);
  }

  @Override
  public String toString() {
    return "Options(" + topics() + ")";
  }
}
