package io.github.samsarrow.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.LongSummaryStatistics;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/** Driver side of the source of a streaming query. The library plans the micro-batches. */
class KafkaStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private final Options options;
  private final String checkpoint;
  private final KafkaScan scan;
  private Client client;
  private volatile boolean stopped;
  private InitialOffsets startFile;
  private KafkaOffset initial;
  private boolean startUnstored;
  private KafkaOffset available;
  private boolean availableNow;
  private List<Offset> planned = List.of();
  private InputPartition[] ranges;

  KafkaStream(KafkaScan scan, Options options, String checkpoint) {
    this.scan = scan;
    this.options = options;
    this.checkpoint = checkpoint;
    client = new Client(options);
  }

  @Override
  public synchronized Offset initialOffset() {
    sendStoredStart();
    if (initial == null) {
      initial = sendStart(null);
      startUnstored = true;
    }
    return initial;
  }

  /**
   * Sends the stored start of the query to the library before any other request, because Spark does not request the
   * start of a continued query.
   */
  private void sendStoredStart() {
    if (startFile == null) {
      try {
        InitialOffsets file =
            new InitialOffsets(checkpoint, SparkSession.active().sparkContext().hadoopConfiguration());
        KafkaOffset stored = file.read();
        if (stored != null) {
          sendStart(stored);
        }
        initial = stored;
        startFile = file;
      } catch (IOException error) {
        throw new UncheckedIOException("the start of the query cannot be read: " + error.getMessage(), error);
      }
    }
  }

  /**
   * Sends {@code stored}, which is null if the library must resolve the start. Returns the start offsets that the
   * library will use.
   */
  private KafkaOffset sendStart(KafkaOffset stored) {
    Map<String, Object> request = Client.newRequest("initial");
    request.put("kept", stored == null ? null : stored.offsets());
    request.put("keeps", true);
    return KafkaOffset.of(client.send(request).get("offsets"));
  }

  /**
   * Stores a new start before Spark stores the end of the first micro-batch. If the checkpoint already contains that
   * end, because a source that stores no start has written it, then {@code start} differs from the resolved start. In
   * this case nothing is stored.
   */
  private void storeStart(Offset start) {
    if (startUnstored && start.equals(initial)) {
      try {
        startFile.write(initial);
      } catch (IOException error) {
        throw new UncheckedIOException("the start of the query cannot be stored: " + error.getMessage(), error);
      }
    }
    startUnstored = false;
  }

  @Override
  public Offset deserializeOffset(String json) {
    return KafkaOffset.of(json);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    List<ReadLimit> limits = new ArrayList<>();
    Long min = options.number("minoffsetspertrigger");
    Long max = options.number("maxoffsetspertrigger");
    if (min != null) {
      limits.add(ReadLimit.minRows(min, options.maxTriggerDelayMs()));
    }
    if (max != null) {
      limits.add(ReadLimit.maxRows(max));
    }
    return switch (limits.size()) {
      case 0 -> ReadLimit.allAvailable();
      case 1 -> limits.get(0);
      default -> ReadLimit.compositeLimit(limits.toArray(new ReadLimit[0]));
    };
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    availableNow = true;
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark asks with the offsets where the query is");
  }

  @Override
  public synchronized Offset latestOffset(Offset start, ReadLimit limit) {
    sendStoredStart();
    storeStart(start);
    checkEvolution();
    KafkaOffset begin = (KafkaOffset) start;
    Map<String, Object> request = Client.newRequest("latest");
    request.put("start", begin.offsets());
    request.put("limit", limit(limit));
    request.put("freeze", availableNow);
    Map<String, Object> response = client.send(request);
    available = KafkaOffset.of(response.get("latest"));
    KafkaOffset end = KafkaOffset.of(response.get("offsets"));
    // Keeps the JSON text of the checkpoint, because another source may have formatted the same offsets differently.
    return end.offsets().equals(begin.offsets()) ? start : end;
  }

  /** Fails if a schema of the query has a newer version, and this ends the query. */
  private void checkEvolution() {
    if (options.endsWithNewerSchema()) {
      Map<String, Object> request = Client.newRequest("evolution");
      request.put("found", Json.parse(options.registrySchemas()));
      client.send(request);
    }
  }

  /**
   * Returns the limits of a micro-batch. The library applies the smallest of these limits. Returns null if there is no
   * limit, as with Trigger.Once, which overrides the options.
   */
  private static Map<String, Object> limit(ReadLimit limit) {
    if (limit instanceof ReadAllAvailable) {
      return null;
    }
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("rows", null);
    ReadLimit[] parts =
        limit instanceof CompositeReadLimit composite ? composite.getReadLimits() : new ReadLimit[] {limit};
    for (ReadLimit part : parts) {
      if (part instanceof ReadMaxRows max) {
        json.put("rows", max.maxRows());
      }
    }
    return json;
  }

  @Override
  public synchronized Offset reportLatestOffset() {
    return available;
  }

  /**
   * Returns the ranges of a micro-batch. Spark may call this more than once per micro-batch, but only the first call
   * queries the brokers.
   */
  @Override
  public synchronized InputPartition[] planInputPartitions(Offset start, Offset end) {
    if (!planned.equals(List.of(start, end))) {
      sendStoredStart();
      Map<String, Object> request = Client.newRequest("ranges");
      request.put("start", ((KafkaOffset) start).offsets());
      request.put("end", ((KafkaOffset) end).offsets());
      ranges = KafkaRange.all(client.send(request));
      planned = List.of(start, end);
    }
    return ranges;
  }

  /**
   * Plans a real-time batch of all partitions. Spark stores the end offsets of the batch only when the batch is over.
   */
  final synchronized InputPartition[] planRealTime(Offset start) {
    sendStoredStart();
    storeStart(start);
    checkEvolution();
    Map<String, Object> request = Client.newRequest("open");
    request.put("start", ((KafkaOffset) start).offsets());
    return KafkaRange.all(client.send(request));
  }

  /**
   * Spark calls this for each micro-batch. The new factory contains the current delegation token, which may have
   * changed.
   */
  @Override
  public PartitionReaderFactory createReaderFactory() {
    return scan.createReaderFactory();
  }

  @Override
  public synchronized void commit(Offset end) {
    if (!stopped) {
      reportCommitted(end);
      return;
    }
    // With asynchronous progress tracking, which real-time mode uses, Spark commits once more after it has stopped the
    // source.
    client = new Client(options);
    startFile = null;
    try {
      reportCommitted(end);
    } finally {
      client.close();
    }
  }

  private void reportCommitted(Offset end) {
    sendStoredStart();
    Map<String, Object> request = Client.newRequest("commit");
    request.put("end", ((KafkaOffset) end).offsets());
    client.send(request);
  }

  /** Returns the lag of the query, with the same metric names as Spark's connector. */
  @Override
  public synchronized Map<String, String> metrics(Optional<Offset> consumed) {
    if (consumed.isEmpty() || available == null || available.offsets().isEmpty()) {
      return Map.of();
    }
    KafkaOffset done = KafkaOffset.of(consumed.get().json());
    LongSummaryStatistics behind = new LongSummaryStatistics();
    available
        .offsets()
        .forEach((topic, ends) -> ends.forEach((number, end) -> behind.accept(end - done.at(topic, number))));
    Map<String, String> metrics = new TreeMap<>();
    metrics.put("minOffsetsBehindLatest", Long.toString(behind.getMin()));
    metrics.put("maxOffsetsBehindLatest", Long.toString(behind.getMax()));
    metrics.put("avgOffsetsBehindLatest", Double.toString(behind.getAverage()));
    return metrics;
  }

  @Override
  public void stop() {
    stopped = true;
    client.close();
  }

  /** Returns the description that Spark shows in the query's progress. */
  @Override
  public String toString() {
    return KafkaSource.NAME + " " + options.topics();
  }
}
