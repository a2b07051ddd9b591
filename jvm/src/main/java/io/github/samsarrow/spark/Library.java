package io.github.samsarrow.spark;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.CodeSource;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Loads the native library: extracts the file to a folder that only this process can access, loads the library and
 * deletes the file. Nothing is shared with other users, applications or class loaders.
 */
final class Library {
  /**
   * System property that sets another folder for the library, for machines whose temporary folder is mounted noexec.
   */
  static final String FOLDER = "samsarrow.native.dir";

  private static final long ABI = 5;
  private static final String FILE = "libsamsarrow_jvm.so";
  private static final String ALTERNATIVE =
      "; format(\"samsarrow-python\") reads the same without a native library, where Python has samsarrow";

  private static boolean loaded;
  private static String failure;

  private Library() {}

  /**
   * Loads the library once. After a failure, each call throws the same error.
   *
   * @throws SamsarrowException if there is no library for this machine, or the library is damaged or cannot be loaded
   */
  static synchronized void load() {
    if (loaded) {
      return;
    }
    if (failure == null) {
      failure = otherVersion();
    }
    if (failure == null) {
      failure = failureOf(platform(), folder());
    }
    if (failure != null) {
      throw new SamsarrowException("library", "NativeLibraryError", false, failure + ALTERNATIVE);
    }
    loaded = true;
  }

  private static String platform() {
    String machine = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
    String arch = machine.equals("amd64") ? "x86_64" : machine;
    return System.getProperty("os.name").toLowerCase(Locale.ROOT) + "-" + arch;
  }

  private static Path folder() {
    return Path.of(System.getProperty(FOLDER, System.getProperty("java.io.tmpdir")));
  }

  /** Loads the library. Returns null on success, otherwise a description of the failure. */
  static String failureOf(String platform, Path folder) {
    try {
      byte[] library = resource("/native/" + platform + "/" + FILE);
      byte[] hash = resource("/native/" + platform + "/" + FILE + ".sha256");
      if (library == null || hash == null) {
        return "the jar has no native library for " + platform;
      }
      String expected = new String(hash, StandardCharsets.US_ASCII).trim();
      if (!expected.equals(HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(library)))) {
        return "the native library in the jar is damaged: its SHA-256 is not " + expected;
      }
      loadFrom(folder, library);
      return failureOf(Native.about(), version());
    } catch (IOException error) {
      return "the native library cannot be written below " + folder + ", set -D" + FOLDER + "=: " + oneLine(error);
    } catch (UnsatisfiedLinkError error) {
      return "the native library cannot be loaded" + hint(String.valueOf(error.getMessage())) + ": " + oneLine(error);
    } catch (NoSuchAlgorithmException error) {
      return "this JVM has no SHA-256";
    }
  }

  private static String failureOf(byte[] about, String version) {
    Map<?, ?> library = (Map<?, ?>) Json.parse(about);
    if (library.get("version").equals(version) && library.get("abi").equals(ABI)) {
      return null;
    }
    return String.format(
        "the native library is version %s with ABI %s, the classes want version %s with ABI %d: two versions of the jar"
            + " are mixed",
        library.get("version"), library.get("abi"), version, ABI);
  }

  /**
   * Returns a description of the failure if the wheel samsarrow-spark installed this jar next to another version of
   * samsarrow, otherwise null.
   */
  private static String otherVersion() {
    try {
      CodeSource source = Library.class.getProtectionDomain().getCodeSource();
      URI uri = source == null || source.getLocation() == null ? null : source.getLocation().toURI();
      return uri == null || !"file".equals(uri.getScheme()) ? null : otherVersion(Path.of(uri), version());
    } catch (IOException | URISyntaxException | SecurityException unknown) {
      // A folder that cannot be listed is not a reason to fail.
      return null;
    }
  }

  /** Compares the version of an installed jar with the metadata of samsarrow in the same site-packages. */
  static String otherVersion(Path jar, String version) throws IOException {
    Path jars = jar.toAbsolutePath().getParent();
    if (jars == null || !jars.endsWith(Path.of("pyspark", "jars"))) {
      return null;
    }
    Path packages = jars.getParent().getParent();
    List<String> versions = new ArrayList<>();
    try (DirectoryStream<Path> folders = Files.newDirectoryStream(packages, "samsarrow-*.dist-info")) {
      for (Path folder : folders) {
        String name = folder.getFileName().toString();
        versions.add(name.substring("samsarrow-".length(), name.length() - ".dist-info".length()));
      }
    }
    if (versions.isEmpty() || versions.contains(version)) {
      return null;
    }
    return String.format(
        "%s is version %s, and samsarrow in the same environment is version %s: pip install 'samsarrow-spark==%3$s' and"
            + " start Spark again",
        jar, version, versions.get(0));
  }

  /** Returns the version of the classes, which the build stores in the jar. */
  private static String version() throws IOException {
    byte[] version = resource("version");
    return version == null ? "unknown" : new String(version, StandardCharsets.UTF_8);
  }

  private static byte[] resource(String name) throws IOException {
    try (InputStream in = Library.class.getResourceAsStream(name)) {
      return in == null ? null : in.readAllBytes();
    }
  }

  private static void loadFrom(Path below, byte[] library) throws IOException {
    FileAttribute<?> ownerOnly = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));
    Path folder = Files.createTempDirectory(below, "samsarrow-", ownerOnly);
    Path file = folder.resolve(FILE);
    try {
      Files.write(file, library, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
      System.load(file.toString());
    } finally {
      Files.deleteIfExists(file);
      Files.deleteIfExists(folder);
    }
  }

  /** Returns an explanation of a loader error, or an empty text. */
  static String hint(String text) {
    if (text.contains("failed to map segment") || text.contains("Operation not permitted")) {
      return " (its folder is mounted noexec: set -D" + FOLDER + "= to another)";
    }
    if (text.contains("GLIBC") || text.contains("ld-linux") || text.contains("libc.so")) {
      return " (it needs a Linux with a newer glibc)";
    }
    return "";
  }

  private static String oneLine(Throwable error) {
    return (error.getClass().getSimpleName() + ": " + error.getMessage()).replace('\n', ' ');
  }
}
