//! Execution of a decoding plan on the text of one value.

use std::cell::Cell;

use super::base64::decode_base64;
use super::error::JsonError;
use super::field_index::NamePosition;
use super::number::{Number, number_of};
use super::plan::{Decimal, Node, Op, SmallInt, Struct, is_time_of_day};
use super::scan::{Quoted, Scan, unescape};
use super::temporal;
use crate::avro::decode::extended;
use crate::builders::Columns;
use crate::error::{Reason, Step};

impl Node {
    /// Decodes a value and appends it to the columns. After an error, the caller truncates the columns to the previous
    /// row.
    ///
    /// The depth of the recursion is limited by the column's type and does not depend on the text.
    pub(crate) fn run<'a>(&self, mut scan: Scan<'a>, columns: &mut Columns) -> Step<Scan<'a>> {
        self.step(&mut scan, columns)?;
        Ok(scan)
    }

    /// Decodes the most frequent types inline.
    #[inline(always)]
    fn step(&self, scan: &mut Scan<'_>, columns: &mut Columns) -> Step {
        match &self.op {
            Op::Long(to) | Op::Timestamp(_, to) => {
                if let Some(value) = scan.quick_integer() {
                    columns.longs[*to].push(value);
                    return Ok(());
                }
            }
            Op::Int(to) => {
                let before = *scan;
                match scan.quick_integer().map(i32::try_from) {
                    Some(Ok(value)) => {
                        columns.ints[*to].push(value);
                        return Ok(());
                    }
                    _ => *scan = before,
                }
            }
            Op::Double(to) => {
                if let Some(value) = scan.quick_double() {
                    columns.doubles[*to].push(value);
                    return Ok(());
                }
            }
            Op::Text(to) if scan.eat(b'"') => {
                let quoted = scan.quoted()?;
                return put(*to, &quoted, columns);
            }
            Op::Boolean(to) => {
                let value = scan.word(b"true");
                if value || scan.word(b"false") {
                    columns.booleans[*to].push(value);
                    return Ok(());
                }
            }
            _ => (),
        }
        *scan = self.run_rare(*scan, columns)?;
        Ok(())
    }

    #[inline(never)]
    fn run_rare<'a>(&self, mut scan: Scan<'a>, columns: &mut Columns) -> Step<Scan<'a>> {
        if scan.word(b"null") {
            if !self.nullable {
                return Err(Reason::from(JsonError::Null).into());
            }
            columns.push_null(&self.shape);
            return Ok(scan);
        }
        let first = scan.peek();
        match (&self.op, first) {
            (Op::Json(to), _) => {
                let from = scan.rest;
                scan = scan.skip()?;
                let text = from.get(..from.len() - scan.remaining()).unwrap_or_default();
                columns.bytes[*to].push(text.into())?;
            }
            (Op::Struct(to, of), Some(b'{')) => scan = members(*to, of, scan, columns)?,
            (Op::List(to, item), Some(b'[')) => scan = list(*to, item, scan, columns)?,
            (Op::Map(to, keys, value), Some(b'{')) => scan = map(*to, *keys, value, scan, columns)?,
            (_, Some(b'-' | b'0'..=b'9')) => {
                let at = scan;
                let number = scan.number()?;
                self.number(&number, at, columns)?;
            }
            (_, Some(b'"')) => {
                let at = scan;
                scan.eat(b'"');
                let quoted = scan.quoted()?;
                self.text(&quoted, at, columns)?;
            }
            _ => return self.unexpected(scan),
        }
        Ok(scan)
    }

    fn number(&self, number: &Number<'_>, at: Scan<'_>, columns: &mut Columns) -> Step {
        let long = || number.whole(&(i64::MIN.into()..=i64::MAX.into()), "int64").map(|value| value as i64);
        match &self.op {
            Op::Long(to) => columns.longs[*to].push(long()?),
            Op::Int(to) => {
                let value = number.whole(&(i32::MIN.into()..=i32::MAX.into()), "int32")?;
                columns.ints[*to].push(value as i32);
            }
            Op::Date(to) => {
                let value = number.whole(&(i32::MIN.into()..=i32::MAX.into()), "date32")?;
                columns.ints[*to].push(value as i32);
            }
            Op::SmallInt(whole, to) => {
                let (range, name) = whole.range();
                let value = number.whole(&range, name)?;
                // Unsigned integers are stored as signed integers with the same bit pattern.
                match whole {
                    SmallInt::Int8 | SmallInt::UInt8 => columns.tiny[*to].push(value as i8),
                    SmallInt::Int16 | SmallInt::UInt16 => columns.shorts[*to].push(value as i16),
                    SmallInt::UInt32 => columns.ints[*to].push(value as i32),
                    SmallInt::UInt64 => columns.longs[*to].push(value as i64),
                }
            }
            Op::Double(to) => columns.doubles[*to].push(number.float("double")?),
            Op::Float(to) => columns.floats[*to].push(number.float("float")?),
            Op::Timestamp(_, to) => columns.longs[*to].push(long()?),
            Op::Time(unit, to) => {
                let value = long()?;
                if !is_time_of_day(value, *unit) {
                    return Err(Reason::from(JsonError::Range("a time of day")).into());
                }
                self.time(*to, value, columns);
            }
            Op::Decimal(of) => decimal(of, number, columns).map_err(Reason::from)?,
            _ => return self.unexpected(at),
        }
        Ok(())
    }

    fn text(&self, quoted: &Quoted<'_>, at: Scan<'_>, columns: &mut Columns) -> Step {
        let mut plain = Vec::new();
        let text = if quoted.escaped {
            unescape(quoted.raw, &mut plain)?;
            &plain
        } else {
            quoted.raw
        };
        match &self.op {
            Op::Binary(to) => columns.bytes[*to].push_with(|data| decode_base64(text, data))?,
            Op::Fixed(to, size) => {
                let mut bytes = Vec::new();
                decode_base64(text, &mut bytes)?;
                if bytes.len() != *size {
                    return Err(Reason::from(JsonError::Size(bytes.len(), *size)).into());
                }
                columns.fixed[*to].push(&bytes);
            }
            Op::Date(to) => {
                let days = temporal::date(text).ok_or(Reason::from(JsonError::Text("date, as 2026-11-23 is")))?;
                columns.ints[*to].push(days);
            }
            Op::Time(unit, to) => {
                let value =
                    temporal::time(text, *unit).ok_or(Reason::from(JsonError::Text("time, as 17:03:59.25 is")))?;
                self.time(*to, value, columns);
            }
            Op::Timestamp(unit, to) => {
                let wrong = || Reason::from(JsonError::Text("time of RFC 3339 that the column can hold"));
                columns.longs[*to].push(temporal::timestamp(text, *unit).ok_or_else(wrong)?);
            }
            Op::Decimal(of) if of.base64 => base64_decimal(of, text, columns)?,
            Op::Decimal(of) => {
                let number = number_of(text).ok_or(Reason::from(JsonError::Text("number")))?;
                decimal(of, &number, columns).map_err(Reason::from)?;
            }
            _ => return self.unexpected(at),
        }
        Ok(())
    }

    fn time(&self, to: usize, value: i64, columns: &mut Columns) {
        match self.shape.data_type {
            arrow_schema::DataType::Time32(_) => columns.ints[to].push(value as i32),
            _ => columns.longs[to].push(value),
        }
    }

    #[cold]
    fn unexpected<T>(&self, at: Scan<'_>) -> Step<T> {
        let expected = match &self.op {
            Op::Null => "null",
            Op::Boolean(_) => "a boolean",
            Op::Long(_) | Op::Int(_) | Op::SmallInt(..) => "a whole number",
            Op::Double(_) | Op::Float(_) => "a number",
            Op::Decimal(_) => "a decimal as a number or text",
            Op::Text(_) => "a string",
            Op::Binary(_) | Op::Fixed(..) => "a string of base64",
            Op::Date(_) | Op::Time(..) | Op::Timestamp(..) => "a time as text or number",
            Op::List(..) => "an array",
            Op::Map(..) | Op::Struct(..) => "an object",
            Op::Json(_) => "a value",
        };
        match at.skip() {
            // The value is valid JSON, but its kind is not the expected one.
            Ok(_) => at.unexpected(expected),
            Err(fault) => Err(fault),
        }
    }
}

