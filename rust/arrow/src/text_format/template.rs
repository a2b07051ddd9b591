//! Templates for lines, such as `{topic} {offset}: {value}`.

use thiserror::Error;

use super::{Rows, json, number, time, valid};

/// A parsed template.
#[derive(Debug, Clone)]
pub struct Template {
    tokens: Vec<Token>,
}

/// A syntax error in a template.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what} (fields are {FIELDS}; braces that are text are doubled)")]
pub struct TemplateError {
    what: String,
}

/// List of the fields, for error messages.
const FIELDS: &str = "{topic}, {partition}, {offset}, {delivery_count}, {timestamp}, {timestamp:ms}, {key}, {value}, \
                      {headers}, {header.NAME}, {size}; of key, value and header also {…:json}, {…:hex}, {…:base64}";

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Text(Vec<u8>),
    Topic,
    Partition,
    Offset,
    DeliveryCount,
    Time,
    Milliseconds,
    Headers,
    Size,
    Bytes(BytesField, BytesEncoding),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum BytesField {
    Key,
    Value,
    Header(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BytesEncoding {
    Bytes,
    Json,
    Hex,
    Base64,
}

impl Template {
    /// Parses a template, in which `\n`, `\t`, `\r`, `\0`, `\e` and `\\` are the usual escapes. A newline is added
    /// after each record, unless the template ends with `\c`, as with `echo`.
    ///
    /// # Errors
    /// Fails if the template contains an unknown field or escape, or an unbalanced brace.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        let (text, newline) = match text.strip_suffix("\\c") {
            Some(text) => (text, false),
            None => (text, true),
        };
        let mut tokens = Vec::new();
        let mut text_run = String::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '\\' => text_run.push(escaped(rest.next())?),
                '{' | '}' if rest.as_str().starts_with(c) => {
                    rest.next();
                    text_run.push(c);
                }
                '{' => {
                    let Some((field, after)) = rest.as_str().split_once('}') else {
                        return Err(TemplateError { what: format!("there is no }} after {{{}", rest.as_str()) });
                    };
                    if !text_run.is_empty() {
                        tokens.push(Token::Text(std::mem::take(&mut text_run).into_bytes()));
                    }
                    tokens.push(token(field)?);
                    rest = after.chars();
                }
                '}' => return Err(TemplateError { what: "there is a } without a {".to_owned() }),
                c => text_run.push(c),
            }
        }
        if newline {
            text_run.push('\n');
        }
        if !text_run.is_empty() {
            tokens.push(Token::Text(text_run.into_bytes()));
        }
        Ok(Template { tokens })
    }

    /// Returns true if the template contains headers, which are decoded only in this case.
    pub fn wants_headers(&self) -> bool {
        self.tokens.iter().any(|token| matches!(token, Token::Headers | Token::Bytes(BytesField::Header(_), _)))
    }

    pub(super) fn write(&self, rows: &Rows, row: usize, out: &mut Vec<u8>) {
        for token in &self.tokens {
            match token {
                Token::Text(text) => out.extend_from_slice(text),
                Token::Topic => out.extend_from_slice(rows.topic.get(row).unwrap_or_default()),
                Token::Partition => number(valid(&rows.partition, row).map(i64::from), out),
                Token::Offset => number(valid(&rows.offset, row), out),
                // Only rows of share groups have it.
                Token::DeliveryCount => {
                    if let Some(count) = rows.delivery_count(row) {
                        number(Some(count), out);
                    }
                }
                Token::Time => {
                    if let Some(ms) = valid(&rows.timestamp, row) {
                        time::iso(ms, out);
                    }
                }
                Token::Milliseconds => {
                    if let Some(ms) = valid(&rows.timestamp, row) {
                        number(Some(ms), out);
                    }
                }
                Token::Headers => rows.header_pairs(row, out),
                Token::Size => {
                    let len = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
                    number(i64::try_from(len(rows.key.get(row)) + len(rows.value.get(row))).ok(), out);
                }
                Token::Bytes(of, how) => {
                    let bytes = match of {
                        BytesField::Key => rows.key.get(row),
                        BytesField::Value => rows.value.get(row),
                        // If several headers have this name, the last one counts, as with `lastHeader` in Java.
                        BytesField::Header(name) => {
                            rows.headers(row).filter(|(key, _)| *key == name.as_bytes()).last().and_then(|(_, v)| v)
                        }
                    };
                    how.write(bytes, out);
                }
            }
        }
    }
}

impl BytesEncoding {
    fn write(self, bytes: Option<&[u8]>, out: &mut Vec<u8>) {
        match (self, bytes) {
            (BytesEncoding::Json, None) => out.extend_from_slice(b"null"),
            (_, None) => {}
            (BytesEncoding::Bytes, Some(bytes)) => out.extend_from_slice(bytes),
            (BytesEncoding::Json, bytes) => json::text_or_null(bytes, out),
            (BytesEncoding::Hex, Some(bytes)) => {
                let digit = |four: u8| if four < 10 { b'0' + four } else { b'a' + four - 10 };
                out.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
            }
            (BytesEncoding::Base64, bytes) => {
                let start = out.len();
                json::base64(bytes, out);
                // Remove the quotes.
                out.pop();
                if start < out.len() {
                    out.remove(start);
                }
            }
        }
    }
}

fn escaped(c: Option<char>) -> Result<char, TemplateError> {
    Ok(match c {
        Some('n') => '\n',
        Some('t') => '\t',
        Some('r') => '\r',
        Some('0') => '\0',
        Some('e') => '\x1b',
        Some('\\') => '\\',
        Some(other) => {
            return Err(TemplateError { what: format!("unknown escape \\{other}; \\\\ is a backslash") });
        }
        None => return Err(TemplateError { what: "it ends in a backslash".to_owned() }),
    })
}

fn token(field: &str) -> Result<Token, TemplateError> {
    let (name, how) = match field.rsplit_once(':') {
        Some((name, how)) => (name, Some(how)),
        None => (field, None),
    };
    let unknown = || TemplateError { what: format!("there is no field {{{field}}}") };
    let of = match (name, name.strip_prefix("header.")) {
        (_, Some(header)) if !header.is_empty() => BytesField::Header(header.to_owned()),
        ("key", _) => BytesField::Key,
        ("value", _) => BytesField::Value,
        _ => {
            return Ok(match (name, how) {
                ("topic", None) => Token::Topic,
                ("partition", None) => Token::Partition,
                ("offset", None) => Token::Offset,
                ("delivery_count", None) => Token::DeliveryCount,
                ("timestamp", None) => Token::Time,
                ("timestamp", Some("ms")) => Token::Milliseconds,
                ("headers", None) => Token::Headers,
                ("size", None) => Token::Size,
                _ => return Err(unknown()),
            });
        }
    };
    let how = match how {
        None => BytesEncoding::Bytes,
        Some("json") => BytesEncoding::Json,
        Some("hex") => BytesEncoding::Hex,
        Some("base64") => BytesEncoding::Base64,
        Some(_) => return Err(unknown()),
    };
    Ok(Token::Bytes(of, how))
}
