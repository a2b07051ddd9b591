//! Decoding plan of a message, consisting of one operation for each field.

use std::sync::Arc;

use crate::avro::plan::Symbol;

/// Plan that decodes a message into a row. The numbers in operations are indexes of columns in the vectors of
/// [`Columns`](crate::builders::Columns).
#[derive(Debug)]
pub(crate) struct Plan {
    /// For each tag of one byte, the index in `entries` plus one; 0 if the tag is unknown.
    pub(super) short: Box<[u16; 128]>,
    /// Operations of the fields, sorted by tag.
    pub(super) entries: Box<[Entry]>,
    /// Handling of fields that do not occur in a message. Fields with columns come first, in the order of the columns.
    pub(super) absent: Box<[Absent]>,
    /// Bit set of the fields whose absence must be handled.
    pub(super) absent_mask: Box<[u64]>,
    /// Fields of each oneof. At most one field of a oneof is set.
    pub(super) oneofs: Box<[Box<[u16]>]>,
    /// Lists whose row is closed at the end of the message.
    pub(super) lists: Box<[usize]>,
    /// Maps whose row is closed at the end of the message, with their key columns.
    pub(super) maps: Box<[(usize, Keys)]>,
}

/// Operation for one tag of a field.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) tag: u32,
    /// Index into `absent`.
    pub(super) field: u16,
    /// True for a singular field, false for items of a list or map.
    pub(super) single: bool,
    pub(super) name: Arc<str>,
    pub(super) op: Op,
}

/// Column of a map's keys.
#[derive(Debug, Clone, Copy)]
pub(super) enum Keys {
    Ints(usize),
    Longs(usize),
    Booleans(usize),
    Texts(usize),
}

/// Operation that decodes the value after a tag.
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
    /// Enum whose values become text.
    Name(usize, Box<Names<Symbol>>),
    Key(usize, Box<Names<i32>>),
    Message(Box<Plan>),
    Group(Box<Plan>),
    Timestamp(usize),
    Duration(usize),
    /// Wrapper message, which becomes the value of its only field.
    Wrapper(Box<Wrapper>),
    Json(usize, Json),
    /// Item of a list, and the number of bytes that an item occupies in the columns in addition to the size of its
    /// encoding.
    Item(usize, u64, Box<Op>),
    /// Packed items of a list. The number has the same meaning as in [`Op::Item`] for each item.
    Packed(usize, u64, Box<Op>),
    /// Entry of a map, and the number of bytes that an entry occupies in the columns.
    Entry(usize, u64, Box<Plan>),
    /// Message that is nested deeper than this number of levels, which is an error.
    Deeper(usize),
    Skip,
}

/// Well-known messages that contain arbitrary JSON.
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

/// Value of a field that is absent from a message, or the error for it.
#[derive(Debug)]
pub(super) enum Absent {
    /// Nothing has to be appended.
    Nothing,
    Null,
    /// The field is required, so the message is invalid.
    Required(Arc<str>),
    Int(usize, i32),
    Long(usize, i64),
    Float(usize, f32),
    Double(usize, f64),
    Boolean(usize, bool),
    Text(usize, Symbol),
    /// The default is an empty message, which is decoded with the entry at this index.
    Empty(usize),
}

/// Values of an enum, for lookup by number.
#[derive(Debug)]
pub(super) struct Names<T> {
    /// Values whose numbers are 0, 1, 2 and so on, without gaps.
    pub(super) dense: Box<[T]>,
    /// The other values, sorted by number.
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

    /// Builds the table. If several values have the same number, the first one is used.
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
