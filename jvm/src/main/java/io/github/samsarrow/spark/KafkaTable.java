package io.github.samsarrow.spark;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Topics as a table that batches and streams are read from and written to. */
final class KafkaTable implements SupportsRead, SupportsWrite {
  private final StructType schema;
  private final Options options;
  private final SamsarrowException unreadable;

  /** What a registry said that keys and values look like; null where it was not asked yet. */
  private String found;

  /** Spark does not say here what for: columns that cannot be read may be those of a DataFrame to be written. */
  KafkaTable(StructType given, Options options, String found) {
    this.options = options;
    StructType chosen = given;
    SamsarrowException refusal = null;
    this.found = found;
    try {
      chosen = Columns.chosen(given, options.decoded());
    } catch (SamsarrowException error) {
      refusal = error;
    }
    schema = chosen;
    unreadable = refusal;
  }

  @Override
  public String name() {
    return Source.NAME;
  }

  /** Deprecated, and what every Spark from 4.0 on makes the columns of. */
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
        // The mode overwrite comes as far as the error that says what to do.
        TableCapability.TRUNCATE,
        TableCapability.ACCEPT_ANY_SCHEMA);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap more) {
    if (unreadable != null) {
      throw unreadable;
    }
    return new Builder(schema, asked(options.and(more)));
  }

  /** The options, once it is known that columns which are decoded can be what {@code .schema(...)} says. */
  private synchronized Options asked(Options options) {
    if (options.decoded().isEmpty()) {
      return options;
    }
    if (found == null) {
      found = Columns.ask(options, Columns.types(schema, options.decoded())).found();
    }
    return options.knowing(found);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new WriteBuild(options.and(info.options()), info.schema());
  }
}
