//! Indexes of a segment: `.index`, `.timeindex` and `.txnindex`.
use bytes::Bytes;

/// The kind of an index file, which its extension determines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// `.index` file: maps offsets to positions in the log.
    Offset,
    /// `.timeindex` file: maps timestamps to offsets.
    Time,
    /// `.txnindex` file: lists the aborted transactions.
    Transaction,
}

impl IndexKind {
    /// Returns the size of an entry in bytes.
    pub fn entry_len(self) -> usize {
        match self {
            IndexKind::Offset => 8,
            IndexKind::Time => 12,
            IndexKind::Transaction => 34,
        }
    }
}

/// An entry of an offset index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetEntry {
    /// The last offset of the batch at `position`.
    pub offset: i64,
    /// Position of the batch in the log.
    pub position: i32,
}

/// An entry of a time index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeEntry {
    /// The maximum timestamp of all records up to `offset`.
    pub timestamp: i64,
    /// The last offset of the batch that has this timestamp.
    pub offset: i64,
}

/// An entry of a transaction index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedEntry {
    /// Version of the entry's format.
    pub version: i16,
    /// Id of the transaction's producer.
    pub producer_id: i64,
    /// First offset of the transaction.
    pub first_offset: i64,
    /// Offset of the transaction's end marker.
    pub last_offset: i64,
    /// Last stable offset of the partition at the end of the transaction.
    pub last_stable_offset: i64,
}

/// The bytes of an index, and the base offset from the file name, which the entries' offsets are relative to.
#[derive(Debug, Clone)]
pub struct Index {
    data: Bytes,
    base_offset: i64,
    kind: IndexKind,
    len: usize,
}

impl Index {
    /// Creates an index from the bytes of its file. Zeros at the end are not entries, because brokers preallocate the
    /// indexes of the active segment.
    pub fn new(kind: IndexKind, data: Bytes, base_offset: i64) -> Index {
        let entry = kind.entry_len();
        let used = data.len() - data.iter().rev().take_while(|&&byte| byte == 0).count();
        // Round up, because the last entry may itself end in zeros.
        let len = used.div_ceil(entry).min(data.len() / entry);
        Index { data, base_offset, kind, len }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the index has no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the kind of the index.
    pub fn kind(&self) -> IndexKind {
        self.kind
    }

    /// Runs the check that makes brokers rebuild an index. It fails if the last entry is incomplete, if the last offset
    /// is before the base offset, or if the last timestamp is before the first.
    pub fn sanity_check(&self) -> Result<(), String> {
        let entry = self.kind.entry_len();
        if !self.data.len().is_multiple_of(entry) {
            return Err(format!("{} bytes are no multiple of {entry}, the size of an entry", self.data.len()));
        }
        let Some(last) = self.len.checked_sub(1) else { return Ok(()) };
        let last_offset = match self.kind {
            IndexKind::Offset => self.offset_entry(last).map(|entry| entry.offset),
            IndexKind::Time => self.time_entry(last).map(|entry| entry.offset),
            IndexKind::Transaction => None,
        };
        if let Some(offset) = last_offset.filter(|&offset| offset < self.base_offset) {
            return Err(format!("the last offset {offset} is before the base offset {}", self.base_offset));
        }
        if self.kind == IndexKind::Time
            && let (Some(first), Some(last)) = (self.time_entry(0), self.time_entry(last))
            && last.timestamp < first.timestamp
        {
            return Err(format!("the last timestamp {} is before the first, {}", last.timestamp, first.timestamp));
        }
        Ok(())
    }

    /// Returns an entry of an offset index.
    pub fn offset_entry(&self, index: usize) -> Option<OffsetEntry> {
        let entry = self.entry::<8>(index)?;
        let [o0, o1, o2, o3, p0, p1, p2, p3] = entry;
        let relative = i32::from_be_bytes([o0, o1, o2, o3]);
        Some(OffsetEntry {
            offset: self.base_offset.wrapping_add(i64::from(relative)),
            position: i32::from_be_bytes([p0, p1, p2, p3]),
        })
    }

    /// Returns an entry of a time index.
    pub fn time_entry(&self, index: usize) -> Option<TimeEntry> {
        let entry = self.entry::<12>(index)?;
        let relative = entry.last_chunk::<4>().map_or(0, |bytes| i32::from_be_bytes(*bytes));
        let timestamp = entry.first_chunk::<8>().map_or(0, |bytes| i64::from_be_bytes(*bytes));
        Some(TimeEntry { timestamp, offset: self.base_offset.wrapping_add(i64::from(relative)) })
    }

    /// Returns an entry of a transaction index.
    pub fn aborted_entry(&self, index: usize) -> Option<AbortedEntry> {
        let entry = self.entry::<34>(index)?;
        let (version, rest) = entry.split_first_chunk::<2>()?;
        let mut numbers =
            rest.chunks_exact(8).filter_map(|chunk| chunk.first_chunk::<8>().copied()).map(i64::from_be_bytes);
        Some(AbortedEntry {
            version: i16::from_be_bytes(*version),
            producer_id: numbers.next()?,
            first_offset: numbers.next()?,
            last_offset: numbers.next()?,
            last_stable_offset: numbers.next()?,
        })
    }

    /// Returns the position in the log from which to search for `offset`. It is the position of the last entry of an
    /// offset index that is not after `offset`.
    pub fn lookup(&self, offset: i64) -> u64 {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.offset_entry(middle) {
                Some(entry) if entry.offset <= offset => low = middle + 1,
                _ => high = middle,
            }
        }
        let entry = low.checked_sub(1).and_then(|at| self.offset_entry(at));
        entry.map_or(0, |entry| u64::try_from(entry.position).unwrap_or(0))
    }

