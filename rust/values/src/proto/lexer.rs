//! Tokens of a `.proto` file.

use crate::error::SchemaError;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    /// Text of an integer or a floating-point number.
    Number(&'a str),
    Quoted(Vec<u8>),
    Mark(char),
    End,
}

#[derive(Debug)]
pub(super) struct Lexer<'a> {
    rest: &'a str,
    pub(super) line: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Lexer { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 }
    }

    pub(super) fn error(&self, text: impl std::fmt::Display) -> SchemaError {
        SchemaError::new("", format!("line {}: {text}", self.line))
    }

    pub(super) fn next(&mut self) -> Result<Token<'a>, SchemaError> {
        self.skip_blank()?;
        let Some(first) = self.rest.chars().next() else { return Ok(Token::End) };
        if first.is_ascii_alphabetic() || first == '_' {
            return Ok(Token::Word(self.take(|c| c.is_ascii_alphanumeric() || c == '_')));
        }
        let second = self.rest.chars().nth(1).unwrap_or(' ');
        if first.is_ascii_digit() || first == '.' && second.is_ascii_digit() {
            return Ok(Token::Number(self.number()));
        }
        if first == '"' || first == '\'' {
            return self.quoted(first).map(Token::Quoted);
        }
        self.skip(first.len_utf8());
        Ok(Token::Mark(first))
    }

    fn skip(&mut self, len: usize) {
        self.rest = self.rest.get(len..).unwrap_or_default();
    }

    fn take(&mut self, part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn number(&mut self) -> &'a str {
        let hex = self.rest.starts_with("0x") || self.rest.starts_with("0X");
        let mut before = ' ';
        let end = self.rest.find(|c: char| {
            let exponent = !hex && matches!(before, 'e' | 'E') && matches!(c, '+' | '-');
            before = c;
            !(c.is_ascii_alphanumeric() || c == '.' || exponent)
        });
        let (number, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        number
    }

    /// Skips whitespace and comments.
    fn skip_blank(&mut self) -> Result<(), SchemaError> {
        loop {
            let space = self.take(|c| c.is_ascii_whitespace() || c == '\u{b}');
            self.line += lines(space);
            if self.rest.starts_with("//") {
                self.take(|c| c != '\n');
            } else if let Some(comment) = self.rest.strip_prefix("/*") {
                let end = comment.find("*/").ok_or_else(|| self.error("the comment has no end"))?;
                self.line += lines(comment.get(..end).unwrap_or_default());
                self.skip(end + 4);
            } else {
                return Ok(());
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Vec<u8>, SchemaError> {
        let text = self.rest.get(1..).unwrap_or_default();
        let mut escaped = false;
        let end = text.find(|c| {
            let found = !escaped && (c == quote || c == '\n');
            escaped = !escaped && c == '\\';
            found
        });
        let end = end.filter(|&end| text.get(end..).is_some_and(|rest| rest.starts_with(quote)));
        let end = end.ok_or_else(|| self.error("the text has no end on its line"))?;
        let inner = text.get(..end).unwrap_or_default();
        self.skip(end + 2);
        unescape(inner).ok_or_else(|| self.error(format!("{inner:?} has an invalid escape")))
    }
}

fn lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Resolves the escapes of a quoted string. Returns `None` if an escape is invalid.
pub(super) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        let kind = after.chars().next()?;
        let after = after.get(kind.len_utf8()..)?;
        rest = match kind {
            'a' => push_byte(7, after, &mut out),
            'b' => push_byte(8, after, &mut out),
            'f' => push_byte(12, after, &mut out),
            'n' => push_byte(b'\n', after, &mut out),
            'r' => push_byte(b'\r', after, &mut out),
            't' => push_byte(b'\t', after, &mut out),
            'v' => push_byte(11, after, &mut out),
            '\\' | '\'' | '"' | '?' => push_byte(kind as u8, after, &mut out),
            'x' | 'X' => {
                let (value, after) = digits(after, 16, 2)?;
                push_byte(value as u8, after, &mut out)
            }
            '0'..='7' => {
                let (value, after) = digits(rest.get(before.len() + 1..)?, 8, 3)?;
                push_byte(u8::try_from(value).ok()?, after, &mut out)
            }
            'u' | 'U' => {
                let (value, after) = digits(after, 16, if kind == 'u' { 4 } else { 8 })?;
                out.extend_from_slice(char::from_u32(value)?.encode_utf8(&mut [0; 4]).as_bytes());
                after
            }
            _ => return None,
        };
    }
    out.extend_from_slice(rest.as_bytes());
    Some(out)
}

fn push_byte<'a>(byte: u8, after: &'a str, out: &mut Vec<u8>) -> &'a str {
    out.push(byte);
    after
}

/// Parses at least one and at most `max_len` digits. Returns the number and the rest of the text.
fn digits(text: &str, radix: u32, max_len: usize) -> Option<(u32, &str)> {
    let len = text.bytes().take(max_len).take_while(|byte| char::from(*byte).is_digit(radix)).count();
    let (digits, after) = text.split_at_checked(len)?;
    Some((u32::from_str_radix(digits, radix).ok()?, after))
}
