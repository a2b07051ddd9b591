//! Execution of a decoding plan on the bytes of one message.

use std::collections::HashSet;
use std::hash::Hash;

use samsarrow_wire::ShortBytes;

use super::json;
use super::merge;
use super::plan::{Absent, Entry, Keys, Op, Plan, Wrapper};
use super::skip;
use super::time;
use crate::builders::{Columns, Shape, Slot};
use crate::byte_reader::{ByteReader, utf8};
use crate::error::{Fault, Reason, Step};

/// Bit set of the fields that occurred in a message.
struct Seen {
    first: u64,
    /// Bits of the fields from index 64 on.
    more: Vec<u64>,
}

impl Seen {
    #[inline(always)]
    fn new(fields: usize) -> Seen {
        let more = if fields > 64 { vec![0; fields.div_ceil(64) - 1] } else { Vec::new() };
        Seen { first: 0, more }
    }

    /// Adds a field. Returns true if it was already in the set.
    #[inline(always)]
    fn put(&mut self, field: u16) -> bool {
        let bit = 1 << (field % 64);
        let word = match usize::from(field / 64).checked_sub(1) {
            None => &mut self.first,
            Some(at) => match self.more.get_mut(at) {
                Some(word) => word,
                None => return false,
            },
        };
        let before = *word & bit != 0;
        *word |= bit;
        before
    }

    fn has(&self, field: u16) -> bool {
        let word = match usize::from(field / 64).checked_sub(1) {
            None => self.first,
            Some(at) => self.more.get(at).copied().unwrap_or(0),
        };
        word >> (field % 64) & 1 == 1
    }
}

impl Plan {
    /// Decodes a message into the columns of `shapes`.
    ///
    /// If a field occurs again, its column already has a value for the row. Such messages are rare. They are decoded
    /// again with `MERGE`, which merges repeated fields first.
    pub(super) fn run<const MERGE: bool>(&self, message: &[u8], shapes: &[Shape], columns: &mut Columns) -> Step {
        if MERGE && let Some(merged) = merge::merged(self, message)? {
            return self.pass::<MERGE>(&merged, shapes, columns);
        }
        self.pass::<MERGE>(message, shapes, columns)
    }

    #[inline(always)]
    fn pass<const MERGE: bool>(&self, message: &[u8], shapes: &[Shape], columns: &mut Columns) -> Step {
        let mut seen = Seen::new(self.absent.len());
        let mut input = ByteReader::new(message);
        while input.len() > 0 {
            let tag = skip::tag(&mut input)?;
            let entry = match self.short.get(tag as usize) {
                Some(&place) => usize::from(place).checked_sub(1).and_then(|at| self.entries.get(at)),
                None => self.find(tag),
            };
            let Some(entry) = entry else {
                skip::field(&mut input, tag)?;
                continue;
            };
            if entry.single && seen.put(entry.field) {
                return Err(Reason::Again.into());
            }
            entry.step::<MERGE>(&mut input, shapes, columns).map_err(|fault| fault.within(&entry.name))?;
        }
        self.end::<MERGE>(&seen, shapes, columns)
    }

