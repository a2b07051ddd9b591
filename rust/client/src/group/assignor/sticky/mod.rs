//! The sticky assignors: balance first, and then members keep what they have.
//!
//! Where all members want the same topics, everybody's share is known beforehand (`constrained`); otherwise partitions
//! are moved until nothing gets better (`general`).

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

/// Sticky over eager rebalances: everybody stops reading, and most get back what they had.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sticky;

/// Sticky over cooperative rebalances: only what moves is given up, and is assigned in the round after (KIP-429).
#[derive(Debug, Clone, Copy, Default)]
pub struct CooperativeSticky;

impl Assignor for Sticky {
    fn name(&self) -> &str {
        "sticky"
    }

    fn user_data(&self, owned: &[TopicPartition], generation: i32) -> Result<Option<Bytes>> {
        // A member that never had an assignment says nothing.
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

/// Partitions by member, as the members may take them up at once.
///
/// Giving up what is in other racks is worth it only if more is near when all is handed over. Java gives it up anyway,
/// and where it cannot be nearer deals it to others each time, which could make one rebalance follow another forever.
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
    // The round after has to lead there too.
    let settled = run(&Claims::held(group, &nearer), Far::Kept)?;
    let worth = |assigned: &[Vec<usize>]| {
        let squares: usize = assigned.iter().map(|partitions| partitions.len().pow(2)).sum();
        (Reverse(squares), racks.matches(assigned))
    };
    Ok(if worth(&settled) > worth(&kept) { nearer } else { at_once(kept) })
}

/// What becomes of partitions whose members are in other racks than the replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Far {
    Kept,
    GivenUp,
}

/// What another member still reads it has to give up first; the rebalance that follows assigns it. Of two that say they
/// read it, Java trusts the later one where all want the same, and both where they do not.
fn withhold(mut assigned: Vec<Vec<usize>>, claims: &Claims, alike: bool) -> Vec<Vec<usize>> {
    for (member, partitions) in assigned.iter_mut().enumerate() {
        partitions.retain(|partition| match alike {
            true => claims.is_held_by_no_other(*partition, member),
            false => claims.is_new_or_told_by(*partition, member),
        });
    }
    assigned
}

/// Whether all members want the same topics, those that do not exist included, as Java has it.
fn alike(group: &Group<'_>) -> bool {
    let mut wants = group.members.iter().map(|(_, member)| member.topics.iter().collect::<BTreeSet<_>>());
    let first = wants.next();
    wants.all(|topics| Some(&topics) == first.as_ref())
}
