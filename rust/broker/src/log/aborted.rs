//! Index of the aborted transactions of a partition, for Fetch responses.

use samsarrow_wire::batch::AbortedTransaction;

/// An aborted transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
    /// Offset of the abort marker.
    pub(crate) marker: i64,
    /// Last stable offset after the abort marker was appended.
    pub(crate) stable_before: i64,
}

/// Aborted transactions, ordered by marker offset.
#[derive(Debug, Default)]
pub(crate) struct AbortedIndex(Vec<Aborted>);

impl AbortedIndex {
    pub(crate) fn push(&mut self, aborted: Aborted) {
        self.0.push(aborted);
    }

    /// Returns the aborted transactions that may have records in the offset range `from..to`.
    pub(crate) fn between(&self, from: i64, to: i64) -> Vec<AbortedTransaction> {
        let first = self.0.partition_point(|aborted| aborted.marker < from);
        let mut result = Vec::new();
        for aborted in self.0.iter().skip(first) {
            let Aborted { producer_id, first_offset, .. } = *aborted;
            if first_offset < to {
                result.push(AbortedTransaction { producer_id, first_offset });
            }
            // Transactions with a later marker begin at or after `stable_before`, so they have no records before `to`.
            if aborted.stable_before >= to {
                break;
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_returns_overlapping_transactions() {
        let mut index = AbortedIndex::default();
        // Producer 1 has a transaction from offset 0 to 5, producer 2 has an overlapping one from 3 to 9, and producer
        // 3 has one from 20 to 21.
        index.push(Aborted { producer_id: 1, first_offset: 0, marker: 5, stable_before: 3 });
        index.push(Aborted { producer_id: 2, first_offset: 3, marker: 9, stable_before: 10 });
        index.push(Aborted { producer_id: 3, first_offset: 20, marker: 21, stable_before: 22 });
        let ids =
            |from, to| index.between(from, to).iter().map(|transaction| transaction.producer_id).collect::<Vec<_>>();
        assert_eq!(ids(0, 100), [1, 2, 3]);
        assert_eq!(ids(0, 3), [1]);
        assert_eq!(ids(0, 4), [1, 2]);
        assert_eq!(ids(6, 20), [2]);
        assert_eq!(ids(9, 21), [2, 3]);
        assert_eq!(ids(10, 20), [0_i64; 0]);
        assert_eq!(ids(22, 100), [0_i64; 0]);
    }
}
