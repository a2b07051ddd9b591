package io.github.samsarrow.spark;

import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Native buffer into which rows are written one after the other. A byte string is written as its length and its bytes,
 * or as −1 for null. A number is written as a 1 and the number, or as a 0 for null.
 */
final class RowBuffer {
  private static final int NULL = -1;

  private final long address;
  private final long size;
  private long length;
  private int rows;

  RowBuffer(long address, long size) {
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

  /** Returns true if this many more bytes fit into the buffer. */
  boolean hasCapacity(long bytes) {
    return bytes <= size - length;
  }

  void endRow() {
    rows++;
  }

  /** Empties the buffer once the library has copied the rows. */
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

  void putNullNumber() {
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

  /**
   * Reserves bytes and returns their address. If the reported size of a row was wrong, throws an exception instead of
   * passing the end of the buffer.
   */
  private long advance(long bytes) {
    if (!hasCapacity(bytes)) {
      throw new IllegalStateException("a row is larger than its reported size");
    }
    long position = address + length;
    length += bytes;
    return position;
  }
}
