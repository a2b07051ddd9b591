package io.github.samsarrow.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;

/** What a batch can leave unread: columns, ranges that predicates exclude, rows past a limit. */
final class Builder
    implements SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit {
  private final StructType whole;
  private final Options options;
  private final Bounds bounds = new Bounds();
  private final List<Predicate> pushed = new ArrayList<>();
  private StructType schema;
  private Integer limit;

  Builder(StructType schema, Options options) {
    whole = schema;
    this.schema = schema;
    this.options = options;
  }

  @Override
  public void pruneColumns(StructType required) {
    schema = Columns.restored(required, whole, options);
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    List<Predicate> left = new ArrayList<>();
    for (Predicate predicate : predicates) {
      Bounds.Use use = bounds.take(predicate);
      if (use != Bounds.Use.NONE) {
        pushed.add(predicate);
      }
      if (use != Bounds.Use.WHOLLY) {
        left.add(predicate);
      }
    }
    return left.toArray(new Predicate[0]);
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushed.toArray(new Predicate[0]);
  }

  /** Of each task, and so only in part: which offsets have records, nobody knows before they are read. */
  @Override
  public boolean pushLimit(int limit) {
    this.limit = limit;
    return true;
  }

  @Override
  public Scan build() {
    return new KafkaScan(options, schema, bounds, pushed, limit);
  }
}
