package io.github.samsarrow.spark;

import java.io.Serializable;
import java.util.Map;
import org.apache.spark.SparkContext;

/**
 * A micro-batch of a query, as Spark says in properties of the thread that runs it: also where a batch is written in
 * foreachBatch, for which it has no other way.
 *
 * @param query its id, which its checkpoint keeps, or null
 * @param number of the micro-batch, or null
 */
record MicroBatch(String query, String number) implements Serializable {
  /** That which this thread of the driver runs; outside of a query the core refuses it. */
  static MicroBatch here() {
    SparkContext spark = SparkContext.getOrCreate();
    return new MicroBatch(
        spark.getLocalProperty("sql.streaming.queryId"), spark.getLocalProperty("streaming.sql.batchId"));
  }

  void addTo(Map<String, Object> question) {
    question.put("query", query);
    question.put("number", number);
  }
}
