//! Execution of a decoding plan on the bytes of one value.

use arrow_buffer::{IntervalMonthDayNano, i256};
use samsarrow_wire::ShortBytes;

use super::plan::{Bound, Decimal, Entries, Field, Items, Op};
use crate::builders::Columns;
use crate::byte_reader::{ByteReader, utf8};
use crate::error::{Reason, Step};
use crate::framing::hyphened;

impl Op {
    /// Decodes a value and appends it to the columns. After an error, the caller truncates the columns to the previous
    /// row.
    ///
    /// The depth of the recursion is limited by the schema and does not depend on the value.
    pub(crate) fn run<'a>(&self, mut input: ByteReader<'a>, columns: &mut Columns) -> Step<ByteReader<'a>> {
        self.step(&mut input, columns)?;
        Ok(input)
    }

    /// Decodes the most frequent types inline.
    #[inline(always)]
    fn step(&self, input: &mut ByteReader<'_>, columns: &mut Columns) -> Step {
        match self {
            Op::Int(to) => columns.ints[*to].push(input.int()?),
            Op::Long(to) => columns.longs[*to].push(input.long()?),
            Op::Double(to) => columns.doubles[*to].push(f64::from_le_bytes(input.chunk()?)),
            Op::Float(to) => columns.floats[*to].push(f32::from_le_bytes(input.chunk()?)),
            Op::Boolean(to) => match input.chunk()? {
                [byte @ (0 | 1)] => columns.booleans[*to].push(byte == 1),
                [byte] => return Err(Reason::Boolean(byte).into()),
            },
            Op::Text(to) => text(*to, input, columns)?,
            Op::Bytes(to) => columns.bytes[*to].push(input.prefixed()?.1)?,
            Op::Nullable(null, of) => match input.long()? {
                branch if branch == *null => columns.push_null(&of.0),
                branch if branch == 1 - *null => match &of.1 {
                    Op::Text(to) => text(*to, input, columns)?,
                    other => *input = other.run(*input, columns)?,
                },
                branch => return Err(Reason::Branch(branch, 2).into()),
            },
            Op::Symbols(to, symbols) => {
                let symbol = chosen(input.long()?, symbols)?;
                columns.bytes[*to].push(symbol.piece())?;
            }
            Op::Skip(skip) => *input = skip.run(*input)?,
            other => *input = other.run_rare(*input, columns)?,
        }
        Ok(())
    }

    #[inline(never)]
    fn run_rare<'a>(&self, mut input: ByteReader<'a>, columns: &mut Columns) -> Step<ByteReader<'a>> {
        match self {
            Op::Record(to, fields) => {
                columns.structs[*to].push();
                for Field { name, op } in fields {
                    op.step(&mut input, columns).map_err(|fault| fault.within(name))?;
                }
            }
            Op::Null(to) => columns.nulls[*to].push(),
            Op::IntToLong(to) => columns.longs[*to].push(input.int()?.into()),
            Op::IntToFloat(to) => columns.floats[*to].push(input.int()? as f32),
            Op::IntToDouble(to) => columns.doubles[*to].push(input.int()?.into()),
            Op::LongToFloat(to) => columns.floats[*to].push(input.long()? as f32),
            Op::LongToDouble(to) => columns.doubles[*to].push(input.long()? as f64),
            Op::FloatToDouble(to) => columns.doubles[*to].push(f32::from_le_bytes(input.chunk()?).into()),
            Op::Finer(to, factor) => {
                columns.longs[*to].push(input.long()?.checked_mul(*factor).ok_or(Reason::TimeUnit)?);
            }
            Op::Time(of) => {
                let value = if of.of_int { input.int()?.into() } else { input.long()? };
                if !(0..of.end).contains(&value) {
                    return Err(Reason::Other(format!("the time {value} is not within a day").into()).into());
                }
                match (of.int, i32::try_from(value)) {
                    (true, Ok(value)) => columns.ints[of.to].push(value),
                    (true, Err(_)) => return Err(Reason::TimeUnit.into()),
                    (false, _) => columns.longs[of.to].push(value * of.factor),
                }
            }
            Op::Fixed(to, size) => columns.fixed[*to].push(input.bytes(*size)?),
            Op::Uuid(to) => columns.bytes[*to].push(ShortBytes::from(hyphened(&input.chunk()?).as_bytes()))?,
            Op::Duration(to) => columns.intervals[*to].push(duration(input.chunk()?)?),
            Op::Decimal(of) => {
                let bytes = sized(&mut input, of.size)?;
                let value = extended(bytes).map(i128::from_be_bytes).ok_or(Reason::Decimal(of.precision))?;
                columns.decimals[of.to].push(within(value, -of.beyond, of)?);
            }
            Op::WideDecimal(of) => {
                let bytes = sized(&mut input, of.size)?;
                let value = extended(bytes).map(i256::from_be_bytes).ok_or(Reason::Decimal(of.precision))?;
                columns.wide_decimals[of.to].push(within(value, of.beyond.wrapping_neg(), of)?);
            }
            Op::Keys(to, symbols) => {
                let key = *chosen(input.long()?, symbols)?;
                columns.ints[*to].push(key);
            }
            Op::List(to, of) => list(*to, of, &mut input, columns)?,
            Op::Map(to, of) => map(*to, of, &mut input, columns)?,
            Op::Union(branches) => {
                let branch = input.long()?;
                match usize::try_from(branch).ok().and_then(|at| branches.get(at)) {
                    Some(op) => input = op.run(input, columns)?,
                    None => return Err(Reason::Branch(branch, branches.len()).into()),
                }
            }
            Op::Member(to, of) => {
                columns.structs[*to].push();
                of.1.iter().for_each(|other| columns.push_null(other));
                input = of.0.run(input, columns)?;
            }
            Op::PushNull(shape) => columns.push_null(shape),
            Op::Default(of) => drop(of.1.run(ByteReader::new(&of.0), columns)?),
            Op::Deeper(depth) => return Err(Reason::Deeper(*depth).into()),
            Op::Never(why) => return Err(Reason::Other((**why).into()).into()),
            // The other types are handled by `step`.
            _ => return self.run(input, columns),
        }
        Ok(input)
    }
}

