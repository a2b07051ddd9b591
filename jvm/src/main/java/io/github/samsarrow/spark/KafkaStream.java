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

/** A streaming query's source, on the driver. What a micro-batch takes is decided by the core. */
class KafkaStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private final Options options;
  private final String checkpoint;
  private final KafkaScan scan;
  private Client client;
  private volatile boolean stopped;
  private InitialOffsets kept;
  private KafkaOffset initial;
  private boolean unkept;
  private KafkaOffset available;
  private boolean freezing;
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
    introduce();
    if (initial == null) {
      initial = start(null);
      unkept = true;
    }
    return initial;
  }

  /**
   * Lets the core know where the query started, if the checkpoint does, before all else: a query that goes on is not
   * asked for its start.
   */
  private void introduce() {
    if (kept == null) {
      try {
        InitialOffsets file =
            new InitialOffsets(checkpoint, SparkSession.active().sparkContext().hadoopConfiguration());
        KafkaOffset found = file.read();
        if (found != null) {
          start(found);
        }
        initial = found;
        kept = file;
      } catch (IOException error) {
        throw new UncheckedIOException("where the query started: " + error.getMessage(), error);
      }
    }
  }

  /** The start, as the core knows it from now on. */
  private KafkaOffset start(KafkaOffset found) {
    Map<String, Object> question = Client.question("initial");
    question.put("kept", found == null ? null : found.offsets());
    question.put("keeps", true);
    return KafkaOffset.of(client.ask(question).get("offsets"));
  }

  /**
   * Keeps a new start before Spark writes down the end of the first micro-batch. Where that is there already, from a
   * source that keeps no start, this one was never the start.
   */
  private void keep(Offset start) {
    if (unkept && start.equals(initial)) {
      try {
        kept.write(initial);
      } catch (IOException error) {
        throw new UncheckedIOException("where the query started: " + error.getMessage(), error);
      }
    }
    unkept = false;
  }

  @Override
  public Offset deserializeOffset(String json) {
    return KafkaOffset.of(json);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    List<ReadLimit> limits = new ArrayList<>();
    Long least = options.number("minoffsetspertrigger");
    Long most = options.number("maxoffsetspertrigger");
    if (least != null) {
      limits.add(ReadLimit.minRows(least, options.maxTriggerDelayMs()));
    }
    if (most != null) {
      limits.add(ReadLimit.maxRows(most));
    }
    return switch (limits.size()) {
      case 0 -> ReadLimit.allAvailable();
      case 1 -> limits.get(0);
      default -> ReadLimit.compositeLimit(limits.toArray(new ReadLimit[0]));
    };
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    freezing = true;
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark asks with the offsets where the query is");
  }

  @Override
  public synchronized Offset latestOffset(Offset start, ReadLimit limit) {
    introduce();
    keep(start);
    KafkaOffset begin = (KafkaOffset) start;
    Map<String, Object> question = Client.question("latest");
    question.put("start", begin.offsets());
    question.put("limit", limit(limit));
    question.put("freeze", freezing);
    Map<String, Object> answer = client.ask(question);
    available = KafkaOffset.of(answer.get("latest"));
    KafkaOffset end = KafkaOffset.of(answer.get("offsets"));
    // In the words of the checkpoint: those of another source may be spaced differently.
    return end.offsets().equals(begin.offsets()) ? start : end;
  }

  /** Null where all is wanted, whatever the options say (Trigger.Once). The least is kept to by the core. */
  private static Map<String, Object> limit(ReadLimit limit) {
    if (limit instanceof ReadAllAvailable) {
      return null;
    }
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("rows", null);
    ReadLimit[] parts =
        limit instanceof CompositeReadLimit both ? both.getReadLimits() : new ReadLimit[] {limit};
    for (ReadLimit part : parts) {
      if (part instanceof ReadMaxRows most) {
        json.put("rows", most.maxRows());
      }
    }
    return json;
  }

  @Override
  public synchronized Offset reportLatestOffset() {
    return available;
  }

  /** Spark may plan a micro-batch more than once; brokers are asked once. */
  @Override
  public synchronized InputPartition[] planInputPartitions(Offset start, Offset end) {
    if (!planned.equals(List.of(start, end))) {
      introduce();
      Map<String, Object> question = Client.question("ranges");
      question.put("start", ((KafkaOffset) start).offsets());
      question.put("end", ((KafkaOffset) end).offsets());
      ranges = KafkaRange.all(client.ask(question));
      planned = List.of(start, end);
    }
    return ranges;
  }

  /** All partitions from here on, in real-time mode. Spark writes an end down only when the batch is over. */
  final synchronized InputPartition[] open(Offset start) {
    introduce();
    keep(start);
    Map<String, Object> question = Client.question("open");
    question.put("start", ((KafkaOffset) start).offsets());
    return KafkaRange.all(client.ask(question));
  }

  /** Spark wants one for each micro-batch: what tasks log in with may be another by then. */
  @Override
  public PartitionReaderFactory createReaderFactory() {
    return scan.createReaderFactory();
  }

  @Override
  public synchronized void commit(Offset end) {
    if (!stopped) {
      finished(end);
      return;
    }
    // With asynchronous progress, and so in real-time mode, Spark commits once more when it has stopped the source.
    client = new Client(options);
    kept = null;
    try {
      finished(end);
    } finally {
      client.close();
    }
  }

  private void finished(Offset end) {
    introduce();
    Map<String, Object> question = Client.question("commit");
    question.put("end", ((KafkaOffset) end).offsets());
    client.ask(question);
  }

  /** How far the query is behind, by the names of Spark's connector. */
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

  /** As one sees it in a query's progress. */
  @Override
  public String toString() {
    return Source.NAME + " " + options.subject();
  }
}
