//! Deliveries of a share group by the events of its broker, compared with the rows that members return and with the
//! outcomes of their acknowledgements (KIP-932).
//!
//! A record has at most one lock at a time, each delivery counts one more, and a finished record is not delivered again.
//! A record whose lock was not acknowledged is delivered again for the reason that ended the lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use samsarrow_broker::{Event, LockEnd, ShareChange, take_history};
use tokio::time::Instant;

use crate::context::Context;

/// Partition and offset of a record.
pub(super) type Position = (i32, i64);

/// Types of acknowledgements, with the numbers of the protocol.
pub(super) const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;
pub(super) const REJECT: i8 = 3;
const RENEW: i8 = 4;

/// End of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Acknowledged(i8),
    Lock(LockEnd),
    /// The delivery state was lost, because nothing was stored before the leader moved.
    Forgotten,
}

/// One delivery of a record to a member.
#[derive(Debug)]
struct Delivery {
    member: Arc<str>,
    count: i16,
    at: Instant,
    end: Option<End>,
    returned: bool,
}

/// Deliveries of one record.
#[derive(Debug, Default)]
struct Record {
    deliveries: Vec<Delivery>,
    /// Delivery count that the broker has for the record.
    count: i16,
}

impl Record {
    fn current(&mut self) -> Option<&mut Delivery> {
        self.deliveries.last_mut().filter(|delivery| delivery.end.is_none())
    }

    fn is_finished(&self) -> bool {
        let finished = |delivery: &Delivery| matches!(delivery.end, Some(End::Acknowledged(ACCEPT | REJECT)));
        self.deliveries.iter().any(finished)
    }

    /// Applies a change. Returns a description of a violation.
    fn apply(&mut self, change: &ShareChange) -> Option<String> {
        let (count, is_finished) = (self.count, self.is_finished());
        match change {
            ShareChange::Acquired(member, deliveries) => {
                let held_by = self.current().map(|delivery| delivery.member.clone());
                self.count = *deliveries;
                let (member, at) = (Arc::clone(member), Instant::now());
                self.deliveries.push(Delivery { member, count: *deliveries, at, end: None, returned: false });
                if let Some(holder) = held_by {
                    return Some(format!("was delivered while {holder} had its lock"));
                }
                if is_finished {
                    return Some("was delivered after it was finished".to_owned());
                }
                (*deliveries != count + 1).then(|| format!("has delivery count {deliveries} after {count}"))
            }
            ShareChange::Acknowledged(member, RENEW) => {
                let is_holder = self.current().is_some_and(|delivery| delivery.member == *member);
                (!is_holder).then(|| format!("was renewed by {member}, which does not have its lock"))
            }
            ShareChange::Acknowledged(member, kind) => {
                match self.current().filter(|delivery| delivery.member == *member) {
                    Some(delivery) if (ACCEPT..=REJECT).contains(kind) => {
                        delivery.end = Some(End::Acknowledged(*kind));
                        None
                    }
                    Some(_) => Some(format!("was acknowledged by {member} as type {kind}")),
                    None => Some(format!("was acknowledged by {member}, which does not have its lock")),
                }
            }
            ShareChange::Ended(member, reason) => {
                // A new leader does not count deliveries that were not acknowledged.
                if *reason == LockEnd::LeaderMoved {
                    self.count -= 1;
                }
                match self.current().filter(|delivery| delivery.member == *member) {
                    Some(delivery) => {
                        delivery.end = Some(End::Lock(*reason));
                        None
                    }
                    None => Some(format!("lost a lock of {member}, which does not have it")),
                }
            }
            ShareChange::Forgotten => {
                self.count = 0;
                if let Some(delivery) = self.current() {
                    delivery.end = Some(End::Forgotten);
                }
                is_finished.then(|| "was forgotten after it was finished".to_owned())
            }
            ShareChange::LeftOut => Some("was left out, and is part of no transaction".to_owned()),
        }
    }
}

/// Deliveries of all records of a topic.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    records: BTreeMap<Position, Record>,
    /// Member ids by client id.
    members: BTreeMap<String, Arc<str>>,
}

