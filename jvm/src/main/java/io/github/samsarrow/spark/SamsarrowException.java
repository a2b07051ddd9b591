package io.github.samsarrow.spark;

/** Error of the library. Its kind and name are those of the Python source's exceptions. */
public final class SamsarrowException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final String kind;
  private final String name;
  private final boolean retriable;

  /**
   * The library calls this constructor through JNI.
   *
   * @param kind the family of the error, such as {@code configuration} or {@code data_loss}
   * @param name the name of its class in Python, such as {@code UnknownTopicOrPartitionError}
   * @param retriable true if the same call may succeed later
   * @param text description of the error, with a suggestion
   */
  public SamsarrowException(String kind, String name, boolean retriable, String text) {
    super(name + ": " + text);
    this.kind = kind;
    this.name = name;
    this.retriable = retriable;
  }

  /** Creates an error for an invalid option. */
  static SamsarrowException configuration(String text) {
    return new SamsarrowException("configuration", "ConfigurationError", false, text);
  }

  public String kind() {
    return kind;
  }

  public String name() {
    return name;
  }

  public boolean retriable() {
    return retriable;
  }
}
