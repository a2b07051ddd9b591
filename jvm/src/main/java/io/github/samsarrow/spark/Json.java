package io.github.samsarrow.spark;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Parses and formats the JSON of requests, responses and checkpoints. JSON values are represented as maps, lists,
 * strings, longs, booleans and null.
 */
final class Json {
  private static final int MAX_DEPTH = 32;

  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  static Object parse(byte[] utf8) {
    return parse(new String(utf8, StandardCharsets.UTF_8));
  }

  /**
   * Parses one value.
   *
   * @throws IllegalArgumentException if the text is not valid JSON
   */
  static Object parse(String text) {
    Json json = new Json(text);
    Object value = json.value(0);
    json.skipWhitespace();
    if (json.at < text.length()) {
      throw json.error();
    }
    return value;
  }

  static byte[] bytes(Object value) {
    return text(value).getBytes(StandardCharsets.UTF_8);
  }

  /** Formats the value without whitespace, as Spark's connector does. */
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
      for (Object item : list) {
        write(item, out.append(between));
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
    skipWhitespace();
    if (at >= text.length() || depth > MAX_DEPTH) {
      throw error();
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
    Map<String, Object> fields = new LinkedHashMap<>();
    at++;
    if (take('}')) {
      return fields;
    }
    do {
      skipWhitespace();
      if (at >= text.length() || text.charAt(at) != '"') {
        throw error();
      }
      String name = string();
      if (!take(':')) {
        throw error();
      }
      fields.put(name, value(depth + 1));
    } while (take(','));
    if (!take('}')) {
      throw error();
    }
    return fields;
  }

  private List<Object> list(int depth) {
    List<Object> items = new ArrayList<>();
    at++;
    if (take(']')) {
      return items;
    }
    do {
      items.add(value(depth + 1));
    } while (take(','));
    if (!take(']')) {
      throw error();
    }
    return items;
  }

  private String string() {
    StringBuilder out = new StringBuilder();
    for (at++; at < text.length(); at++) {
      char c = text.charAt(at);
      if (c == '"') {
        at++;
        return out.toString();
      }
      out.append(c == '\\' ? unescape() : c);
    }
    throw error();
  }

  private char unescape() {
    at++;
    int kind = at < text.length() ? "\"\\/bfnrtu".indexOf(text.charAt(at)) : -1;
    if (kind < 0) {
      throw error();
    }
    if (kind < 8) {
      return "\"\\/\b\f\n\r\t".charAt(kind);
    }
    if (at + 4 >= text.length()) {
      throw error();
    }
    at += 4;
    try {
      return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
    } catch (NumberFormatException invalid) {
      throw error();
    }
  }

  private Object number() {
    int start = at;
    while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
    try {
      return new BigDecimal(text.substring(start, at)).longValueExact();
    } catch (ArithmeticException | NumberFormatException invalid) {
      throw error();
    }
  }

  private boolean word(String word) {
    boolean matches = text.startsWith(word, at);
    at += matches ? word.length() : 0;
    return matches;
  }

  private boolean take(char c) {
    skipWhitespace();
    boolean matches = at < text.length() && text.charAt(at) == c;
    at += matches ? 1 : 0;
    return matches;
  }

  private void skipWhitespace() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
  }

  private IllegalArgumentException error() {
    return new IllegalArgumentException("invalid or unsupported JSON at character " + at);
  }
}
