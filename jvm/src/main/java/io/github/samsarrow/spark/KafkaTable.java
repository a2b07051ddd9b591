package io.github.samsarrow.spark;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Table for batch and streaming reads and writes of topics. */
final class KafkaTable implements SupportsRead, SupportsWrite {
  private final StructType schema;
  private final Options options;
  private final SamsarrowException unreadable;
  private final WriterSchemas writerSchemas = new WriterSchemas();

  /** Schemas from the registry that determine the types of keys and values; null until they are requested. */
  private String registrySchemas;

  /**
   * Does not throw for columns that cannot be read, because {@code declared} may be the columns of a DataFrame to
   * write. Spark does not report whether the table will be read or written.
   */
  KafkaTable(StructType declared, Options options, String registrySchemas) {
    this.options = options;
    StructType selected = declared;
    SamsarrowException error = null;
    this.registrySchemas = registrySchemas;
    try {
      selected = Columns.select(declared, options.decoded());
    } catch (SamsarrowException invalid) {
      error = invalid;
    }
    schema = selected;
    unreadable = error;
  }

  @Override
  public String name() {
    return KafkaSource.NAME;
  }

  /** Deprecated, but used by all Spark versions from 4.0 to determine the columns. */
  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(
        TableCapability.BATCH_READ,
        TableCapability.MICRO_BATCH_READ,
        TableCapability.BATCH_WRITE,
        TableCapability.STREAMING_WRITE,
        // Accepts the mode overwrite, so that the write fails later with an error that suggests an alternative.
        TableCapability.TRUNCATE,
        TableCapability.ACCEPT_ANY_SCHEMA);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap more) {
    if (unreadable != null) {
      throw unreadable;
    }
    return new KafkaScanBuilder(schema, resolved(options.merge(more)));
  }

  /**
   * Checks the types of {@code .schema(...)} against the schemas of the registry, and returns the options with these
   * schemas.
   */
  private synchronized Options resolved(Options options) {
    if (options.decoded().isEmpty()) {
      return options;
    }
    Map<String, Object> types = Columns.types(schema, options.decoded());
    if (registrySchemas == null) {
      registrySchemas = Columns.resolve(options, types).registrySchemas();
    }
    return options.withTypes(registrySchemas, types);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new KafkaWriteBuilder(options.merge(info.options()), info.schema(), writerSchemas);
  }
}
