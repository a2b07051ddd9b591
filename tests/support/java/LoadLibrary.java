import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Requests a schema from the source in each jar, and prints a line with the schema or the error. */
class LoadLibrary {
  public static void main(String[] jars) throws Exception {
    for (String jar : jars) {
      URL[] urls = {new File(jar).toURI().toURL()};
      try (URLClassLoader loader = new URLClassLoader(urls, LoadLibrary.class.getClassLoader())) {
        Class<?> source = loader.loadClass("io.github.samsarrow.spark.KafkaSource");
        TableProvider provider = (TableProvider) source.getDeclaredConstructor().newInstance();
        System.out.println(provider.inferSchema(new CaseInsensitiveStringMap(Map.of())));
      } catch (RuntimeException error) {
        System.out.println(error.getMessage().replace('\n', '|'));
      }
    }
  }
}
