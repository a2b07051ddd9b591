//! Range assignor: assigns ranges of each topic, so that topics with the same number of partitions are divided equally
//! and partitions with the same number are assigned to the same member.

use std::collections::BTreeMap;

use super::group::{Group, Topic, racks_matter};
use super::{Assignment, Assignor, Members, Topics};
use crate::error::Result;

/// Assigns ranges of each topic, preferring members in the racks of the replicas if the ranges remain equal (KIP-881).
#[derive(Debug, Clone, Copy, Default)]
pub struct Range;

impl Assignor for Range {
    fn name(&self) -> &str {
        "range"
    }

    fn assign(&self, topics: &Topics, members: &Members) -> Result<Assignment> {
        let group = Group::new(topics, members);
        let ranks = group.ranks();
        let mut divisions: Vec<_> = group.topics.iter().map(|topic| Division::new(&group, topic, &ranks)).collect();
        let mut assigned = vec![Vec::new(); group.members.len()];
        if divisions.iter().any(|division| division.racks_matter) {
            by_racks(&mut divisions, &mut assigned);
        }
        for division in &mut divisions {
            division.assign_ranges(false, &mut assigned);
        }
        Ok(group.named(assigned))
    }
}

/// Partial assignment of one topic.
struct Division<'a> {
    topic: &'a Topic<'a>,
    /// Subscribed members, by rank.
    sharers: Vec<Sharer<'a>>,
    unassigned: Vec<usize>,
    /// Number of partitions per member, and the number of members that may still get one more.
    each: usize,
    extras: usize,
    racks_matter: bool,
}

struct Sharer<'a> {
    member: usize,
    rack: Option<&'a str>,
    assigned: usize,
}

impl<'a> Division<'a> {
    fn new(group: &Group<'a>, topic: &'a Topic<'a>, ranks: &[usize]) -> Division<'a> {
        let sharer = |member: &usize| Sharer { member: *member, rack: group.rack(*member), assigned: 0 };
        let mut sharers: Vec<_> = topic.subscribers.iter().map(sharer).collect();
        sharers.sort_by_key(|sharer| ranks[sharer.member]);
        let racks_matter =
            racks_matter(sharers.iter().filter_map(|sharer| sharer.rack), topic.racks.iter().map(Vec::as_slice));
        let (count, share) = (topic.racks.len(), sharers.len().max(1));
        let unassigned = topic.partitions().collect();
        Division { topic, sharers, unassigned, each: count / share, extras: count % share, racks_matter }
    }

    /// Returns true if a member is in the rack of a replica. A member without a rack matches all.
    fn in_rack(&self, sharer: usize, partition: usize) -> bool {
        let racks = &self.topic.racks[partition - self.topic.first];
        self.sharers[sharer].rack.is_none_or(|rack| racks.iter().any(|other| other == rack))
    }

    /// Returns the number of partitions that a member may still get.
    fn room(&self, sharer: usize) -> usize {
        (self.each + usize::from(self.extras > 0)).saturating_sub(self.sharers[sharer].assigned)
    }

    fn give(&mut self, sharer: usize, partitions: &[usize], assigned: &mut [Vec<usize>]) {
        let taker = &mut self.sharers[sharer];
        taker.assigned += partitions.len();
        if taker.assigned > self.each {
            self.extras = self.extras.saturating_sub(1);
        }
        assigned[taker.member].extend_from_slice(partitions);
    }

    /// Assigns each member the first unassigned partitions, up to its capacity.
    fn assign_ranges(&mut self, in_rack: bool, assigned: &mut [Vec<usize>]) {
        for sharer in 0..self.sharers.len() {
            let mut room = self.room(sharer);
            let takes = |partition: &usize| {
                let takes = room > 0 && (!in_rack || self.in_rack(sharer, *partition));
                room -= usize::from(takes);
                takes
            };
            let (taken, rest): (Vec<_>, Vec<_>) = self.unassigned.iter().copied().partition(takes);
            self.unassigned = rest;
            if !taken.is_empty() {
                self.give(sharer, &taken, assigned);
            }
        }
    }
}

/// Assigns partitions within racks as far as ranges remain equal. Topics with the same subscribers and number of
/// partitions are co-partitioned: a partition number is assigned to a member that matches in all of them, or left
/// unassigned.
fn by_racks(divisions: &mut [Division<'_>], assigned: &mut [Vec<usize>]) {
    let mut alike: BTreeMap<(Vec<usize>, usize), Vec<&mut Division<'_>>> = BTreeMap::new();
    for division in divisions {
        let key = (division.topic.subscribers.clone(), division.topic.racks.len());
        alike.entry(key).or_default().push(division);
    }
    for ((_, partitions), mut divisions) in alike {
        match divisions.as_mut_slice() {
            [alone] if alone.racks_matter => alone.assign_ranges(true, assigned),
            [_] => {}
            together => assign_together(together, partitions, assigned),
        }
    }
}

fn assign_together(divisions: &mut [&mut Division<'_>], partitions: usize, assigned: &mut [Vec<usize>]) {
    let Some(first) = divisions.first() else { return };
    // No member has a rack.
    if first.sharers.iter().all(|sharer| sharer.rack.is_none()) {
        return;
    }
    let mut open: Vec<usize> = (0..first.sharers.len()).collect();
    for index in 0..partitions {
        let fits =
            |sharer: &usize| divisions.iter().all(|d| d.room(*sharer) > 0 && d.in_rack(*sharer, d.topic.first + index));
        let Some(sharer) = open.iter().copied().find(fits) else { continue };
        for division in divisions.iter_mut() {
            let partition = division.topic.first + index;
            division.give(sharer, &[partition], assigned);
            if let Ok(at) = division.unassigned.binary_search(&partition) {
                division.unassigned.remove(at);
            }
        }
        if divisions.iter().all(|division| division.room(sharer) == 0) {
            open.retain(|other| *other != sharer);
        }
    }
}