    /// Appends the values of absent fields, and closes the rows of lists and maps.
    #[inline(always)]
    fn end<const MERGE: bool>(&self, seen: &Seen, shapes: &[Shape], columns: &mut Columns) -> Step {
        for (at, &absent_mask) in self.absent_mask.iter().enumerate() {
            let seen = at.checked_sub(1).map_or(seen.first, |at| seen.more.get(at).copied().unwrap_or(0));
            let mut missing = absent_mask & !seen;
            while missing != 0 {
                self.absent::<MERGE>(64 * at + missing.trailing_zeros() as usize, shapes, columns)?;
                missing &= missing - 1;
            }
        }
        for members in &self.oneofs {
            if members.iter().filter(|member| seen.has(**member)).count() > 1 {
                return Err(Reason::Again.into());
            }
        }
        for &list in &self.lists {
            columns.lists[list].close()?;
        }
        for &(list, keys) in &self.maps {
            if !MERGE && has_repeated_key(keys, columns.lists[list].open() as usize, columns) {
                return Err(Reason::Again.into());
            }
            columns.lists[list].close()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn absent<const MERGE: bool>(&self, field: usize, shapes: &[Shape], columns: &mut Columns) -> Step {
        match self.absent.get(field) {
            Some(Absent::Null) => shapes.get(field).into_iter().for_each(|shape| columns.push_null(shape)),
            Some(Absent::Empty(entry)) => {
                if let Some(entry) = self.entries.get(*entry) {
                    entry.step::<MERGE>(&mut ByteReader::new(&[0]), shapes, columns)?;
                }
            }
            // This is not an error yet: another occurrence of the message may contain the field. Decode again with
            // `MERGE`, which merges all occurrences first.
            Some(Absent::Required(_)) if !MERGE => return Err(Reason::Again.into()),
            Some(absent) => absent.push(columns)?,
            None => (),
        }
        Ok(())
    }
}

impl Absent {
    /// Appends the default.
    #[inline(always)]
    pub(super) fn push(&self, columns: &mut Columns) -> Step {
        match self {
            Absent::Int(to, value) => columns.ints[*to].push(*value),
            Absent::Long(to, value) => columns.longs[*to].push(*value),
            Absent::Float(to, value) => columns.floats[*to].push(*value),
            Absent::Double(to, value) => columns.doubles[*to].push(*value),
            Absent::Boolean(to, value) => columns.booleans[*to].push(*value),
            Absent::Text(to, text) => columns.bytes[*to].push(text.piece())?,
            Absent::Required(name) => {
                let reason = Reason::Other("the field is required, and not there".into());
                return Err(Box::<Fault>::from(reason).within(name));
            }
            Absent::Nothing | Absent::Null | Absent::Empty(_) => (),
        }
        Ok(())
    }
}

impl Entry {
    /// Decodes the most frequent types inline.
    #[inline(always)]
    fn step<const MERGE: bool>(&self, input: &mut ByteReader<'_>, shapes: &[Shape], columns: &mut Columns) -> Step {
        match &self.op {
            Op::Int(to) => columns.ints[*to].push(input.varint()? as i32),
            Op::Long(to) => columns.longs[*to].push(input.varint()? as i64),
            Op::Double(to) => columns.doubles[*to].push(f64::from_le_bytes(input.chunk()?)),
            Op::Boolean(to) => columns.booleans[*to].push(input.varint()? != 0),
            Op::Text(to) => text(*to, input, columns)?,
            Op::Bytes(to) => columns.bytes[*to].push(input.delimited()?.1)?,
            Op::Name(to, names) => {
                let number = input.varint()? as i32;
                match names.get(number) {
                    Some(name) => columns.bytes[*to].push(name.piece())?,
                    None => push_unnamed(number, *to, columns)?,
                }
            }
            Op::Skip => skip::field(input, self.tag)?,
            other => *input = other.rare::<MERGE>(*input, self.tag, shapes.get(usize::from(self.field)), columns)?,
        }
        Ok(())
    }
}

impl Op {
    /// Decodes a value whose tag was already read, and appends the value to the column.
    #[inline(never)]
    fn rare<'a, const MERGE: bool>(
        &self,
        mut input: ByteReader<'a>,
        tag: u32,
        shape: Option<&Shape>,
        columns: &mut Columns,
    ) -> Step<ByteReader<'a>> {
        match (self, shape.map(|shape| &shape.slot)) {
            (Op::Message(plan), Some(Slot::Struct(at, fields))) => {
                columns.structs[*at].push();
                plan.run::<MERGE>(input.delimited()?.0, fields, columns)?;
            }
            (Op::Group(plan), Some(Slot::Struct(at, fields))) => {
                columns.structs[*at].push();
                let message = skip::group(&mut input, tag)?;
                plan.run::<MERGE>(message, fields, columns)?;
            }
            (Op::Item(list, growth, op), Some(Slot::List(_, item))) => {
                let number = columns.lists[*list].open();
                if *growth > 0 {
                    columns.budget.take(1, 1, *growth, input.len())?;
                }
                input = op.rare::<MERGE>(input, tag, Some(item), columns).map_err(|fault| fault.at(number))?;
                columns.lists[*list].add(1);
            }
            (Op::Packed(list, growth, op), Some(Slot::List(_, item))) => {
                let (bytes, _) = input.delimited()?;
                let mut items = ByteReader::new(bytes);
                while items.len() > 0 {
                    let number = columns.lists[*list].open();
                    if *growth > 0 {
                        columns.budget.take(1, 1, *growth, items.len())?;
                    }
                    items = op.rare::<MERGE>(items, tag, Some(item), columns).map_err(|fault| fault.at(number))?;
                    columns.lists[*list].add(1);
                }
            }
            (Op::Entry(list, growth, plan), Some(Slot::Map(_, entry))) => {
                let (bytes, _) = input.delimited()?;
                columns.budget.take(1, 1, *growth, bytes.len())?;
                let number = columns.lists[*list].open();
                plan.run::<MERGE>(bytes, &**entry, columns).map_err(|fault| fault.at(number))?;
                columns.lists[*list].add(1);
            }
            (Op::Wrapper(of), _) => of.run(input.delimited()?.0, columns)?,
            (Op::Timestamp(to), _) => columns.longs[*to].push(time::timestamp(input.delimited()?.0)?),
            (Op::Duration(to), _) => columns.longs[*to].push(time::duration(input.delimited()?.0)?),
            (Op::Json(to, what), _) => {
                let text = json::text(*what, input.delimited()?.0, &mut columns.budget)?;
                columns.bytes[*to].push(ShortBytes::from(text.as_bytes()))?;
            }
            (Op::Deeper(depth), _) => return Err(Reason::Deeper(*depth).into()),
            _ => self.scalar(&mut input, columns)?,
        }
        Ok(input)
    }

