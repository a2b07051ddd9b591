//! Decoding plan of a message, by its fields.

use std::sync::Arc;

use crate::avro::plan::Symbol;

/// Plan that converts a message into a row. Numbers are indexes among the columns of a kind.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Indexes into `entries` plus one, by one-byte tags; 0 for none.
    pub(super) short: Box<[u16; 128]>,
    /// Entries, sorted by tag.
    pub(super) entries: Box<[Entry]>,
    /// Handling of absent fields; those with columns come first, in column order.
    pub(super) absent: Box<[Absent]>,
    /// Bit set of the absent fields that need handling.
    pub(super) absent_mask: Box<[u64]>,
    /// Fields of each oneof, at most one of which is set.
    pub(super) oneofs: Box<[Box<[u16]>]>,
    /// Lists, closed at the end of the message.
    pub(super) lists: Box<[usize]>,
    /// Maps with their keys, closed at the end of the message.
    pub(super) maps: Box<[(usize, Keys)]>,
}

/// A field with one of its tags.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) tag: u32,
    /// Index into `absent`.
    pub(super) field: u16,
    /// True unless the field is an item of a list or map.
    pub(super) single: bool,
    pub(super) name: Arc<str>,
    pub(super) op: Op,
}

/// Key column of a map.
#[derive(Debug, Clone, Copy)]
pub(super) enum Keys {
    Ints(usize),
    Longs(usize),
    Booleans(usize),
    Texts(usize),
}

/// Decoding operation after a tag.
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
    /// Enum as text, or as dictionary keys.
    Name(usize, Box<Names<Symbol>>),
    Key(usize, Box<Names<i32>>),
    Message(Box<Plan>),
    Group(Box<Plan>),
    Timestamp(usize),
    Duration(usize),
    /// Wrapper message, which stands for its only field.
    Wrapper(Box<Wrapper>),
    Json(usize, Json),
    /// Item of a list, and its column bytes beyond those in the input.
    Item(usize, u64, Box<Op>),
    /// Packed items.
    Packed(usize, u64, Box<Op>),
    /// Entry of a map.
    Entry(usize, u64, Box<Plan>),
    /// Message nested deeper than this number of levels, which is an error.
    Deeper(usize),
    Skip,
}

/// Messages for arbitrary JSON.
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

/// Value of an absent field.
#[derive(Debug)]
pub(super) enum Absent {
    /// No action.
    Nothing,
    Null,
    /// The field is required, so the message is bad.
    Required(Arc<str>),
    Int(usize, i32),
    Long(usize, i64),
    Float(usize, f32),
    Double(usize, f64),
    Boolean(usize, bool),
    Text(usize, Symbol),
    /// Field of this entry, decoded from no bytes.
    Empty(usize),
}

/// Values of an enum, by number.
#[derive(Debug)]
pub(super) struct Names<T> {
    /// Values from number 0 on without gaps.
    pub(super) dense: Box<[T]>,
    /// Other values, sorted by number.
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

    /// Builds the table; the first of several values with the same number counts.
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
