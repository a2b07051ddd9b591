//! Scanner of the text of one JSON value.

use samsarrow_wire::ShortBytes;

use super::error::{Found, JsonError};
use crate::byte_reader::{utf8, word};
use crate::error::{Reason, Step};

/// Maximum nesting of objects and arrays that are skipped. Many parsers have the same limit.
pub(crate) const MAX_DEPTH: usize = 128;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Remaining text of a value. Functions take and return the scanner by value, like `ByteReader`, so that it stays in
/// registers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan<'a> {
    pub(super) rest: &'a [u8],
}

/// Content of a string, which is valid UTF-8 with valid escapes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quoted<'a> {
    pub(crate) raw: &'a [u8],
    pub(crate) piece: ShortBytes<'a>,
    pub(crate) escaped: bool,
}

impl<'a> Scan<'a> {
    #[inline]
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Scan { rest: text }
    }

    #[inline]
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Skips whitespace.
    #[inline(always)]
    pub(crate) fn skip_whitespace(&mut self) {
        match *self.rest {
            [byte, ..] if byte > b' ' => (),
            [b' ', byte, ..] if byte > b' ' => self.rest = self.rest.get(1..).unwrap_or_default(),
            _ => *self = self.skip_long_whitespace(),
        }
    }

    #[inline(never)]
    fn skip_long_whitespace(self) -> Self {
        let len = self.rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        Scan { rest: self.rest.get(len..).unwrap_or_default() }
    }

    /// If the text continues with `byte`, skips it and returns true.
    #[inline(always)]
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        match self.rest {
            [first, rest @ ..] if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// If the text continues with `word`, skips it and returns true.
    #[inline(always)]
    pub(crate) fn word<const N: usize>(&mut self, word: &[u8; N]) -> bool {
        match self.rest.split_first_chunk::<N>() {
            Some((chunk, rest)) if chunk == word => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Returns the error for an unexpected token.
    #[cold]
    #[inline(never)]
    pub(crate) fn unexpected<T>(self, expected: &'static str) -> Step<T> {
        Err(match self.peek() {
            None => Reason::Truncated.into(),
            _ => Reason::from(JsonError::Unexpected { expected, found: Found::at(self.rest), at: self.remaining() })
                .into(),
        })
    }

    /// Skips a colon, and whitespace before and after the colon.
    #[inline(always)]
    pub(crate) fn colon(&mut self) -> Step {
        if !self.eat(b':') {
            self.skip_whitespace();
            if !self.eat(b':') {
                return self.unexpected("a colon");
            }
        }
        self.skip_whitespace();
        Ok(())
    }

    /// Skips a comma and returns true, or skips the byte `end` and returns false.
    #[inline(always)]
    pub(crate) fn more(&mut self, end: u8) -> Step<bool> {
        self.skip_whitespace();
        if self.eat(b',') {
            self.skip_whitespace();
            return Ok(true);
        }
        if self.eat(end) {
            return Ok(false);
        }
        self.unexpected("a comma, or the end of the object or array")
    }

    /// Reads a string after its opening quote.
    #[inline(always)]
    pub(crate) fn quoted(&mut self) -> Step<Quoted<'a>> {
        let from = self.rest;
        let (mut rest, mut high) = (from, 0);
        while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
            let word = u64::from_le_bytes(*chunk);
            high |= word;
            let special = special(word);
            if special != 0 {
                let at = from.len() - rest.len() + special.trailing_zeros() as usize / 8;
                if let Some((raw, [b'"', after @ ..])) = from.split_at_checked(at)
                    && high & HIGHS == 0
                {
                    self.rest = after;
                    let piece = ShortBytes::of(from, 0, at).unwrap_or(ShortBytes::from(raw));
                    return Ok(Quoted { raw, piece, escaped: false });
                }
                break;
            }
            rest = after;
        }
        let (quoted, rest) = slow_quoted(from)?;
        self.rest = rest;
        Ok(quoted)
    }

    /// Skips a value. The most frequent kinds are handled inline.
    #[inline(always)]
    pub(crate) fn skip_fast(&mut self) -> Step {
        match self.peek() {
            Some(b'"') => {
                self.eat(b'"');
                self.skip_text()
            }
            Some(b'-' | b'0'..=b'9') if self.skip_number() => Ok(()),
            Some(b't' | b'f' | b'n') if self.word(b"true") || self.word(b"false") || self.word(b"null") => Ok(()),
            _ => {
                *self = self.skip()?;
                Ok(())
            }
        }
    }

    /// Skips a string after its opening quote.
    #[inline(always)]
    fn skip_text(&mut self) -> Step {
        let mut rest = self.rest;
        loop {
            let chunk = rest.split_first_chunk::<8>();
            // At the end of the text, the word is filled up with zeros, which are not valid in a string.
            let word = chunk.map_or_else(|| word(rest), |(chunk, _)| u64::from_le_bytes(*chunk));
            let found = special(word) | word & HIGHS;
            match chunk {
                Some((_, after)) if found == 0 => rest = after,
                _ => match rest.get(found.trailing_zeros() as usize / 8..) {
                    Some([b'"', after @ ..]) => {
                        self.rest = after;
                        return Ok(());
                    }
                    _ => return self.quoted().map(drop),
                },
            }
        }
    }

    /// Skips and validates a value of any kind, without recursion.
    #[inline(never)]
    pub(crate) fn skip(mut self) -> Step<Self> {
        // One bit per open container, which is set for an object and unset for an array.
        let (mut objects, mut depth) = (0_u128, 0);
        loop {
            if self.eat(b'{') {
                self.skip_whitespace();
                if !self.eat(b'}') {
                    depth = deeper(depth)?;
                    objects = objects << 1 | 1;
                    self.name()?;
                    continue;
                }
            } else if self.eat(b'[') {
                self.skip_whitespace();
                if !self.eat(b']') {
                    depth = deeper(depth)?;
                    objects <<= 1;
                    continue;
                }
            } else {
                self.scalar()?;
            }
            // A value is complete: closes every array and object that ends with it.
            loop {
                if depth == 0 {
                    return Ok(self);
                }
                let is_object = objects & 1 == 1;
                if self.more(if is_object { b'}' } else { b']' })? {
                    if is_object {
                        self.name()?;
                    }
                    break;
                }
                (objects, depth) = (objects >> 1, depth - 1);
            }
        }
    }

    fn name(&mut self) -> Step {
        if !self.eat(b'"') {
            return self.unexpected("a name in quotes");
        }
        self.quoted()?;
        self.colon()
    }

    fn scalar(&mut self) -> Step {
        match self.peek() {
            Some(b'"') => {
                self.eat(b'"');
                self.quoted().map(drop)
            }
            Some(b'-' | b'0'..=b'9') if self.skip_number() => Ok(()),
            Some(b'-' | b'0'..=b'9') => self.number().map(drop),
            _ if self.word(b"null") || self.word(b"true") || self.word(b"false") => Ok(()),
            _ => self.unexpected_word(),
        }
    }

    /// Returns the error for an unexpected token, or for a text that ends within a word such as `null`.
    #[cold]
    pub(crate) fn unexpected_word<T>(self) -> Step<T> {
        let cut = [&b"null"[..], b"true", b"false"].iter().any(|word| word.starts_with(self.rest));
        if cut { Err(Reason::Truncated.into()) } else { self.unexpected("a value") }
    }
}

