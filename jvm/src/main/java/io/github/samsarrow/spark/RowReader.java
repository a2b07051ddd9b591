package io.github.samsarrow.spark;

import java.io.IOException;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;

/** Returns the batches of a {@link Reader} row by row. */
final class RowReader implements PartitionReader<InternalRow> {
  private final Reader batches;
  private Iterator<InternalRow> rows = Collections.emptyIterator();
  private InternalRow row;

  RowReader(Reader batches) {
    this.batches = batches;
  }

  @Override
  public boolean next() throws IOException {
    while (!rows.hasNext()) {
      if (!batches.next()) {
        return false;
      }
      rows = batches.get().rowIterator();
    }
    row = rows.next();
    return true;
  }

  @Override
  public InternalRow get() {
    return row;
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return batches.currentMetricsValues();
  }

  @Override
  public void close() {
    batches.close();
  }
}
