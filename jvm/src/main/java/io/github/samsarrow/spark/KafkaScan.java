package io.github.samsarrow.spark;

import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.stream.Collectors;
import org.apache.spark.SparkBuildInfo;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/** A read, which is planned once on the driver. */
final class KafkaScan implements SupportsReportStatistics, Batch {
  /** {@code -Dsamsarrow.columnar=false} on the driver disables columnar batches. */
  private static final String COLUMNAR = "samsarrow.columnar";

  /** Spark version in which plain Python UDFs hang on any columnar source (SPARK-58241). */
  private static final String HANGS_WITH_COLUMNS = "4.2.0";

  private final Options options;
  private final StructType schema;
  private final PushedPredicates predicates;
  private final List<Predicate> pushed;
  private final Integer limit;
  private final boolean columnar =
      Boolean.parseBoolean(System.getProperty(COLUMNAR, "true"))
          && !SparkBuildInfo.spark_version().equals(HANGS_WITH_COLUMNS);
  private Map<String, Object> plan;
  private boolean streaming;
  private boolean realTime;

  KafkaScan(Options options, StructType schema, PushedPredicates predicates, List<Predicate> pushed, Integer limit) {
    this.options = options;
    this.schema = schema;
    this.predicates = predicates;
    this.pushed = pushed;
    this.limit = limit;
  }

  private synchronized Map<String, Object> plan() {
    if (plan == null) {
      Map<String, Object> request = Client.newRequest("batch");
      request.put("filters", predicates.json());
      plan = Client.send(options, request);
    }
    return plan;
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public String description() {
    String filters = pushed.stream().map(Object::toString).collect(Collectors.joining(", "));
    String limitText = limit == null ? "" : ", limit " + limit;
    return KafkaSource.NAME + " " + options.topics() + ", pushed filters [" + filters + "]" + limitText;
  }

  /**
   * Returns the same mode for all partitions, because otherwise Spark would plan the partitions several times per
   * micro-batch (SPARK-45080).
   */
  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return columnar && !realTime ? ColumnarSupportMode.SUPPORTED : ColumnarSupportMode.UNSUPPORTED;
  }

  /** Returns empty statistics for a stream, since no batch is planned yet. */
  @Override
  public Statistics estimateStatistics() {
    OptionalLong rows = streaming ? OptionalLong.empty() : OptionalLong.of((Long) plan().get("rows"));
    OptionalLong bytes = streaming ? OptionalLong.empty() : OptionalLong.of((Long) plan().get("bytes"));
    return new Statistics() {
      @Override
      public OptionalLong numRows() {
        return rows;
      }

      @Override
      public OptionalLong sizeInBytes() {
        return bytes;
      }
    };
  }

  /** Switches to real-time mode; Spark calls this before it plans the first batch. */
  void enableRealTimeMode() {
    realTime = true;
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return KafkaRange.all(plan());
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    Options tasks = options.forTasks();
    return realTime ? new RealTimeFactory(tasks, schema) : new ReaderFactory(tasks, schema, columnar, limit);
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    streaming = true;
    return RealTime.stream(this, options, checkpointLocation);
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return Metrics.supported();
  }
}