fn deeper(depth: usize) -> Step<usize> {
    if depth == MAX_DEPTH { Err(Reason::from(JsonError::Depth(MAX_DEPTH)).into()) } else { Ok(depth + 1) }
}

/// Returns the high bit of each byte that ends a string, starts an escape or is a control character. Only the lowest of
/// these bits is reliable.
#[inline(always)]
fn special(word: u64) -> u64 {
    let quote = (word ^ (ONES * b'"' as u64)).wrapping_sub(ONES);
    let escape = (word ^ (ONES * b'\\' as u64)).wrapping_sub(ONES);
    let control = word.wrapping_sub(ONES * 0x20);
    (quote | escape | control) & !word & HIGHS
}

/// Reads a string that contains escapes or non-ASCII characters, or that is close to the end of the text.
#[inline(never)]
fn slow_quoted(from: &[u8]) -> Step<(Quoted<'_>, &[u8])> {
    let (mut rest, mut escaped) = (from, false);
    loop {
        while let Some((chunk, after)) = rest.split_first_chunk::<8>()
            && special(u64::from_le_bytes(*chunk)) == 0
        {
            rest = after;
        }
        let plain = rest.iter().take_while(|&&byte| byte >= 0x20 && byte != b'"' && byte != b'\\').count();
        rest = rest.get(plain..).unwrap_or_default();
        match rest {
            [b'"', after @ ..] => {
                let len = from.len() - rest.len();
                let raw = from.get(..len).unwrap_or_default();
                let piece = ShortBytes::of(from, 0, len).unwrap_or(ShortBytes::from(raw));
                utf8(raw, piece)?;
                return Ok((Quoted { raw, piece, escaped }, after));
            }
            [b'\\', ..] => {
                escaped = true;
                rest = rest.get(escape(rest)?.1..).unwrap_or_default();
            }
            [] => {
                // The text ends within the string. If the bytes before the end are not valid UTF-8, return that error
                // instead, because it is more helpful.
                utf8_so_far(from)?;
                return Err(Reason::Truncated.into());
            }
            _ => return Err(Reason::from(JsonError::Control(rest.len())).into()),
        }
    }
}

