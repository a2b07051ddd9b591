package io.github.samsarrow.spark;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.TaskContext;

/** Handle of a client in the native library. Clients with equal options share their connections. */
final class Client implements AutoCloseable {
  private long handle;

  Client(Options options) {
    Library.load();
    handle = Native.client(options.json());
  }

  /** Sends one request with a temporary client. */
  static Map<String, Object> send(Options options, Map<String, Object> request) {
    try (Client client = new Client(options)) {
      return client.send(request);
    }
  }

  /** Returns a request to which more fields can be added. */
  static Map<String, Object> newRequest(String ask) {
    Map<String, Object> request = new LinkedHashMap<>();
    request.put("ask", ask);
    return request;
  }

  /**
   * Sends a request and returns the response.
   *
   * @throws UncheckedIOException if the thread was interrupted while it waited for brokers. Its cause is an
   *     InterruptedIOException, which Spark treats as the end of a stopped query
   */
  @SuppressWarnings("unchecked")
  Map<String, Object> send(Map<String, Object> request) {
    long pending = Native.plan(handle(), Json.bytes(request));
    try {
      byte[] response = Native.answer(pending, KillCheck.MS);
      while (response == null) {
        KillCheck.check(TaskContext.get(), "brokers or a schema registry to respond");
        NativeLog.drain();
        response = Native.answer(pending, KillCheck.MS);
      }
      return (Map<String, Object>) Json.parse(response);
    } catch (InterruptedIOException interrupted) {
      throw new UncheckedIOException(interrupted);
    } finally {
      Native.cancel(pending);
      NativeLog.drain();
    }
  }

  long open(Map<String, Object> range) {
    return Native.open(handle(), Json.bytes(range));
  }

  long openWriter(Map<String, Object> request) {
    return Native.openWriter(handle(), Json.bytes(request));
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
      NativeLog.drain();
    }
  }
}
