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

/** What predicates say about topic, partition, offset and time, all of which must hold: less is read at all. */
final class Bounds {
  /** Of these each row has a value. */
  private static final Set<String> NEVER_NULL = Set.of("topic", "partition", "offset");

  private static final Set<String> EQUAL = Set.of("=", "<=>", "IN");
  private static final Map<String, String> TURNED = Map.of("<", ">", "<=", ">=", ">", "<", ">=", "<=");

  private Set<Object> topics;
  private Set<Object> partitions;
  private Long offsetFrom;
  private Long offsetUntil;
  private Long timeFrom;

  /** How a predicate was used: not at all, to read less, or so that nobody need look at it again. */
  enum Use {
    NONE,
    PARTLY,
    WHOLLY
  }

  Use take(Predicate predicate) {
    Expression[] children = predicate.children();
    String name = predicate.name();
    if (children.length == 2 && children[0] instanceof Literal && children[1] instanceof NamedReference) {
      children = new Expression[] {children[1], children[0]};
      name = TURNED.getOrDefault(name, name);
    }
    if (children.length == 0
        || !(children[0] instanceof NamedReference reference)
        || reference.fieldNames().length != 1) {
      return Use.NONE;
    }
    String column = reference.fieldNames()[0];
    if (name.equals("IS_NOT_NULL")) {
      return NEVER_NULL.contains(column) ? Use.WHOLLY : Use.NONE;
    }
    List<Object> values = new ArrayList<>();
    for (int i = 1; i < children.length; i++) {
      if (!(children[i] instanceof Literal<?> literal)) {
        return Use.NONE;
      }
      // A null equals nothing that is ever in these columns.
      if (literal.value() != null) {
        values.add(literal.value());
      }
    }
    if (values.isEmpty()) {
      return Use.NONE;
    }
    return switch (column) {
      case "topic", "partition" -> among(column, name, values);
      case "offset" -> offset(name, values.stream().map(value -> ((Number) value).longValue()).toList());
      case "timestamp" -> timestamp(name, values);
      default -> Use.NONE;
    };
  }

  private Use among(String column, String name, List<Object> values) {
    if (!EQUAL.contains(name)) {
      return Use.NONE;
    }
    if (column.equals("topic")) {
      topics = both(topics, values.stream().<Object>map(Object::toString).toList());
    } else {
      partitions = both(partitions, values);
    }
    return Use.WHOLLY;
  }

  private static Set<Object> both(Set<Object> before, Collection<Object> now) {
    Set<Object> both = new LinkedHashSet<>(now);
    if (before != null) {
      both.retainAll(before);
    }
    return both;
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
        return Use.PARTLY;
      }
      default -> {
        return Use.NONE;
      }
    }
    return Use.WHOLLY;
  }

  private void from(long offset) {
    offsetFrom = offsetFrom == null ? offset : Math.max(offsetFrom, offset);
  }

  private void until(long offset) {
    offsetUntil = offsetUntil == null ? offset : Math.min(offsetUntil, offset);
  }

  /** Only a lower bound helps: later records may be older. Kafka's index knows milliseconds, and only where to begin. */
  private Use timestamp(String name, List<Object> values) {
    boolean lower = Set.of(">", ">=", "=", "<=>").contains(name);
    if (!lower || !(values.get(0) instanceof Long micros)) {
      return Use.NONE;
    }
    long since = Math.max(Math.floorDiv(micros, 1000L), 0);
    timeFrom = timeFrom == null ? since : Math.max(timeFrom, since);
    return Use.PARTLY;
  }

  /** As the core takes them. */
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
