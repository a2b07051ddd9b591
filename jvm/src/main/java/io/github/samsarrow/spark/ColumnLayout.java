package io.github.samsarrow.spark;

import org.apache.spark.unsafe.Platform;

/**
 * Memory into which the core writes where the columns of a batch are: 8 slots for the batch, 8 for each vector, which are
 * the columns and what is within them.
 */
final class Frame {
  static final int SLOT = Long.BYTES;
  private static final int SLOTS = 8;

  /** From one vector's slots to the next one's. */
  static final long VECTOR = (long) SLOTS * SLOT;

  private long address;

  Frame(int vectors) {
    long bytes = VECTOR * (1 + vectors);
    address = Platform.allocateMemory(bytes);
    Platform.setMemory(address, (byte) 0, bytes);
  }

  long address() {
    return address;
  }

  /** Where the slots of the first vector begin. */
  long slots() {
    return address + VECTOR;
  }

  void free() {
    Platform.freeMemory(address);
    address = 0;
  }
}
