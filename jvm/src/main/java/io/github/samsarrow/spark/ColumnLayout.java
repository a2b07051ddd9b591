package io.github.samsarrow.spark;

import org.apache.spark.unsafe.Platform;

/**
 * Native memory to which the library writes the addresses of the columns of a batch: 8 slots for the batch, and 8 slots
 * for each vector, including nested vectors.
 */
final class ColumnLayout {
  static final int SLOT = Long.BYTES;
  private static final int SLOTS = 8;

  /** Size of the slots of one vector, in bytes. */
  static final long VECTOR = (long) SLOTS * SLOT;

  private long address;

  ColumnLayout(int vectors) {
    long bytes = VECTOR * (1 + vectors);
    address = Platform.allocateMemory(bytes);
    Platform.setMemory(address, (byte) 0, bytes);
  }

  long address() {
    return address;
  }

  /** Returns the address of the first vector's slots. */
  long slots() {
    return address + VECTOR;
  }

  void free() {
    Platform.freeMemory(address);
    address = 0;
  }
}
