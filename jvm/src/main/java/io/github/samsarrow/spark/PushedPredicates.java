package io.github.samsarrow.spark;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;

/**
 * Bounds of topic, partition, offset and timestamp, derived from pushed-down predicates. Records outside of the bounds
 * do not satisfy all predicates.
 */
final class PushedPredicates {
  /** Columns that are never null. */
  private static final Set<String> NEVER_NULL = Set.of("topic", "partition", "offset");

  private static final Set<String> EQUAL = Set.of("=", "<=>", "IN");
  private static final Map<String, String> MIRRORED = Map.of("<", ">", "<=", ">=", ">", "<", ">=", "<=");

  private Set<Object> topics;
  private Set<Object> partitions;
  private Long offsetFrom;
  private Long offsetUntil;
  private Long timeFrom;

  /**
   * Use of a predicate: it is ignored, it only reduces the rows that are read, or it is evaluated completely, so that
   * Spark need not evaluate it again.
   */
  enum Use {
    NONE,
    PARTIAL,
    COMPLETE
  }

  Use push(Predicate predicate) {
    Expression[] children = predicate.children();
    String name = predicate.name();
    if (children.length == 2 && children[0] instanceof Literal && children[1] instanceof NamedReference) {
      children = new Expression[] {children[1], children[0]};
      name = MIRRORED.getOrDefault(name, name);
    }
    if (children.length == 0
        || !(children[0] instanceof NamedReference reference)
        || reference.fieldNames().length != 1) {
      return Use.NONE;
    }
    String column = reference.fieldNames()[0];
    if (name.equals("IS_NOT_NULL")) {
      return NEVER_NULL.contains(column) ? Use.COMPLETE : Use.NONE;
    }
    List<Object> values = new ArrayList<>();
    for (int i = 1; i < children.length; i++) {
      if (!(children[i] instanceof Literal<?> literal)) {
        return Use.NONE;
      }
      // Nulls are skipped, because these columns are never null.
      if (literal.value() != null) {
        values.add(literal.value());
      }
    }
    if (values.isEmpty()) {
      return Use.NONE;
    }
    return switch (column) {
      case "topic", "partition" -> equality(column, name, values);
      case "offset" -> offset(name, values.stream().map(value -> ((Number) value).longValue()).toList());
      case "timestamp" -> timestamp(name, values);
      default -> Use.NONE;
    };
  }

  private Use equality(String column, String name, List<Object> values) {
    if (!EQUAL.contains(name)) {
      return Use.NONE;
    }
    if (column.equals("topic")) {
      topics = intersection(topics, values.stream().<Object>map(Object::toString).toList());
    } else {
      partitions = intersection(partitions, values);
    }
    return Use.COMPLETE;
  }

  private static Set<Object> intersection(Set<Object> before, Collection<Object> now) {
    Set<Object> result = new LinkedHashSet<>(now);
    if (before != null) {
      result.retainAll(before);
    }
    return result;
  }

  private Use offset(String name, List<Long> values) {
    long first = values.get(0);
    if (first == Long.MAX_VALUE) {
      return Use.NONE;
    }
    switch (name) {
      case ">" -> from(first + 1);
      case ">=" -> from(first);
      case "<" -> until(first);
      case "<=" -> until(first + 1);
      case "=", "<=>" -> {
        from(first);
        until(first + 1);
      }
      case "IN" -> {
        long last = values.stream().max(Long::compare).orElseThrow();
        if (last == Long.MAX_VALUE) {
          return Use.NONE;
        }
        from(values.stream().min(Long::compare).orElseThrow());
        until(last + 1);
        return Use.PARTIAL;
      }
      default -> {
        return Use.NONE;
      }
    }
    return Use.COMPLETE;
  }

  private void from(long offset) {
    offsetFrom = offsetFrom == null ? offset : Math.max(offsetFrom, offset);
  }

  private void until(long offset) {
    offsetUntil = offsetUntil == null ? offset : Math.min(offsetUntil, offset);
  }

  /**
   * Uses only lower bounds. Upper bounds cannot be used, because records with earlier timestamps may follow. A lower
   * bound is used only partially, because Kafka looks up the first offset whose timestamp in milliseconds reaches the
   * bound.
   */
  private Use timestamp(String name, List<Object> values) {
    boolean lower = Set.of(">", ">=", "=", "<=>").contains(name);
    if (!lower || !(values.get(0) instanceof Long micros)) {
      return Use.NONE;
    }
    long since = Math.max(Math.floorDiv(micros, 1000L), 0);
    timeFrom = timeFrom == null ? since : Math.max(timeFrom, since);
    return Use.PARTIAL;
  }

  /** Returns the bounds in the JSON that the library expects. */
  Map<String, Object> json() {
    Map<String, Object> json = new TreeMap<>();
    json.put("topics", topics);
    json.put("partitions", partitions);
    json.put("offset_from", offsetFrom);
    json.put("offset_until", offsetUntil);
    json.put("time_from", timeFrom);
    return json;
  }
}