fn utf8_so_far(bytes: &[u8]) -> Step {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_some() => Err(Reason::Utf8.into()),
        _ => Ok(()),
    }
}

/// Decodes the escape at the start of the text. Returns the character and the length of the escape.
fn escape(rest: &[u8]) -> Step<(char, usize)> {
    let wrong = |wrong: fn(usize) -> JsonError| Reason::from(wrong(rest.len()));
    let short = match rest.get(1) {
        None => return Err(Reason::Truncated.into()),
        Some(b'u') => None,
        Some(b'"') => Some('"'),
        Some(b'\\') => Some('\\'),
        Some(b'/') => Some('/'),
        Some(b'b') => Some('\u{8}'),
        Some(b'f') => Some('\u{c}'),
        Some(b'n') => Some('\n'),
        Some(b'r') => Some('\r'),
        Some(b't') => Some('\t'),
        Some(_) => return Err(wrong(JsonError::Escape).into()),
    };
    if let Some(short) = short {
        return Ok((short, 2));
    }
    let unit = |from: usize| -> Step<u32> {
        let Some(digits) = rest.get(from..from + 4) else {
            let cut = rest.get(from..).unwrap_or_default().iter().all(u8::is_ascii_hexdigit);
            return Err(if cut { Reason::Truncated.into() } else { wrong(JsonError::Escape).into() });
        };
        digits.iter().try_fold(0, |unit, &digit| match char::from(digit).to_digit(16) {
            Some(digit) => Ok(unit << 4 | digit),
            None => Err(wrong(JsonError::Escape).into()),
        })
    };
    let first = unit(2)?;
    if let Some(character) = char::from_u32(first) {
        return Ok((character, 6));
    }
    match rest.get(6..8) {
        Some(b"\\u") if first < 0xdc00 => {
            let second = unit(8)?;
            let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400);
            let both = low.and_then(|low| char::from_u32(0x1_0000 + ((first - 0xd800) << 10 | low)));
            both.map(|both| (both, 12)).ok_or_else(|| wrong(JsonError::Surrogate).into())
        }
        None if first < 0xdc00 && matches!(rest.get(6), None | Some(b'\\')) => Err(Reason::Truncated.into()),
        _ => Err(wrong(JsonError::Surrogate).into()),
    }
}

/// Appends a string to `out` and resolves its escapes, which were validated before.
pub(crate) fn unescape(raw: &[u8], out: &mut Vec<u8>) -> Step {
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        let (plain, from) = rest.split_at(at);
        out.extend_from_slice(plain);
        let (character, len) = escape(from)?;
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = from.get(len..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    Ok(())
}