    #[inline(always)]
    fn scalar(&self, input: &mut ByteReader<'_>, columns: &mut Columns) -> Step {
        match self {
            Op::Int(to) => columns.ints[*to].push(input.varint()? as i32),
            Op::ZigzagInt(to) => columns.ints[*to].push(zigzag(u64::from(input.varint()? as u32)) as i32),
            Op::FixedInt(to) => columns.ints[*to].push(i32::from_le_bytes(input.chunk()?)),
            Op::Long(to) => columns.longs[*to].push(input.varint()? as i64),
            Op::ZigzagLong(to) => columns.longs[*to].push(input.long()?),
            Op::FixedLong(to) => columns.longs[*to].push(i64::from_le_bytes(input.chunk()?)),
            Op::Float(to) => columns.floats[*to].push(f32::from_le_bytes(input.chunk()?)),
            Op::Double(to) => columns.doubles[*to].push(f64::from_le_bytes(input.chunk()?)),
            Op::Boolean(to) => columns.booleans[*to].push(input.varint()? != 0),
            Op::Text(to) => text(*to, input, columns)?,
            Op::Bytes(to) => columns.bytes[*to].push(input.delimited()?.1)?,
            Op::Name(to, names) => {
                let number = input.varint()? as i32;
                match names.get(number) {
                    Some(name) => columns.bytes[*to].push(name.piece())?,
                    None => push_unnamed(number, *to, columns)?,
                }
            }
            Op::Key(to, keys) => {
                let number = input.varint()? as i32;
                let unknown = || Reason::Other(format!("the enum has no value {number}").into());
                columns.ints[*to].push(*keys.get(number).ok_or_else(unknown)?);
            }
            _ => return Err(Reason::Other("the plan does not fit its columns".into()).into()),
        }
        Ok(())
    }
}

impl Wrapper {
    /// Decodes a wrapper message. If its field is repeated, the last occurrence counts.
    fn run(&self, message: &[u8], columns: &mut Columns) -> Step {
        let mut last = None;
        let mut input = ByteReader::new(message);
        while input.len() > 0 {
            let tag = skip::tag(&mut input)?;
            if tag == self.tag {
                last = Some(input);
            }
            skip::field(&mut input, tag)?;
        }
        match last {
            Some(mut input) => self.op.scalar(&mut input, columns),
            None => self.absent.push(columns),
        }
    }
}

pub(super) fn zigzag(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

#[inline(always)]
fn text(to: usize, input: &mut ByteReader<'_>, columns: &mut Columns) -> Step {
    let (text, piece) = input.delimited()?;
    utf8(text, piece)?;
    columns.bytes[to].push(piece)
}

/// Appends the number of an enum value that has no name, as text.
#[cold]
fn push_unnamed(number: i32, to: usize, columns: &mut Columns) -> Step {
    columns.bytes[to].push(ShortBytes::from(number.to_string().as_bytes()))
}

/// Returns true if the last `entries` keys contain duplicates.
fn has_repeated_key(keys: Keys, entries: usize, columns: &Columns) -> bool {
    match keys {
        _ if entries < 2 => false,
        Keys::Ints(at) => has_duplicates(columns.ints[at].last(entries).iter()),
        Keys::Longs(at) => has_duplicates(columns.longs[at].last(entries).iter()),
        Keys::Booleans(at) => has_duplicates(columns.booleans[at].last(entries).iter()),
        Keys::Texts(at) => has_duplicates(columns.bytes[at].last(entries)),
    }
}

fn has_duplicates<T: Eq + Hash>(keys: impl Iterator<Item = T> + Clone) -> bool {
    /// Up to this number of keys, pairwise comparison is faster than a hash set.
    const FEW: usize = 8;
    if keys.clone().nth(FEW).is_none() {
        let mut rest = keys;
        while let Some(key) = rest.next() {
            if rest.clone().any(|other| other == key) {
                return true;
            }
        }
        return false;
    }
    let mut met = HashSet::new();
    !keys.into_iter().all(|key| met.insert(key))
}
