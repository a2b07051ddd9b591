//! Lookup of the members of a struct by name.

use std::cell::{Cell, OnceCell};

use super::scan::Scan;
use crate::byte_reader::word;

/// Maximum number of names that are learned although their members are not decoded. It is limited, because objects may
/// use names as data.
const MAX_UNREAD: usize = 64;
/// Maximum length of an added name in bytes.
const MAX_UNREAD_LEN: usize = 64;
/// Index that stands for no expected name.
const NO_NAME: usize = usize::MAX;

/// Name of a member, as plain text and as a JSON string.
#[derive(Debug)]
struct Name {
    plain: Box<[u8]>,
    /// The name in quotes with the required escapes, followed by a colon, which is how most texts contain it. Text that
    /// matches is therefore a valid JSON string.
    quoted: Box<[u8]>,
    /// First 16 bytes of `quoted`, and the mask of bytes to compare, for a comparison without a function call.
    head: u128,
    mask: u128,
    /// Index of the name that followed this name in the previous object.
    next: Cell<usize>,
}

impl Name {
    fn new(plain: &[u8], mut quoted: Vec<u8>, next: usize) -> Name {
        quoted.push(b':');
        let mut head = [0; 16];
        head.iter_mut().zip(&quoted).for_each(|(to, from)| *to = *from);
        let mask = if quoted.len() < 16 { (1 << (8 * quoted.len())) - 1 } else { u128::MAX };
        let (head, next) = (u128::from_le_bytes(head), Cell::new(next));
        Name { plain: plain.into(), quoted: quoted.into(), head, mask, next }
    }

    /// Skips the name and its colon if the text continues with exactly the bytes of `quoted`. A name that is written
    /// with other escapes or with spaces before the colon does not match.
    #[inline(always)]
    fn take(&self, scan: &mut Scan<'_>) -> bool {
        let len = self.quoted.len();
        if let Some(chunk) = scan.rest.first_chunk::<16>() {
            if u128::from_le_bytes(*chunk) & self.mask != self.head {
                return false;
            }
            if len <= 16 {
                scan.rest = scan.rest.get(len..).unwrap_or_default();
                return true;
            }
        }
        match scan.rest.strip_prefix(&*self.quoted) {
            Some(rest) => scan.rest = rest,
            None => return false,
        }
        true
    }
}

/// Looks up names. A name is first compared with the name at the same position in the previous object, because most
/// objects have the same order.
#[derive(Debug)]
pub(crate) struct FieldIndex {
    names: Box<[Name]>,
    /// Index of the first name in an object.
    first: Cell<usize>,
    /// Hash table that contains indexes plus one; 0 marks an empty slot.
    table: Box<[u32]>,
    /// Learned names of members that are not decoded. Without them, skipping a member would take longer than decoding
    /// it.
    unread: OnceCell<Box<Unread>>,
}

/// Learned names. Their indexes follow the indexes of the names that are decoded.
#[derive(Debug)]
struct Unread {
    names: [OnceCell<Name>; MAX_UNREAD],
    /// Hash table that contains indexes plus one; 0 marks an empty slot.
    table: [Cell<u32>; 2 * MAX_UNREAD],
}

/// Index of a name, and the cell with the index of the name that is expected after it.
pub(crate) type NamePosition<'n> = (usize, &'n Cell<usize>);

impl FieldIndex {
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>) -> FieldIndex {
        let quoted = |name: &str| serde_json::Value::from(name).to_string().into_bytes();
        let made = names.enumerate().map(|(at, name)| Name::new(name.as_bytes(), quoted(name), at + 1));
        let names: Box<[Name]> = made.collect();
        let mut table = vec![0; (names.len() * 2 + 1).next_power_of_two()];
        for (at, name) in names.iter().enumerate() {
            let free = slots(&name.plain, table.len()).find(|slot| table.get(*slot) == Some(&0));
            if let Some(entry) = free.and_then(|slot| table.get_mut(slot)) {
                *entry = at as u32 + 1;
            }
        }
        FieldIndex { names, first: Cell::new(0), table: table.into(), unread: OnceCell::new() }
    }

    /// Returns the cell with the index of the name that is expected first.
    #[inline(always)]
    pub(crate) fn first(&self) -> &Cell<usize> {
        &self.first
    }

    /// Skips the expected name and its colon, if the text continues with them.
    #[inline(always)]
    pub(crate) fn take(&self, expected: &Cell<usize>, scan: &mut Scan<'_>) -> Option<NamePosition<'_>> {
        let at = expected.get();
        let name = match self.names.get(at) {
            Some(name) => name,
            None => self.unread.get()?.names.get(at - self.names.len())?.get()?,
        };
        name.take(scan).then_some((at, &name.next))
    }

    /// Looks up a name, and expects the name at the same position in the next object. Names of members that are not
    /// decoded are learned unless they contain escapes.
    pub(crate) fn find(&self, name: &[u8], escaped: bool, expected: &Cell<usize>) -> Option<NamePosition<'_>> {
        let entries = slots(name, self.table.len()).map_while(|slot| self.table.get(slot).filter(|entry| **entry > 0));
        let mut candidates =
            entries.filter_map(|entry| Some((*entry as usize - 1, self.names.get(*entry as usize - 1)?)));
        let known = candidates.find(|(_, known)| *known.plain == *name);
        let found = match known {
            Some((at, known)) => (at, &known.next),
            None if escaped || name.len() > MAX_UNREAD_LEN => return None,
            None => {
                let (at, known) = self.unread.get_or_init(Box::default).find(name)?;
                (self.names.len() + at, &known.next)
            }
        };
        expected.set(found.0);
        Some(found)
    }
}

impl Default for Unread {
    fn default() -> Self {
        Unread { names: [const { OnceCell::new() }; MAX_UNREAD], table: [const { Cell::new(0) }; 2 * MAX_UNREAD] }
    }
}

impl Unread {
    /// Looks up a name, and adds it if there is space for another name.
    fn find(&self, name: &[u8]) -> Option<(usize, &Name)> {
        for slot in slots(name, self.table.len()) {
            let entry = self.table.get(slot)?;
            if let Some(at) = (entry.get() as usize).checked_sub(1) {
                let known = self.names.get(at)?.get()?;
                if *known.plain == *name {
                    return Some((at, known));
                }
                continue;
            }
            let at = self.names.iter().position(|free| free.get().is_none())?;
            entry.set(at as u32 + 1);
            let made = || Name::new(name, [b"\"", name, b"\""].concat(), NO_NAME);
            return Some((at, self.names.get(at)?.get_or_init(made)));
        }
        None
    }
}

fn slots(name: &[u8], len: usize) -> impl Iterator<Item = usize> {
    let mix = |hash: u64, chunk: &[u8]| (hash.rotate_left(23) ^ word(chunk)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = name.chunks(8).fold(name.len() as u64, mix);
    let start = (hash >> 32) as usize;
    (0..len).map(move |step| start.wrapping_add(step) & (len - 1))
}
