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
 * Start offsets of a query, stored in the file {@code sources/N/0} of its checkpoint in the format of Spark's
 * connector. Spark itself stores only the end of each micro-batch, and requests the start again before it repeats the
 * first micro-batch.
 */
final class InitialOffsets {
  /** Spark's connector writes a zero byte for compatibility with Spark 2.1 (SPARK-19517). */
  private static final String HEAD = "\0v1\n";

  private final Path folder;
  private final Path file;
  private final FileSystem files;

  InitialOffsets(String checkpoint, Configuration configuration) throws IOException {
    folder = new Path(checkpoint);
    file = new Path(folder, "0");
    files = folder.getFileSystem(configuration);
  }

  /** Returns the stored start offsets, or null if there are none. */
  KafkaOffset read() throws IOException {
    String text;
    try (InputStream in = files.open(file)) {
      text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (FileNotFoundException missing) {
      return null;
    }
    if (!text.startsWith(HEAD)) {
      throw new IOException(file + " is not a file of Spark's Kafka source: its first line must be v1");
    }
    return KafkaOffset.of(text.substring(HEAD.length()));
  }

  /** Stores the start offsets. The file is written completely or not at all. */
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
