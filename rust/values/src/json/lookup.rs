//! Which member of a struct a name is of.

use std::cell::Cell;

use super::scan::Scan;
use crate::input::word;

/// A member's name, and in its quotes as most texts have it.
#[derive(Debug)]
pub(crate) struct Name {
    plain: Box<[u8]>,
    /// With escapes where there have to be some: what is found so is a string in JSON.
    quoted: Box<[u8]>,
    /// The first 16 bytes, and which bits of them count: compared at once, without a call.
    head: u128,
    mask: u128,
}

impl Name {
    pub(crate) fn new(name: &str) -> Name {
        let quoted = serde_json::Value::from(name).to_string().into_bytes();
        let mut head = [0; 16];
        head.iter_mut().zip(&quoted).for_each(|(to, from)| *to = *from);
        let mask = if quoted.len() < 16 { (1 << (8 * quoted.len())) - 1 } else { u128::MAX };
        Name { plain: name.as_bytes().into(), quoted: quoted.into(), head: u128::from_le_bytes(head), mask }
    }

    /// Steps over the name, if it is here. One that is escaped in another way is not found so.
    #[inline(always)]
    pub(crate) fn take(&self, scan: &mut Scan<'_>) -> bool {
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

/// Finds names: first where the last text had them, which is where most have them.
#[derive(Debug)]
pub(crate) struct Names {
    names: Box<[Name]>,
    /// Which came first, and which after each.
    first: Cell<usize>,
    next: Box<[Cell<usize>]>,
    /// Places by hash, one more than each; 0 is empty.
    table: Box<[u32]>,
}

impl Names {
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Names {
        let names: Box<[Name]> = names.map(Name::new).collect();
        let mut table = vec![0; (names.len() * 2 + 1).next_power_of_two()];
        for (at, name) in names.iter().enumerate() {
            let free = slots(&name.plain, table.len()).find(|slot| table.get(*slot) == Some(&0));
            if let Some(entry) = free.and_then(|slot| table.get_mut(slot)) {
                *entry = at as u32 + 1;
            }
        }
        let next = (1..=names.len()).map(Cell::new).collect();
        Names { names, first: Cell::new(0), next, table: table.into() }
    }

    /// The place that is expected to follow this one, or to be the first.
    #[inline(always)]
    pub(crate) fn expected(&self, after: Option<usize>) -> usize {
        match after {
            Some(at) => self.next.get(at).map_or(usize::MAX, Cell::get),
            None => self.first.get(),
        }
    }

    /// Steps over this name, if it is here.
    #[inline(always)]
    pub(crate) fn take(&self, at: usize, scan: &mut Scan<'_>) -> bool {
        self.names.get(at).is_some_and(|name| name.take(scan))
    }

    /// The place of a name, which the next text is expected to have at the same.
    pub(crate) fn find(&self, name: &[u8], after: Option<usize>) -> Option<usize> {
        let taken = slots(name, self.table.len()).map_while(|slot| self.table.get(slot).filter(|entry| **entry > 0));
        let mut places = taken.map(|entry| *entry as usize - 1);
        let found = places.find(|at| self.names.get(*at).is_some_and(|known| *known.plain == *name))?;
        match after.and_then(|at| self.next.get(at)) {
            Some(next) => next.set(found),
            None => self.first.set(found),
        }
        Some(found)
    }
}

fn slots(name: &[u8], len: usize) -> impl Iterator<Item = usize> {
    let mix = |hash: u64, chunk: &[u8]| (hash.rotate_left(23) ^ word(chunk)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = name.chunks(8).fold(name.len() as u64, mix);
    let start = (hash >> 32) as usize;
    (0..len).map(move |step| start.wrapping_add(step) & (len - 1))
}
