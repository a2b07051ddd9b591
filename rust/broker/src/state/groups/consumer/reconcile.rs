//! Reconciliation of a member: the member revokes the partitions that it loses and confirms the revocation, before
//! other members can get these partitions.

use super::Partitions;
use super::member::{Member, Progress};
use crate::collections::HashSet;

impl Member {
    /// Advances the member towards its target assignment. `owned` are the partitions that the member reports as owned,
    /// or `None` if it does not report them. `held` are the partitions that any member owns or is assigned.
    pub(super) fn reconcile(
        &mut self,
        (target_epoch, target): (i32, &Partitions),
        owned: Option<&Partitions>,
        held: &HashSet<([u8; 16], i32)>,
    ) {
        let holds = |given_up: &Partitions| owned.is_none_or(|owned| !owned.is_disjoint(given_up));
        let epoch = match self.progress {
            Progress::Stable if self.epoch == target_epoch => return,
            Progress::Revoking if holds(&self.revoking) => return,
            // The member has confirmed the revocation, so it can advance to the next epoch.
            Progress::Revoking => self.epoch.wrapping_add(1),
            Progress::Stable | Progress::Waiting => self.epoch,
        };
        let kept: Partitions = self.assigned.intersection(target).copied().collect();
        let lost: Partitions = self.assigned.difference(target).copied().collect();
        if !lost.is_empty() && holds(&lost) {
            self.progress = Progress::Revoking;
            self.advance(epoch);
            self.assigned = kept;
            self.revoking = lost;
            return;
        }
        let missing = target.difference(&kept);
        let (taken, free): (Vec<_>, Vec<_>) = missing.copied().partition(|partition| held.contains(partition));
        self.progress = if taken.is_empty() { Progress::Stable } else { Progress::Waiting };
        self.advance(target_epoch);
        self.assigned = kept;
        self.assigned.extend(free);
        self.revoking.clear();
    }
}