#[inline(always)]
fn put(to: usize, quoted: &Quoted<'_>, columns: &mut Columns) -> Step {
    if quoted.escaped {
        return columns.bytes[to].push_with(|data| unescape(quoted.raw, data));
    }
    columns.bytes[to].push(quoted.piece)
}

fn decimal(of: &Decimal, number: &Number<'_>, columns: &mut Columns) -> Result<(), JsonError> {
    if of.wide {
        columns.wide_decimals[of.to].push(number.wide_unscaled(of.scale, of.precision)?);
    } else {
        columns.decimals[of.to].push(number.unscaled(of.scale, of.precision)?);
    }
    Ok(())
}

/// Decodes a decimal from the base64 encoding of its big-endian unscaled value, which Kafka Connect writes.
fn base64_decimal(of: &Decimal, text: &[u8], columns: &mut Columns) -> Step {
    let mut bytes = Vec::new();
    decode_base64(text, &mut bytes)?;
    let digits = || Reason::from(JsonError::Digits(of.precision));
    let value = extended(&bytes).map(arrow_buffer::i256::from_be_bytes).ok_or_else(digits)?;
    let beyond = arrow_buffer::i256::from_i128(10).wrapping_pow(of.precision.into());
    if value >= beyond || value <= beyond.wrapping_neg() {
        return Err(digits().into());
    }
    if of.wide {
        columns.wide_decimals[of.to].push(value);
    } else {
        columns.decimals[of.to].push(value.to_i128().ok_or_else(digits)?);
    }
    Ok(())
}

