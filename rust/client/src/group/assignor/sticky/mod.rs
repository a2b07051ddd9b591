//! Sticky assignors: balanced first, then as close to the previous assignment as possible.
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
use previous_owners::{Claims, Told};
use racks::Racks;

/// Sticky assignor with eager rebalances: members revoke all partitions, and most get the same ones again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sticky;

/// Sticky assignor with cooperative rebalances: only partitions that move are revoked, and are assigned in the next
/// rebalance (KIP-429).
#[derive(Debug, Clone, Copy, Default)]
pub struct CooperativeSticky;

impl Assignor for Sticky {
    fn name(&self) -> &str {
        "sticky"
    }

    fn user_data(&self, owned: &[TopicPartition], generation: i32) -> Result<Option<Bytes>> {
        // A member that never had an assignment sends none.
        Ok((generation >= 0 || !owned.is_empty()).then(|| encode_previous(owned, generation)))
    }

    fn assign(&self, topics: &Topics, members: &Members) -> Result<Assignment> {
        let group = Group::new(topics, members);
        let claims = Claims::new(&group, Told::in_user_data);
        Ok(group.named(assign(&group, &claims, false)?))
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
        let claims = Claims::new(&group, Told::as_owned);
        Ok(group.named(assign(&group, &claims, true)?))
    }
}

/// Returns the partitions by member, without those that a cooperative member cannot take yet.
///
/// Revokes partitions from members in other racks only if the final assignment matches more racks. Java always revokes
/// them, and reassigns those that match no rack each time, which could trigger one rebalance after another.
fn assign(group: &Group<'_>, claims: &Claims, cooperative: bool) -> Result<Vec<Vec<usize>>> {
    let (racks, alike) = (Racks::new(group), alike(group));
    let run = |claims: &Claims, far| match alike {
        true => constrained::assign(group, claims, &racks, far),
        false => Ok(general::assign(group, claims, &racks, far)),
    };
    let at_once = |assigned| if cooperative { withhold(assigned, claims, alike) } else { assigned };
    let kept = run(claims, Far::Kept)?;
    let far = |partition| claims.owner(partition).is_some_and(|member| racks.mismatch(member, partition));
    if !(0..group.partitions()).any(far) {
        return Ok(at_once(kept));
    }
    let nearer = at_once(run(claims, Far::GivenUp)?);
    // The next rebalance has to lead to the same result.
    let settled = run(&Claims::held(group, &nearer), Far::Kept)?;
    let worth = |assigned: &[Vec<usize>]| {
        let squares: usize = assigned.iter().map(|partitions| partitions.len().pow(2)).sum();
        (Reverse(squares), racks.matches(assigned))
    };
    Ok(if worth(&settled) > worth(&kept) { nearer } else { at_once(kept) })
}

/// Treatment of partitions whose owners are not in the racks of the replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Far {
    Kept,
    GivenUp,
}

/// Omits partitions that another member still owns, which the next rebalance assigns. If two members claim a partition,
/// Java trusts the newer generation for equal subscriptions, and both for different ones.
fn withhold(mut assigned: Vec<Vec<usize>>, claims: &Claims, alike: bool) -> Vec<Vec<usize>> {
    for (member, partitions) in assigned.iter_mut().enumerate() {
        partitions.retain(|partition| match alike {
            true => claims.is_held_by_no_other(*partition, member),
            false => claims.is_new_or_told_by(*partition, member),
        });
    }
    assigned
}

/// Returns true if all members have the same subscription, including topics that do not exist, like Java.
fn alike(group: &Group<'_>) -> bool {
    let mut wants = group.members.iter().map(|(_, member)| member.topics.iter().collect::<BTreeSet<_>>());
    let first = wants.next();
    wants.all(|topics| Some(&topics) == first.as_ref())
}
