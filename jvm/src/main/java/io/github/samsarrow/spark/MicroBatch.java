package io.github.samsarrow.spark;

import java.io.Serializable;
import java.util.Map;
import org.apache.spark.SparkContext;

/**
 * Micro-batch of a query, read from local properties of the thread that runs the micro-batch. In foreachBatch, these
 * properties are the only source of the query id and the number.
 *
 * @param query id of the query, stored in its checkpoint, or null
 * @param number number of the micro-batch, or null
 */
record MicroBatch(String query, String number) implements Serializable {
  /**
   * Returns the micro-batch that this driver thread runs. Outside of a query its fields are null, which the library
   * rejects.
   */
  static MicroBatch current() {
    SparkContext spark = SparkContext.getOrCreate();
    return new MicroBatch(
        spark.getLocalProperty("sql.streaming.queryId"), spark.getLocalProperty("streaming.sql.batchId"));
  }

  void addTo(Map<String, Object> request) {
    request.put("query", query);
    request.put("number", number);
  }
}
