//! Lookup of member names of a struct.

use std::cell::{Cell, OnceCell};

use super::scan::Scan;
use crate::byte_reader::word;

/// Maximum number of learned names of members that are not read; objects may use names as data.
const MAX_UNREAD: usize = 64;
/// Maximum length of a learned name.
const MAX_UNREAD_LEN: usize = 64;
/// Index for no expected name.
const NO_NAME: usize = usize::MAX;

/// Name of a member, plain and quoted.
#[derive(Debug)]
struct Name {
    plain: Box<[u8]>,
    /// Name with quotes, required escapes and a colon, as most texts have it; a match is a valid JSON string.
    quoted: Box<[u8]>,
    /// First 16 bytes and the mask of the valid ones, for a comparison without a call.
    head: u128,
    mask: u128,
    /// Index of the name that followed last time.
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

    /// Skips the name and its colon if the text continues with them. Names with other escapes or spaces do not match
    /// here.
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

/// Looks up names, first at the position of the previous text, where most texts have them.
#[derive(Debug)]
pub(crate) struct FieldIndex {
    names: Box<[Name]>,
    /// Index of the first name.
    first: Cell<usize>,
    /// Hash table of indexes plus one; 0 is empty.
    table: Box<[u32]>,
    /// Names that are not read, learned on the way: otherwise, skipping a member would take longer than reading it.
    unread: OnceCell<Box<Unread>>,
}

/// Learned names; their indexes follow those of the names that are read.
#[derive(Debug)]
struct Unread {
    names: [OnceCell<Name>; MAX_UNREAD],
    /// Hash table of indexes plus one.
    table: [Cell<u32>; 2 * MAX_UNREAD],
}

/// Index of a name, and the cell with the index of the name that followed it.
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

    /// Returns the cell with the index of the first name.
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

    /// Looks up a name, and expects it at the same position in the next text. Unread names with escapes are not
    /// learned.
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
    /// Looks up a name, and learns it if there is capacity.
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
