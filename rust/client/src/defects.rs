//! Known defects that a simulation can switch on, to prove that it finds them.

/// A defect. The comments describe the behaviour with the defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    /// A membership survives `unsubscribe`, and its events reach the next subscription.
    MembershipAfterUnsubscribe,
    /// A rebalance that the application has not taken yet stays pending after a newer assignment.
    StaleAssignment,
    /// Rows of revoked partitions are returned.
    RowsAfterRevocation,
    /// Positions are committed that are ahead of the returned rows.
    CommitOfFetchedRows,
    /// After a gap in the sequences, the producer continues with a new producer ID.
    NewProducerId,
    /// A batch that is sent again gets a new sequence.
    NewSequence,
    /// A batch that is sent again is queued behind later batches.
    RequeuedBehind,
    /// A transaction is committed although a batch has failed.
    CommitAfterFailure,
    /// Offsets are added to a transaction without the generation of the member.
    UnfencedOffsets,
    /// Records of aborted transactions are returned with `read_committed`.
    AbortedRows,
}

impl Defect {
    /// Returns true if the defect is switched on; always false outside of a simulation.
    pub(crate) fn is_on(self) -> bool {
        #[cfg(feature = "simulation")]
        return samsarrow_simnet::has_defect(&format!("{self:?}"));
        #[cfg(not(feature = "simulation"))]
        false
    }
}