    fn entry<const N: usize>(&self, index: usize) -> Option<[u8; N]> {
        if index >= self.len || N != self.kind.entry_len() {
            return None;
        }
        self.data.get(index.checked_mul(N)?..)?.first_chunk::<N>().copied()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn offsets(entries: &[(i32, i32)]) -> Vec<u8> {
        entries.iter().flat_map(|(offset, position)| [offset.to_be_bytes(), position.to_be_bytes()].concat()).collect()
    }

    fn offset_index(entries: &[(i32, i32)], base_offset: i64) -> Index {
        Index::new(IndexKind::Offset, offsets(entries).into(), base_offset)
    }

    #[test]
    fn ignores_trailing_zeros() {
        let mut data = offsets(&[(5, 100), (9, 256)]);
        data.resize(10_485_760, 0);
        let index = Index::new(IndexKind::Offset, data.into(), 1000);
        assert_eq!(index.len(), 2);
        assert_eq!(index.offset_entry(1), Some(OffsetEntry { offset: 1009, position: 256 }));
        assert_eq!(index.offset_entry(2), None);
        assert!(Index::new(IndexKind::Time, vec![0; 120].into(), 0).is_empty());
        assert!(Index::new(IndexKind::Time, Bytes::new(), 0).is_empty());
    }

    #[test]
    fn lookup_returns_last_entry_not_after_offset() {
        let index = offset_index(&[(5, 100), (9, 256), (12, 300)], 1000);
        let positions = [999, 1004, 1005, 1008, 1009, 1011, 1012, 5000].map(|offset| index.lookup(offset));
        assert_eq!(positions, [0, 0, 100, 100, 256, 256, 300, 300]);
        assert_eq!(offset_index(&[], 0).lookup(7), 0);
    }

    #[test]
    fn sanity_check_matches_broker() {
        assert_eq!(offset_index(&[(5, 100)], 0).sanity_check(), Ok(()));
        assert!(offset_index(&[(5, 100), (-1, 200)], 0).sanity_check().unwrap_err().contains("before the base offset"));
        let odd = Index::new(IndexKind::Offset, vec![1; 13].into(), 0);
        assert!(odd.sanity_check().unwrap_err().contains("13 bytes"));
        let time = |entries: &[(i64, i32)]| {
            let bytes: Vec<u8> =
                entries.iter().flat_map(|(t, o)| [&t.to_be_bytes()[..], &o.to_be_bytes()[..]].concat()).collect();
            Index::new(IndexKind::Time, bytes.into(), 0)
        };
        assert_eq!(time(&[(10, 1), (20, 2)]).sanity_check(), Ok(()));
        assert!(time(&[(20, 1), (10, 2)]).sanity_check().unwrap_err().contains("before the first"));
    }

    #[test]
    fn reads_aborted_transactions() {
        let mut data = vec![0, 0];
        for number in [7i64, 100, 120, 90] {
            data.extend_from_slice(&number.to_be_bytes());
        }
        let index = Index::new(IndexKind::Transaction, data.into(), 0);
        let entry = index.aborted_entry(0).unwrap();
        assert_eq!((entry.version, entry.producer_id, entry.first_offset), (0, 7, 100));
        assert_eq!((entry.last_offset, entry.last_stable_offset), (120, 90));
    }
}