impl Deliveries {
    /// Applies the events since the last call.
    pub(super) fn update(&mut self, context: &Context) {
        for event in take_history() {
            match event {
                Event::ShareMember { client_id, member } => drop(self.members.insert(client_id, member)),
                Event::Shared { partition, first, last, change, .. } if change == ShareChange::Forgotten => {
                    for ((_, offset), record) in self.records.range_mut((partition, first)..=(partition, last)) {
                        if let Some(text) = record.apply(&change) {
                            context.violation(format!("{partition}: record {offset} {text}"));
                        }
                    }
                }
                Event::Shared { partition, first, last, change, .. } => {
                    for offset in first..=last {
                        if let Some(text) = self.records.entry((partition, offset)).or_default().apply(&change) {
                            context.violation(format!("{partition}: record {offset} {text}"));
                        }
                    }
                }
                Event::Committed { .. } => {}
            }
        }
    }

    /// Checks a row that a client has returned. The broker must have delivered the record to its member with the row's
    /// delivery count, once for each row. If the lock has ended since, only the broker may know of it.
    pub(super) fn returned(&mut self, context: &Context, client_id: &str, (partition, offset): Position, count: i16) {
        let member = self.members.get(client_id).cloned();
        let Some(record) = self.records.get_mut(&(partition, offset)) else {
            return context.violation(format!("{partition}: row {offset} was returned and not delivered"));
        };
        let is_finished = record.is_finished();
        let matches = |delivery: &&mut Delivery| {
            !delivery.returned && Some(&delivery.member) == member.as_ref() && delivery.count == count
        };
        let Some(delivery) = record.deliveries.iter_mut().rev().find(matches) else {
            let delivered = &record.deliveries;
            return context.violation(format!(
                "{partition}: row {offset} was returned by {member:?} with delivery count {count}, deliveries: \
                 {delivered:?}"
            ));
        };
        delivery.returned = true;
        let whose = if is_finished { "row of a finished record returned" } else { "row without a lock returned" };
        match delivery.end {
            None => {}
            Some(End::Lock(reason)) => context.reached(format!("{whose}: {reason:?}")),
            Some(End::Forgotten) => context.reached(format!("{whose}: Forgotten")),
            Some(End::Acknowledged(kind)) => context.violation(format!(
                "{partition}: row {offset} was returned by {member:?} after it had acknowledged the row as type {kind}"
            )),
        }
        let reasons = record.deliveries.iter().filter(|_| count > 1).filter_map(|delivery| delivery.end);
        for end in reasons {
            context.reached(match end {
                End::Acknowledged(RELEASE) => "row delivered again: released".to_owned(),
                End::Acknowledged(_) => continue,
                End::Lock(reason) => format!("row delivered again: {reason:?}"),
                End::Forgotten => "row delivered again: Forgotten".to_owned(),
            });
        }
    }

    /// Returns the number of acknowledgements of a record by a client, with a type.
    pub(super) fn acknowledged(&self, client_id: &str, position: Position, kind: i8) -> usize {
        let (Some(member), Some(record)) = (self.members.get(client_id), self.records.get(&position)) else { return 0 };
        let by_member = record.deliveries.iter().filter(|delivery| delivery.member == *member);
        by_member.filter(|delivery| delivery.end == Some(End::Acknowledged(kind))).count()
    }

    /// Returns true if the record and all before it have ended. Like Kafka, the broker then accepts late
    /// acknowledgements of the record, and ignores them.
    pub(super) fn is_before_start(&self, (partition, offset): Position, delivery_limit: i16) -> bool {
        (0..=offset).all(|offset| self.has_ended((partition, offset), delivery_limit))
    }

    /// Returns true if a member has accepted or rejected the record, or its deliveries are used up.
    pub(super) fn has_ended(&self, position: Position, delivery_limit: i16) -> bool {
        self.records.get(&position).is_some_and(|record| record.is_finished() || record.count >= delivery_limit)
    }

    /// Returns the deliveries of a record, for a violation.
    pub(super) fn describe(&self, position: Position) -> String {
        self.records.get(&position).map_or_else(String::new, |record| {
            let deliveries = record.deliveries.iter();
            let texts = deliveries.map(|one| format!("{} {} at {:?}: {:?}", one.member, one.count, one.at, one.end));
            texts.collect::<Vec<_>>().join(", ")
        })
    }
}
