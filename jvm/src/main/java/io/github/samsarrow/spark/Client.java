package io.github.samsarrow.spark;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.TaskContext;

/** A share in the core's client of these options. */
final class Client implements AutoCloseable {
  private long handle;

  Client(Options options) {
    Library.load();
    handle = Native.client(options.json());
  }

  /** Asks once, with a client for the length of the question. */
  static Map<String, Object> ask(Options options, Map<String, Object> question) {
    try (Client client = new Client(options)) {
      return client.ask(question);
    }
  }

  /** A question, to which more fields can be added. */
  static Map<String, Object> question(String ask) {
    Map<String, Object> question = new LinkedHashMap<>();
    question.put("ask", ask);
    return question;
  }

  /**
   * Returns the answer to a question.
   *
   * @throws UncheckedIOException of an InterruptedIOException, which Spark takes for the end of a query that is stopped:
   *     the thread was interrupted while brokers did not answer
   */
  @SuppressWarnings("unchecked")
  Map<String, Object> ask(Map<String, Object> question) {
    long request = Native.plan(handle(), Json.bytes(question));
    try {
      byte[] answer = Native.answer(request, Waiting.MS);
      while (answer == null) {
        Waiting.check(TaskContext.get(), "brokers or a registry to answer");
        Log.drain();
        answer = Native.answer(request, Waiting.MS);
      }
      return (Map<String, Object>) Json.parse(answer);
    } catch (InterruptedIOException interrupted) {
      throw new UncheckedIOException(interrupted);
    } finally {
      Native.cancel(request);
      Log.drain();
    }
  }

  long open(Map<String, Object> range) {
    return Native.open(handle(), Json.bytes(range));
  }

  long openWriter(Map<String, Object> question) {
    return Native.openWriter(handle(), Json.bytes(question));
  }

  private synchronized long handle() {
    if (handle == 0) {
      throw new IllegalStateException("this client is closed");
    }
    return handle;
  }

  @Override
  public synchronized void close() {
    if (handle != 0) {
      Native.release(handle);
      handle = 0;
      Log.drain();
    }
  }
}