fn list<'a>(to: usize, item: &Node, mut scan: Scan<'a>, columns: &mut Columns) -> Step<Scan<'a>> {
    scan.eat(b'[');
    scan.skip_whitespace();
    let mut items = 0;
    if !scan.eat(b']') {
        loop {
            columns.budget.take(1, 1, item.growth, scan.remaining())?;
            item.step(&mut scan, columns).map_err(|fault| fault.at(items))?;
            items += 1;
            if !scan.more(b']')? {
                break;
            }
        }
    }
    columns.lists[to].check(items)?;
    columns.lists[to].push(items);
    Ok(scan)
}

fn map<'a>(to: usize, keys: usize, value: &Node, mut scan: Scan<'a>, columns: &mut Columns) -> Step<Scan<'a>> {
    scan.eat(b'{');
    scan.skip_whitespace();
    let mut entries = 0;
    if !scan.eat(b'}') {
        loop {
            columns.budget.take(1, 1, value.growth.saturating_add(4), scan.remaining())?;
            if !scan.eat(b'"') {
                return scan.unexpected("a name in quotes");
            }
            let key = scan.quoted()?;
            put(keys, &key, columns)?;
            scan.colon()?;
            let at = || format!("{:?}", String::from_utf8_lossy(key.raw));
            value.step(&mut scan, columns).map_err(|fault| fault.at(at()))?;
            entries += 1;
            if !scan.more(b'}')? {
                break;
            }
        }
    }
    columns.lists[to].check(entries)?;
    columns.lists[to].push(entries);
    Ok(scan)
}

/// Bit set of the struct members that occurred in an object.
#[derive(Default)]
struct Seen {
    first: u64,
    others: Vec<u64>,
}

impl Seen {
    /// Adds a member. Returns true if it was not in the set.
    #[inline(always)]
    fn insert(&mut self, at: usize) -> bool {
        let bit = 1 << (at % 64);
        let word = if at < 64 { &mut self.first } else { self.other(at / 64) };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    #[cold]
    fn other(&mut self, word: usize) -> &mut u64 {
        if self.others.len() < word {
            self.others.resize(word, 0);
        }
        // The index exists, because the vector has just been resized.
        self.others.get_mut(word - 1).unwrap_or(&mut self.first)
    }

    fn has(&self, at: usize) -> bool {
        let word = if at < 64 { self.first } else { self.others.get(at / 64 - 1).copied().unwrap_or(0) };
        word >> (at % 64) & 1 == 1
    }
}

fn members<'a>(to: usize, of: &Struct, mut scan: Scan<'a>, columns: &mut Columns) -> Step<Scan<'a>> {
    scan.eat(b'{');
    scan.skip_whitespace();
    let row = columns.structs[to].rows();
    columns.structs[to].push();
    let (mut seen, mut count, mut expected) = (Seen::default(), 0, of.names.first());
    if !scan.eat(b'}') {
        loop {
            let mut found = of.names.take(expected, &mut scan);
            match found {
                Some(_) => scan.skip_whitespace(),
                None => (found, scan) = other(of, expected, scan)?,
            }
            let mut member = None;
            if let Some((at, next)) = found {
                (member, expected) = (of.members.get(at).map(|member| (at, member)), next);
            }
            match member {
                Some((at, member)) => {
                    if seen.insert(at) {
                        count += 1;
                    } else {
                        // If a member is repeated, its last value counts, as in Python and Java.
                        columns.budget.take(1, 1, member.node.growth, scan.remaining())?;
                        columns.truncate(&member.node.shape, row);
                    }
                    member.node.step(&mut scan, columns).map_err(|fault| fault.within(&member.name))?;
                }
                None => scan.skip_fast()?,
            }
            if !scan.more(b'}')? {
                break;
            }
        }
    }
    if count < of.members.len() {
        missing(of, &seen, columns)?;
    }
    Ok(scan)
}

/// Reads a name that is not the expected one, including its colon, and looks up the name.
#[inline(never)]
fn other<'n, 'a>(
    of: &'n Struct,
    expected: &Cell<usize>,
    mut scan: Scan<'a>,
) -> Step<(Option<NamePosition<'n>>, Scan<'a>)> {
    if !scan.eat(b'"') {
        return scan.unexpected("a name in quotes");
    }
    let name = scan.quoted()?;
    scan.colon()?;
    if !name.escaped {
        return Ok((of.names.find(name.raw, false, expected), scan));
    }
    let mut plain = Vec::new();
    unescape(name.raw, &mut plain)?;
    Ok((of.names.find(&plain, true, expected), scan))
}

#[inline(never)]
fn missing(of: &Struct, seen: &Seen, columns: &mut Columns) -> Step {
    for (at, member) in of.members.iter().enumerate() {
        if !seen.has(at) {
            if !member.node.nullable {
                return Err(Box::<crate::error::Fault>::from(Reason::from(JsonError::Missing)).within(&member.name));
            }
            columns.push_null(&member.node.shape);
        }
    }
    Ok(())
}
