package io.github.samsarrow.spark;

import java.io.File;
import java.io.Serializable;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkFiles;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.types.StructType;

/** Options of a read or a write, by name in lower case. They are never printed, because they may contain secrets. */
final class Options implements Serializable {
  private static final long serialVersionUID = 1;
  private static final String MAX_DELAY = "15m";
  private static final String REGISTRY = "schema.registry.";
  private static final List<String> PARTS = List.of("key", "value");

  private final TreeMap<String, String> options = new TreeMap<>();

  /** Delegation token that replaces the login options, in the library's JSON, or null. */
  private final TreeMap<String, String> token;

  /** Schemas from the registry that determine the types of keys and values, in the library's JSON. */
  private final String registrySchemas;

  /** Types of the decoded columns of the table by name, as JSON. Tasks also decode columns that a query does not use. */
  private final String types;

  Options(Map<String, String> options) {
    this(options, null, "{}", "{}");
  }

  private Options(Map<String, String> options, Map<String, String> token, String registrySchemas, String types) {
    options.forEach((name, value) -> this.options.put(name.toLowerCase(Locale.ROOT), value));
    this.token = token == null ? null : new TreeMap<>(token);
    this.registrySchemas = registrySchemas;
    this.types = types;
  }

  /** Returns a copy of these table options, overridden by the options {@code more} of one read or write. */
  Options merge(Map<String, String> more) {
    TreeMap<String, String> merged = new TreeMap<>(options);
    more.forEach((name, value) -> merged.put(name.toLowerCase(Locale.ROOT), value));
    return new Options(merged, token, registrySchemas, types);
  }

  /** Returns a copy of these options that contains schemas from the registry and the types of the decoded columns. */
  Options withTypes(String registrySchemas, Map<String, Object> types) {
    return new Options(options, token, registrySchemas, Json.text(types));
  }

  String registrySchemas() {
    return registrySchemas;
  }

  /** Returns the types of the decoded columns by name. Those of {@code read} replace those of the table. */
  @SuppressWarnings("unchecked")
  Map<String, Object> types(StructType read) {
    Map<String, Object> all = new LinkedHashMap<>((Map<String, Object>) Json.parse(types));
    all.putAll(Columns.types(read, decoded()));
    return all;
  }

  /** Returns the names of the decoded columns, and of the raw and error columns that {@code onError=null} adds. */
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

  /** Returns true if keys or values have a format. */
  boolean encodes() {
    return !decoded().isEmpty();
  }

  /** Returns true if the other options, which may be null, have the same names and values. */
  boolean isSame(Options other) {
    return other != null && options.equals(other.options);
  }

  /** Returns a copy for tasks that write. They send no requests to the registry, and need no login. */
  Options withoutRegistryLogin() {
    Map<String, String> remaining = new TreeMap<>(options);
    remaining.keySet().removeIf(name -> name.startsWith(REGISTRY) && !name.equals(REGISTRY + "url"));
    return new Options(remaining, token, registrySchemas, types);
  }

  /**
   * Returns true if unused fields of the column need not be read. With {@code onError=null} and
   * {@code onError=deadletter} all fields are read, since they report errors of all fields.
   */
  boolean canPruneFields(String column) {
    return decoded().contains(column) && !nullOnError(column) && !onError(column).equals("deadletter");
  }

  /** Returns true if a newer version of a schema ends a streaming query. */
  boolean endsWithNewerSchema() {
    return PARTS.stream()
        .anyMatch(part -> options.getOrDefault(part + ".evolution", "").trim().equalsIgnoreCase("restart"));
  }

  private boolean nullOnError(String part) {
    return onError(part).equals("null");
  }

  private String onError(String part) {
    return options.getOrDefault(part + ".onerror", "").trim().toLowerCase(Locale.ROOT);
  }

  /**
   * Returns the options for tasks. With the option {@code delegationToken}, a delegation token replaces the login
   * options.
   */
  @SuppressWarnings("unchecked")
  Options forTasks() {
    if (!options.containsKey("delegationtoken")) {
      return this;
    }
    Map<String, Object> response = Client.send(this, Client.newRequest("token"));
    Map<String, String> remaining = new TreeMap<>(options);
    remaining.keySet().removeAll((List<String>) response.get("login"));
    return new Options(remaining, (Map<String, String>) response.get("token"), registrySchemas, types);
  }

  /**
   * Returns the options as JSON for the library, with the folders in which Spark stores the files added to the session
   * and to the application.
   */
  byte[] json() {
    Map<String, Object> json = new HashMap<>();
    json.put("options", options);
    json.put("folders", folders());
    json.put("token", token);
    json.put("log", NativeLog.level());
    return Json.bytes(json);
  }

  /** Returns the folders in which Spark stores added files; none outside of Spark. */
  private static List<String> folders() {
    return SparkEnv.get() == null
        ? List.of()
        : List.of(SparkFiles.get(""), new File(SparkFiles.getRootDirectory()).getAbsolutePath());
  }

  /** Returns the description of the topics that query plans show. */
  String topics() {
    for (String name : new String[] {"subscribe", "subscribepattern", "assign"}) {
      if (options.containsKey(name)) {
        return options.get(name);
      }
    }
    return "";
  }

  /** Returns the numeric value of an option that the library has validated, or null if it is not set. */
  Long number(String name) {
    String text = options.get(name);
    return text == null ? null : Long.valueOf(text.trim());
  }

  /** Returns {@code maxTriggerDelay} in milliseconds, parsed with Spark's time units. */
  long maxTriggerDelayMs() {
    String text = options.getOrDefault("maxtriggerdelay", MAX_DELAY);
    return JavaUtils.timeStringAsMs(text);
  }

  @Override
  public String toString() {
    return "Options(" + topics() + ")";
  }
}
