package io.github.samsarrow.spark;

/** What the core raises, in the words of the Python source. */
public final class SamsarrowException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final String kind;
  private final String name;
  private final boolean retriable;

  /**
   * Called by the core.
   *
   * @param kind the family of the error, such as {@code configuration} or {@code data_loss}
   * @param name the name of its class in Python, such as {@code UnknownTopicOrPartitionError}
   * @param retriable whether the same may succeed later
   * @param text what is wrong, where, and what to do
   */
  public SamsarrowException(String kind, String name, boolean retriable, String text) {
    super(name + ": " + text);
    this.kind = kind;
    this.name = name;
    this.retriable = retriable;
  }

  /** An error of the options, found here. */
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
