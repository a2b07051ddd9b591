//! Tokenizer of JAAS entries that follows Java's.

use std::iter::Peekable;
use std::str::Chars;

use zeroize::Zeroizing;

use super::jaas_error;
use crate::error::Result;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(Zeroizing<String>),
    Quoted(Zeroizing<String>),
    Sign(char),
}

/// Equivalent of Java's StreamTokenizer, configured as in Java's JaasConfig.
pub(super) struct Tokens<'a> {
    chars: Peekable<Chars<'a>>,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { chars: text.chars().peekable() }
    }

    pub(super) fn next(&mut self) -> Result<Option<Token>> {
        loop {
            let Some(char) = self.chars.next() else { return Ok(None) };
            return match char {
                '\0'..=' ' => continue,
                '/' => {
                    self.comment()?;
                    continue;
                }
                '"' | '\'' => self.quoted(char).map(|text| Some(Token::Quoted(text))),
                _ if is_word_char(char) => {
                    let mut word = Zeroizing::new(String::from(char));
                    while let Some(char) = self.chars.next_if(|char| is_word_char(*char)) {
                        word.push(char);
                    }
                    Ok(Some(Token::Word(word)))
                }
                sign => Ok(Some(Token::Sign(sign))),
            };
        }
    }

    /// Reads the value after an equals sign. Returns `None` if the next token is not a value.
    pub(super) fn value(&mut self) -> Result<Option<Zeroizing<String>>> {
        Ok(match self.next()? {
            Some(Token::Word(text) | Token::Quoted(text)) => Some(text),
            _ => None,
        })
    }

    /// Skips a comment. A single slash also starts a comment, which ends with the line.
    fn comment(&mut self) -> Result<()> {
        if self.chars.next_if_eq(&'*').is_some() {
            let mut before = ' ';
            for char in self.chars.by_ref() {
                if (before, char) == ('*', '/') {
                    return Ok(());
                }
                before = char;
            }
            return Err(jaas_error("a comment has no end"));
        }
        for char in self.chars.by_ref() {
            if matches!(char, '\n' | '\r') {
                break;
            }
        }
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Result<Zeroizing<String>> {
        let unterminated = || jaas_error("a quotation has no end on its line");
        let mut text = Zeroizing::new(String::new());
        loop {
            match self.chars.next().ok_or_else(unterminated)? {
                char if char == quote => return Ok(text),
                '\n' | '\r' => return Err(unterminated()),
                '\\' => {
                    let escaped = self.chars.next().ok_or_else(unterminated)?;
                    text.push(match escaped {
                        'a' => '\u{7}',
                        'b' => '\u{8}',
                        'f' => '\u{c}',
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        'v' => '\u{b}',
                        '0'..='7' => self.octal(escaped),
                        '\n' | '\r' => return Err(unterminated()),
                        other => other,
                    });
                }
                char => text.push(char),
            }
        }
    }

    /// Reads an octal escape of up to three digits. Three digits are read only if the first one is at most 3, so that
    /// the number is below 256.
    fn octal(&mut self, first: char) -> char {
        let max_digits = if first <= '3' { 3 } else { 2 };
        let mut code = first.to_digit(8).unwrap_or_default();
        for _ in 1..max_digits {
            match self.chars.next_if(|char| char.is_digit(8)).and_then(|char| char.to_digit(8)) {
                Some(digit) => code = code * 8 + digit,
                None => break,
            }
        }
        char::from_u32(code).unwrap_or_default()
    }
}

fn is_word_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || "_-$.".contains(char) || char >= '\u{a0}'
}
