import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * {@code format("vectors")}: returns one batch of Spark's own vectors repeatedly, up to the requested number of rows.
 * Its speed is Spark's upper limit for columns, which no source can exceed.
 */
public final class Vectors implements TableProvider, DataSourceRegister {
  private static final int ROWS = 8192;
  private static final int TASKS = 2;
  private static final StructType ALL =
      new StructType()
          .add("key", DataTypes.BinaryType)
          .add("value", DataTypes.BinaryType)
          .add("topic", DataTypes.StringType)
          .add("partition", DataTypes.IntegerType)
          .add("offset", DataTypes.LongType)
          .add("timestamp", DataTypes.TimestampType)
          .add("timestampType", DataTypes.IntegerType);

  @Override
  public String shortName() {
    return "vectors";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return ALL;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new Prebuilt();
  }

  private static final class Prebuilt implements Table, SupportsRead {
    @Override
    public String name() {
      return "vectors";
    }

    @Override
    @SuppressWarnings("deprecation")
    public StructType schema() {
      return ALL;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return new Reading(options.getLong("rows", 0) / TASKS);
    }
  }

  private static final class Reading implements SupportsPushDownRequiredColumns, Scan, Batch {
    private final long rows;
    private StructType schema = ALL;

    Reading(long rows) {
      this.rows = rows;
    }

    @Override
    public void pruneColumns(StructType required) {
      schema = required;
    }

    @Override
    public Scan build() {
      return this;
    }

    @Override
    public StructType readSchema() {
      return schema;
    }

    @Override
    public Batch toBatch() {
      return this;
    }

    @Override
    public InputPartition[] planInputPartitions() {
      InputPartition[] partitions = new InputPartition[TASKS];
      for (int task = 0; task < TASKS; task++) {
        partitions[task] = new Task(task);
      }
      return partitions;
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return new Factory(schema, rows);
    }
  }

  private record Task(int number) implements InputPartition {}

  private record Factory(StructType schema, long rows) implements PartitionReaderFactory {
    @Override
    public boolean supportColumnarReads(InputPartition partition) {
      return true;
    }

    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
      return new Reader(schema, rows, ((Task) partition).number());
    }

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      throw new UnsupportedOperationException("columns only");
    }
  }

  private static final class Reader implements PartitionReader<ColumnarBatch> {
    private final ColumnarBatch batch;
    private long left;

    Reader(StructType schema, long rows, int task) {
      OnHeapColumnVector[] vectors = OnHeapColumnVector.allocateColumns(ROWS, schema);
      for (int column = 0; column < vectors.length; column++) {
        fill(vectors[column], schema.fields()[column].name(), task);
      }
      batch = new ColumnarBatch(vectors);
      left = rows;
    }

    private static void fill(WritableColumnVector vector, String name, int task) {
      byte[] value = new byte[100];
      for (int row = 0; row < ROWS; row++) {
        switch (name) {
          case "key" -> vector.putNull(row);
          case "value" -> vector.putByteArray(row, value);
          case "topic" -> vector.putByteArray(row, "bench-plain".getBytes());
          case "partition" -> vector.putInt(row, task);
          case "timestampType" -> vector.putInt(row, 0);
          default -> vector.putLong(row, row);
        }
      }
    }

    @Override
    public boolean next() {
      batch.setNumRows((int) Math.min(left, ROWS));
      left -= batch.numRows();
      return batch.numRows() > 0;
    }

    @Override
    public ColumnarBatch get() {
      return batch;
    }

    @Override
    public void close() {
      batch.close();
    }
  }
}
