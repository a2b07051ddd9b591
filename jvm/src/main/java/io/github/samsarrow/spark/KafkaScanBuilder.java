package io.github.samsarrow.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;

/** Accepts the required columns, the predicates and the limit that Spark pushes down to a batch read. */
final class KafkaScanBuilder
    implements SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit {
  private final StructType fullSchema;
  private final Options options;
  private final PushedPredicates predicates = new PushedPredicates();
  private final List<Predicate> pushed = new ArrayList<>();
  private StructType schema;
  private Integer limit;

  KafkaScanBuilder(StructType schema, Options options) {
    fullSchema = schema;
    this.schema = schema;
    this.options = options;
  }

  @Override
  public void pruneColumns(StructType required) {
    schema = Columns.restoreStructs(required, fullSchema, options);
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] candidates) {
    List<Predicate> remaining = new ArrayList<>();
    for (Predicate predicate : candidates) {
      PushedPredicates.Use use = predicates.push(predicate);
      if (use != PushedPredicates.Use.NONE) {
        pushed.add(predicate);
      }
      if (use != PushedPredicates.Use.COMPLETE) {
        remaining.add(predicate);
      }
    }
    return remaining.toArray(new Predicate[0]);
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushed.toArray(new Predicate[0]);
  }

  /**
   * The limit applies to each task, so Spark still has to apply it to the whole read. It cannot be divided among the
   * tasks, because the number of records in an offset range is unknown before the range is read.
   */
  @Override
  public boolean pushLimit(int limit) {
    this.limit = limit;
    return true;
  }

  @Override
  public Scan build() {
    return new KafkaScan(options, schema, predicates, pushed, limit);
  }
}
