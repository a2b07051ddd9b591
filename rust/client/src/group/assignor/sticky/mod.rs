//! Sticky assignors. An assignment is first balanced, then as close to the previous assignment as possible.
//!
//! If all members have the same subscription, quotas are known in advance (`constrained`); otherwise partitions are
//! moved until the balance no longer improves (`general`).

mod constrained;
mod general;
mod movements;
mod previous_owners;
mod racks;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use bytes::Bytes;

use super::encoding::{encode_generation, encode_previous};
use super::group::Group;
use super::{Assignment, Assignor, Members, Topics};
use crate::error::Result;
use crate::types::TopicPartition;
use previous_owners::{OwnershipReport, PreviousOwners};
use racks::Racks;

/// Sticky assignor with eager rebalances: members revoke all partitions, and then get most of them back.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sticky;

/// Sticky assignor with cooperative rebalances: members revoke only partitions that move, and the next rebalance
/// assigns these partitions to other members (KIP-429).
#[derive(Debug, Clone, Copy, Default)]
pub struct CooperativeSticky;

impl Assignor for Sticky {
    fn name(&self) -> &str {
        "sticky"
    }

    fn user_data(&self, owned: &[TopicPartition], generation: i32) -> Result<Option<Bytes>> {
        // A member that never had an assignment sends no user data.
        Ok((generation >= 0 || !owned.is_empty()).then(|| encode_previous(owned, generation)))
    }

    fn assign(&self, topics: &Topics, members: &Members) -> Result<Assignment> {
        let group = Group::new(topics, members);
        let owners = PreviousOwners::new(&group, OwnershipReport::from_user_data);
        Ok(group.to_assignment(assign(&group, &owners, false)?))
    }
}

impl Assignor for CooperativeSticky {
    fn name(&self) -> &str {
        "cooperative-sticky"
    }

    fn cooperative(&self) -> bool {
        true
    }

    fn user_data(&self, _: &[TopicPartition], generation: i32) -> Result<Option<Bytes>> {
        Ok(Some(encode_generation(generation)))
    }

    fn assign(&self, topics: &Topics, members: &Members) -> Result<Assignment> {
        let group = Group::new(topics, members);
        let owners = PreviousOwners::new(&group, OwnershipReport::from_owned_partitions);
        Ok(group.to_assignment(assign(&group, &owners, true)?))
    }
}

/// Returns the partitions by member. For cooperative members, partitions that another member still owns are omitted.
///
/// Revokes partitions from members in other racks only if this makes the final assignment more balanced, or equally
/// balanced with more matching racks. Java always revokes such partitions, and reassigns partitions without a matching
/// rack each time, which could trigger one rebalance after another.
fn assign(group: &Group<'_>, owners: &PreviousOwners, cooperative: bool) -> Result<Vec<Vec<usize>>> {
    let (racks, equal_subscriptions) = (Racks::new(group), equal_subscriptions(group));
    let run = |owners: &PreviousOwners, mismatched| match equal_subscriptions {
        true => constrained::assign(group, owners, &racks, mismatched),
        false => Ok(general::assign(group, owners, &racks, mismatched)),
    };
    let assignable =
        |assigned| if cooperative { withhold_owned(assigned, owners, equal_subscriptions) } else { assigned };
    let kept = run(owners, Mismatched::Kept)?;
    let mismatched = |partition| owners.owner(partition).is_some_and(|member| racks.mismatch(member, partition));
    if !(0..group.partitions()).any(mismatched) {
        return Ok(assignable(kept));
    }
    let matched = assignable(run(owners, Mismatched::Revoked)?);
    // Assignment after the next rebalance, in which members keep the partitions of `matched`.
    let final_assignment = run(&PreviousOwners::of_assignment(group, &matched), Mismatched::Kept)?;
    let score = |assigned: &[Vec<usize>]| {
        let squares: usize = assigned.iter().map(|partitions| partitions.len().pow(2)).sum();
        (Reverse(squares), racks.matches(assigned))
    };
    Ok(if score(&final_assignment) > score(&kept) { matched } else { assignable(kept) })
}

/// Treatment of partitions whose owner is not in the rack of any replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mismatched {
    Kept,
    Revoked,
}

/// Omits partitions that another member still owns; the next rebalance assigns them. If two members claim a partition,
/// Java trusts the newer generation if all subscriptions are equal, and both members if subscriptions differ.
fn withhold_owned(
    mut assigned: Vec<Vec<usize>>,
    owners: &PreviousOwners,
    equal_subscriptions: bool,
) -> Vec<Vec<usize>> {
    for (member, partitions) in assigned.iter_mut().enumerate() {
        partitions.retain(|partition| match equal_subscriptions {
            true => owners.has_no_other_owner(*partition, member),
            false => owners.is_new_or_claimed_by(*partition, member),
        });
    }
    assigned
}

/// Returns true if all members have the same subscription. Like in Java, topics that do not exist are compared too.
fn equal_subscriptions(group: &Group<'_>) -> bool {
    let mut subscriptions = group.members.iter().map(|(_, member)| member.topics.iter().collect::<BTreeSet<_>>());
    let first = subscriptions.next();
    subscriptions.all(|topics| Some(&topics) == first.as_ref())
}
