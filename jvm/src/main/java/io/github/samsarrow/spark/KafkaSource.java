package io.github.samsarrow.spark;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code format("samsarrow")}: Kafka in Spark with the columns and options of Spark's own connector. Spark prefers this
 * source to the Python source of the same name.
 */
public class KafkaSource implements TableProvider, DataSourceRegister {
  /** Name of the tables of this source. No other source has this name. */
  static final String NAME = "samsarrow-jvm";

  @Override
  public String shortName() {
    return "samsarrow";
  }

  /** The last inferred columns. Spark passes them back when it creates a table. */
  private Columns.ReadSchema inferred;

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    inferred = Columns.resolve(new Options(options), Map.of());
    return inferred.schema();
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    boolean isInferred = inferred != null && inferred.schema().equals(schema);
    return new KafkaTable(schema, new Options(properties), isInferred ? inferred.registrySchemas() : null);
  }

  /**
   * {@code format("samsarrow-jvm")} always selects this source, just as {@code samsarrow-python} always selects the
   * Python source.
   */
  public static final class Always extends KafkaSource {
    @Override
    public String shortName() {
      return NAME;
    }
  }
}
