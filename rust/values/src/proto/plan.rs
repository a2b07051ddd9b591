//! What to do with the fields of a message, as they come.

use std::sync::Arc;

use crate::avro::plan::Symbol;

/// How a message becomes a row. Numbers are places among the columns of a kind.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Places in `entries`, and one more, by tags of one byte; 0 is none.
    pub(super) short: Box<[u16; 128]>,
    /// In the order of their tags.
    pub(super) entries: Box<[Entry]>,
    /// What happens to fields that did not come; those that have columns are first, in the order of these.
    pub(super) absent: Box<[Absent]>,
    /// Of those, the ones that happen at all.
    pub(super) wanted: Box<[u64]>,
    /// Fields of which one is set at most.
    pub(super) oneofs: Box<[Box<[u16]>]>,
    /// Lists, which end with the message.
    pub(super) lists: Box<[usize]>,
    /// Maps, with their keys.
    pub(super) maps: Box<[(usize, Keys)]>,
}

/// A field, as it may come.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) tag: u32,
    /// Its place in `absent`.
    pub(super) field: u16,
    /// It is no item of a list or map.
    pub(super) single: bool,
    pub(super) name: Arc<str>,
    pub(super) op: Op,
}

/// The column of a map's keys.
#[derive(Debug, Clone, Copy)]
pub(super) enum Keys {
    Ints(usize),
    Longs(usize),
    Booleans(usize),
    Texts(usize),
}

/// Reads what is behind a tag, and appends it.
#[derive(Debug)]
pub(super) enum Op {
    Int(usize),
    ZigzagInt(usize),
    FixedInt(usize),
    Long(usize),
    ZigzagLong(usize),
    FixedLong(usize),
    Float(usize),
    Double(usize),
    Boolean(usize),
    Text(usize),
    Bytes(usize),
    /// An enum as text, or as numbers of its values.
    Name(usize, Box<Names<Symbol>>),
    Key(usize, Box<Names<i32>>),
    Message(Box<Plan>),
    Group(Box<Plan>),
    Timestamp(usize),
    Duration(usize),
    /// A message that stands for its only field.
    Wrapper(Box<Wrapper>),
    Json(usize, Json),
    /// One item of a list, and the bytes that it becomes beside those that it has.
    Item(usize, u64, Box<Op>),
    /// Many.
    Packed(usize, u64, Box<Op>),
    /// An entry of a map.
    Entry(usize, u64, Box<Plan>),
    /// More than so many of its kind are around it.
    Deeper(usize),
    Skip,
}

/// Messages that are any JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Json {
    Struct,
    Value,
    List,
}

#[derive(Debug)]
pub(super) struct Wrapper {
    pub(super) tag: u32,
    pub(super) op: Op,
    pub(super) absent: Absent,
}

/// What a field is that did not come.
#[derive(Debug)]
pub(super) enum Absent {
    /// Nothing has to be done.
    Nothing,
    Null,
    /// The value is bad.
    Required(Arc<str>),
    Int(usize, i32),
    Long(usize, i64),
    Float(usize, f32),
    Double(usize, f64),
    Boolean(usize, bool),
    Text(usize, Symbol),
    /// The field of this entry, with no bytes.
    Empty(usize),
}

/// Values of an enum, by their numbers.
#[derive(Debug)]
pub(super) struct Names<T> {
    /// Those from 0 on that have no gaps.
    pub(super) dense: Box<[T]>,
    /// The others, in order.
    pub(super) sparse: Box<[(i32, T)]>,
}

impl<T> Names<T> {
    #[inline(always)]
    pub(super) fn get(&self, number: i32) -> Option<&T> {
        match usize::try_from(number).ok().and_then(|at| self.dense.get(at)) {
            Some(found) => Some(found),
            None => self.rare(number),
        }
    }

    fn rare(&self, number: i32) -> Option<&T> {
        let at = self.sparse.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        self.sparse.get(at).map(|(_, found)| found)
    }

    /// The first of a number counts.
    pub(super) fn new(values: impl Iterator<Item = (i32, T)>) -> Names<T> {
        let mut all: Vec<_> = values.collect();
        all.sort_by_key(|(number, _)| *number);
        all.dedup_by_key(|(number, _)| *number);
        let (mut dense, mut sparse) = (Vec::new(), Vec::new());
        for (number, found) in all {
            if usize::try_from(number) == Ok(dense.len()) { dense.push(found) } else { sparse.push((number, found)) }
        }
        Names { dense: dense.into(), sparse: sparse.into() }
    }
}

impl Plan {
    pub(super) fn find(&self, tag: u32) -> Option<&Entry> {
        self.entries.get(self.entries.binary_search_by_key(&tag, |entry| entry.tag).ok()?)
    }
}