#[inline(always)]
fn text(to: usize, input: &mut ByteReader<'_>, columns: &mut Columns) -> Step {
    let (text, piece) = input.prefixed()?;
    utf8(text, piece)?;
    columns.bytes[to].push(piece)
}

#[inline]
fn chosen<T>(symbol: i64, symbols: &[Result<T, Box<str>>]) -> Step<&T> {
    match usize::try_from(symbol).ok().and_then(|at| symbols.get(at)) {
        Some(Ok(found)) => Ok(found),
        Some(Err(name)) => Err(Reason::UnknownSymbol(name.clone()).into()),
        None => Err(Reason::Symbol(symbol, symbols.len()).into()),
    }
}

fn list(to: usize, of: &Items, input: &mut ByteReader<'_>, columns: &mut Columns) -> Step {
    let total = blocks(to, of.bound, input, columns, |number, input, columns| {
        of.item.step(input, columns).map_err(|fault| fault.at(number))
    })?;
    columns.lists[to].push(total);
    Ok(())
}

fn map(to: usize, of: &Entries, input: &mut ByteReader<'_>, columns: &mut Columns) -> Step {
    let total = blocks(to, of.bound, input, columns, |_, input, columns| {
        let (key, piece) = input.prefixed()?;
        utf8(key, piece)?;
        columns.bytes[of.keys].push(piece)?;
        of.value.step(input, columns).map_err(|fault| fault.at(format_args!("{:?}", String::from_utf8_lossy(key))))
    })?;
    columns.lists[to].push(total);
    Ok(())
}

/// Decodes the items of a list or the entries of a map, block by block, and returns their number.
#[inline]
fn blocks(
    to: usize,
    bound: Bound,
    input: &mut ByteReader<'_>,
    columns: &mut Columns,
    mut read: impl FnMut(u64, &mut ByteReader<'_>, &mut Columns) -> Step,
) -> Step<u64> {
    let mut total = 0;
    loop {
        let (items, block) = input.block(bound.min)?;
        if items == 0 {
            return Ok(total);
        }
        columns.budget.take(items, bound.min, bound.growth, input.len())?;
        columns.lists[to].check(total + items)?;
        for number in total..total + items {
            read(number, input, columns)?;
        }
        input.check_block(block)?;
        total += items;
    }
}

fn sized<'a>(input: &mut ByteReader<'a>, size: Option<usize>) -> Step<&'a [u8]> {
    match size {
        Some(size) => input.bytes(size),
        None => input.prefixed().map(|(bytes, _)| bytes),
    }
}

/// Sign-extends a big-endian number to `N` bytes. Returns `None` if the number is empty or does not fit.
pub(crate) fn extended<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let sign = if *bytes.first()? >= 0x80 { 0xff } else { 0 };
    let mut out = [sign; N];
    let cut = bytes.len().saturating_sub(N);
    let (ahead, kept) = bytes.split_at_checked(cut)?;
    let negative = kept.first().is_some_and(|byte| *byte >= 0x80);
    if ahead.iter().any(|byte| *byte != sign) || negative != (sign == 0xff) {
        return None;
    }
    out.iter_mut().rev().zip(kept.iter().rev()).for_each(|(to, from)| *to = *from);
    Some(out)
}

fn within<T: PartialOrd + Copy>(value: T, below: T, of: &Decimal<T>) -> Step<T> {
    if value < of.beyond && value > below { Ok(value) } else { Err(Reason::Decimal(of.precision).into()) }
}

fn duration(bytes: [u8; 12]) -> Step<IntervalMonthDayNano> {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
    let signed = |bytes| i32::try_from(u32::from_le_bytes(bytes)).map_err(|_| Reason::Duration);
    let millis = u32::from_le_bytes([i, j, k, l]);
    Ok(IntervalMonthDayNano::new(signed([a, b, c, d])?, signed([e, f, g, h])?, i64::from(millis) * 1_000_000))
}
