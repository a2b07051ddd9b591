package io.github.samsarrow.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Where a query started, in the file {@code sources/N/0} of its checkpoint, in the bytes of Spark's connector: Spark
 * keeps the ends of micro-batches only, and asks for the start again when the first one is repeated.
 */
final class InitialOffsets {
  /** A zero byte was once written for the sake of Spark 2.1 (SPARK-19517), and stayed. */
  private static final String HEAD = "\0v1\n";

  private final Path folder;
  private final Path file;
  private final FileSystem files;

  InitialOffsets(String checkpoint, Configuration configuration) throws IOException {
    folder = new Path(checkpoint);
    file = new Path(folder, "0");
    files = folder.getFileSystem(configuration);
  }

  /** What was kept, or null. */
  KafkaOffset read() throws IOException {
    String text;
    try (InputStream in = files.open(file)) {
      text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (FileNotFoundException none) {
      return null;
    }
    if (!text.startsWith(HEAD)) {
      throw new IOException(file + " is not what Spark's Kafka source writes: its first line must be v1");
    }
    return KafkaOffset.of(text.substring(HEAD.length()));
  }

  /** Keeps a start; the file is there as a whole or not at all. */
  void write(KafkaOffset start) throws IOException {
    files.mkdirs(folder);
    Path unfinished = new Path(folder, ".0." + UUID.randomUUID() + ".tmp");
    try (OutputStream out = files.create(unfinished, false)) {
      out.write((HEAD + start.json()).getBytes(StandardCharsets.UTF_8));
    }
    if (!files.rename(unfinished, file)) {
      files.delete(unfinished, false);
      throw new IOException(file + " cannot be written: does another query use this checkpoint?");
    }
  }
}
