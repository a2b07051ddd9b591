package io.github.samsarrow.spark;

import org.apache.spark.unsafe.Platform;

/** Memory into which the core writes where the columns of a batch are: 8 slots for the batch, 8 for each column. */
final class Frame {
  static final int SLOT = Long.BYTES;
  private static final int SLOTS = 8;

  private long address;

  Frame(int columns) {
    long bytes = (long) SLOTS * SLOT * (1 + columns);
    address = Platform.allocateMemory(bytes);
    Platform.setMemory(address, (byte) 0, bytes);
  }

  long address() {
    return address;
  }

  /** Where the slots of a column begin. */
  long slots(int column) {
    return address + (long) SLOTS * SLOT * (1 + column);
  }

  void free() {
    Platform.freeMemory(address);
    address = 0;
  }
}
