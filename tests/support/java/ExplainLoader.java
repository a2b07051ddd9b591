import java.io.File;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;

/** Prints the hint of the jar for each error text of the system's library loader, one per line. */
class ExplainLoader {
  public static void main(String[] jarAndWords) throws Exception {
    URL[] urls = {new File(jarAndWords[0]).toURI().toURL()};
    try (URLClassLoader loader = new URLClassLoader(urls)) {
      Method hint = loader.loadClass("io.github.samsarrow.spark.Library").getDeclaredMethod("hint", String.class);
      hint.setAccessible(true);
      for (int i = 1; i < jarAndWords.length; i++) {
        System.out.println(hint.invoke(null, jarAndWords[i]));
      }
    }
  }
}
