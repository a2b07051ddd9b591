package io.github.samsarrow.spark;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON as maps, lists, strings, longs, booleans and null: what the core and checkpoints are spoken to in. */
final class Json {
  private static final int DEEPEST = 32;

  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  static Object parse(byte[] utf8) {
    return parse(new String(utf8, StandardCharsets.UTF_8));
  }

  /**
   * Reads one value.
   *
   * @throws IllegalArgumentException the text is no JSON
   */
  static Object parse(String text) {
    Json json = new Json(text);
    Object value = json.value(0);
    json.blanks();
    if (json.at < text.length()) {
      throw json.wrong();
    }
    return value;
  }

  static byte[] bytes(Object value) {
    return text(value).getBytes(StandardCharsets.UTF_8);
  }

  /** The value without a blank, as Spark's connector writes it. */
  static String text(Object value) {
    StringBuilder out = new StringBuilder();
    write(value, out);
    return out.toString();
  }

  private static void write(Object value, StringBuilder out) {
    if (value instanceof Map<?, ?> map) {
      String between = "{";
      for (Map.Entry<?, ?> entry : map.entrySet()) {
        out.append(between);
        quote(entry.getKey().toString(), out);
        write(entry.getValue(), out.append(':'));
        between = ",";
      }
      out.append(map.isEmpty() ? "{}" : "}");
    } else if (value instanceof Iterable<?> list) {
      String between = "[";
      for (Object one : list) {
        write(one, out.append(between));
        between = ",";
      }
      out.append(between.equals("[") ? "[]" : "]");
    } else if (value instanceof String string) {
      quote(string, out);
    } else {
      out.append(value);
    }
  }

  private static void quote(String string, StringBuilder out) {
    out.append('"');
    for (int i = 0; i < string.length(); i++) {
      char c = string.charAt(i);
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ') {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    out.append('"');
  }

  private Object value(int depth) {
    blanks();
    if (at >= text.length() || depth > DEEPEST) {
      throw wrong();
    }
    char c = text.charAt(at);
    if (c == '{') {
      return object(depth);
    }
    if (c == '[') {
      return list(depth);
    }
    if (c == '"') {
      return string();
    }
    if (word("true")) {
      return true;
    }
    if (word("false")) {
      return false;
    }
    if (word("null")) {
      return null;
    }
    return number();
  }

  private Map<String, Object> object(int depth) {
    Map<String, Object> found = new LinkedHashMap<>();
    at++;
    if (take('}')) {
      return found;
    }
    do {
      blanks();
      if (at >= text.length() || text.charAt(at) != '"') {
        throw wrong();
      }
      String name = string();
      if (!take(':')) {
        throw wrong();
      }
      found.put(name, value(depth + 1));
    } while (take(','));
    if (!take('}')) {
      throw wrong();
    }
    return found;
  }

  private List<Object> list(int depth) {
    List<Object> found = new ArrayList<>();
    at++;
    if (take(']')) {
      return found;
    }
    do {
      found.add(value(depth + 1));
    } while (take(','));
    if (!take(']')) {
      throw wrong();
    }
    return found;
  }

  private String string() {
    StringBuilder out = new StringBuilder();
    for (at++; at < text.length(); at++) {
      char c = text.charAt(at);
      if (c == '"') {
        at++;
        return out.toString();
      }
      out.append(c == '\\' ? escaped() : c);
    }
    throw wrong();
  }

  private char escaped() {
    at++;
    int kind = at < text.length() ? "\"\\/bfnrtu".indexOf(text.charAt(at)) : -1;
    if (kind < 0) {
      throw wrong();
    }
    if (kind < 8) {
      return "\"\\/\b\f\n\r\t".charAt(kind);
    }
    if (at + 4 >= text.length()) {
      throw wrong();
    }
    at += 4;
    try {
      return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
    } catch (NumberFormatException error) {
      throw wrong();
    }
  }

  private Object number() {
    int start = at;
    while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
    try {
      return new BigDecimal(text.substring(start, at)).longValueExact();
    } catch (ArithmeticException | NumberFormatException error) {
      throw wrong();
    }
  }

  private boolean word(String word) {
    boolean there = text.startsWith(word, at);
    at += there ? word.length() : 0;
    return there;
  }

  private boolean take(char c) {
    blanks();
    boolean there = at < text.length() && text.charAt(at) == c;
    at += there ? 1 : 0;
    return there;
  }

  private void blanks() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
  }

  private IllegalArgumentException wrong() {
    return new IllegalArgumentException("no JSON that is read here, at character " + at);
  }
}
