package io.github.samsarrow.spark;

import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Memory of the core's that rows are written into, one behind the other. Bytes are their length and themselves, null is
 * −1 in place of a length; numbers follow a 1, and a 0 stands for null.
 */
final class Block {
  private static final int NULL = -1;

  private final long address;
  private final long size;
  private long length;
  private int rows;

  Block(long address, long size) {
    this.address = address;
    this.size = size;
  }

  long length() {
    return length;
  }

  int rows() {
    return rows;
  }

  long size() {
    return size;
  }

  /** Whether so many bytes more fit. */
  boolean hasRoom(long bytes) {
    return bytes <= size - length;
  }

  void rowDone() {
    rows++;
  }

  /** Begins at the front again, when the core has taken the rows. */
  void clear() {
    length = 0;
    rows = 0;
  }

  void putCount(int count) {
    Platform.putInt(null, advance(Integer.BYTES), count);
  }

  void putNull() {
    putCount(NULL);
  }

  void putBytes(UTF8String bytes) {
    int count = bytes.numBytes();
    putCount(count);
    bytes.writeToMemory(null, advance(count));
  }

  void putNoNumber() {
    putCount(0);
  }

  void putInt(int number) {
    putCount(1);
    putCount(number);
  }

  void putLong(long number) {
    putCount(1);
    Platform.putLong(null, advance(Long.BYTES), number);
  }

  /** Where the next bytes go. Never past the end, whatever a row said about its size. */
  private long advance(long bytes) {
    if (!hasRoom(bytes)) {
      throw new IllegalStateException("a row is larger than it says");
    }
    long at = address + length;
    length += bytes;
    return at;
  }
}
