package io.github.samsarrow.spark;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code format("samsarrow")}: Kafka in Spark with the columns and options of Spark's own connector. Spark takes it
 * before the Python source of this name.
 */
public class Source implements TableProvider, DataSourceRegister {
  /** What the table is called: the name that means no other source. */
  static final String NAME = "samsarrow-jvm";

  @Override
  public String shortName() {
    return "samsarrow";
  }

  /** What Spark was last given as the columns, to make a table of. */
  private Columns.Asked asked;

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    asked = Columns.ask(new Options(options), Map.of());
    return asked.schema();
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    boolean inferred = asked != null && asked.schema().equals(schema);
    return new KafkaTable(schema, new Options(properties), inferred ? asked.found() : null);
  }

  /** {@code format("samsarrow-jvm")}: always this source, as {@code samsarrow-python} is always the other. */
  public static final class Always extends Source {
    @Override
    public String shortName() {
      return NAME;
    }
  }
}
