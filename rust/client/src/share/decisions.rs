//! Decisions of the application about returned rows.

use std::time::Duration;

use arrow_array::RecordBatch;
use tokio::time::Instant;

use super::acks::RowState;
use super::consumer::ShareConsumer;
use super::options::AcknowledgementMode;
use super::rows::{drop_expired, positions};
use super::state::State;
use crate::error::{Error, Result};
use crate::types::TopicPartition;

/// Type of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledgement {
    /// The record was processed.
    Accept,
    /// The record returns to the group, which delivers it again.
    Release,
    /// The record cannot be processed, and is not delivered again.
    Reject,
    /// The lock of the record starts again.
    Renew,
}

impl Acknowledgement {
    /// Returns the type with this number in the protocol.
    pub fn from_code(code: i8) -> Option<Self> {
        match code {
            1 => Some(Self::Accept),
            2 => Some(Self::Release),
            3 => Some(Self::Reject),
            4 => Some(Self::Renew),
            _ => None,
        }
    }

    fn state(self) -> RowState {
        match self {
            Self::Accept => RowState::Accept,
            Self::Release => RowState::Release,
            Self::Reject => RowState::Reject,
            Self::Renew => RowState::Renew,
        }
    }
}

impl ShareConsumer {
    /// Acknowledges rows, each by its type or all by one; rows with the type `None` stay undecided. The next poll or
    /// commit sends the acknowledgements.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] if the batches have no positions, and with [`Error::State`] if the consumer
    /// does not have a row, or if the mode is not explicit. Nothing is acknowledged then.
    pub fn acknowledge(&self, batches: &[RecordBatch], types: &[Option<Acknowledgement>]) -> Result<()> {
        self.check_open()?;
        if self.shared.share.acknowledgement_mode == AcknowledgementMode::Implicit {
            return Err(Error::State(
                "the consumer accepts rows by itself: create it with acknowledgement=\"explicit\"".into(),
            ));
        }
        self.decide_where(batches, types, RowState::is_out)
    }

    /// Like [`acknowledge`](Self::acknowledge), in both modes, and also for rows that no poll has returned yet.
    pub fn decide(&self, batches: &[RecordBatch], types: &[Option<Acknowledgement>]) -> Result<()> {
        self.decide_where(batches, types, is_held)
    }

    fn decide_where(
        &self,
        batches: &[RecordBatch],
        types: &[Option<Acknowledgement>],
        is: impl Fn(RowState) -> bool + Copy,
    ) -> Result<()> {
        self.check_open()?;
        let runs = positions(batches)?;
        let total: usize = runs.iter().map(|run| run.offsets().len()).sum();
        if types.len() != 1 && types.len() != total {
            return Err(Error::configuration(format!(
                "{} acknowledgement types for {total} rows: pass one type, or one for each row",
                types.len()
            )));
        }
        // Most programs decide about whole batches with one type.
        let single = match types {
            [Some(kind)] => Some(kind.state()),
            _ => None,
        };
        let kind_of = |row: usize| types.get(if types.len() == 1 { 0 } else { row }).copied().flatten();
        self.shared.with(|state| {
            for run in &runs {
                if let (Some(known), Some((first, last))) = (state.rows.get(&run.tp), single.and_then(|_| run.range()))
                {
                    check(known.first_without_in(first, last, is), &run.tp)?;
                    continue;
                }
                let rows = (run.first_row..).zip(run.offsets());
                let mut decided = rows.filter(|(row, _)| kind_of(*row).is_some()).map(|(_, offset)| *offset);
                let missing = match state.rows.get(&run.tp) {
                    Some(known) => known.first_without(decided, is),
                    None => decided.next(),
                };
                check(missing, &run.tp)?;
            }
            for run in &runs {
                let rows = (run.first_row..).zip(run.offsets());
                let Some(known) = state.rows.get_mut(&run.tp) else { continue };
                match (single, run.range()) {
                    (Some(state), Some((first, last))) => known.set_range(first, last, state),
                    _ => known.set(rows.filter_map(|(row, offset)| Some((*offset, kind_of(row)?.state())))),
                }
            }
            Ok(())
        })
    }

    /// Marks rows of [`try_hold`](Self::try_hold) as returned by a poll. In the implicit mode, the next commit reports
    /// those whose locks were lost in the meantime.
    pub fn set_returned(&self, batches: &[RecordBatch]) -> Result<()> {
        let runs = positions(batches)?;
        let is_implicit = self.shared.share.acknowledgement_mode == AcknowledgementMode::Implicit;
        self.shared.with(|state| {
            for run in &runs {
                let known = state.rows.get(&run.tp);
                let is_held = |offset: &i64| known.and_then(|rows| rows.state(*offset)) == Some(RowState::Queued);
                let (held, lost): (Vec<i64>, Vec<i64>) = run.offsets().iter().partition(|offset| is_held(offset));
                if let Some(known) = state.rows.get_mut(&run.tp) {
                    known.set(held.into_iter().map(|offset| (offset, RowState::Returned)));
                }
                if is_implicit {
                    state.lose_held(&run.tp, &lost);
                }
            }
        });
        Ok(())
    }

    /// Returns for each row of [`try_hold`](Self::try_hold) whether it can still be returned. The group delivers rows
    /// whose locks have ended again.
    pub fn still_held(&self, batches: &[RecordBatch]) -> Result<Vec<bool>> {
        let runs = positions(batches)?;
        let now = Instant::now();
        let mut good = Vec::new();
        self.shared.with(|state| {
            for run in &runs {
                match state.rows.get_mut(&run.tp) {
                    Some(known) => drop_expired(known, run.offsets(), now, &mut good),
                    None => good.resize(good.len() + run.offsets().len(), false),
                }
            }
        });
        Ok(good)
    }

    /// Returns the time left until the first lock of these rows ends; `None` if the consumer has none of them.
    pub fn locked_for(&self, batches: &[RecordBatch]) -> Result<Option<Duration>> {
        let runs = positions(batches)?;
        let now = Instant::now();
        Ok(self.shared.with(|state| {
            let ends = runs.iter().flat_map(|run| {
                let known = state.rows.get(&run.tp);
                run.offsets().iter().filter_map(move |offset| {
                    let range = known?.range(*offset)?;
                    let is_open = range.lost.is_none() && range.state(*offset).is_some_and(is_held);
                    is_open.then_some(range.locked_until)
                })
            });
            ends.min().map(|end| end.saturating_duration_since(now))
        }))
    }
}

/// Fails if the consumer does not have a row.
fn check(missing: Option<i64>, tp: &TopicPartition) -> Result<()> {
    missing.map_or(Ok(()), |offset| {
        Err(Error::State(format!(
            "offset {offset} of {tp} is not with this consumer: it was acknowledged before, or never returned by its \
             polls"
        )))
    })
}

/// Returns true if the row waits for a poll, or the application has it and may acknowledge it.
fn is_held(state: RowState) -> bool {
    state == RowState::Queued || state.is_out()
}

/// Fails if the application has a row that it has not acknowledged.
pub(super) fn check_decided(state: &State) -> Result<()> {
    let undecided = state.rows.iter().find_map(|(tp, rows)| Some((tp, rows.first_with(RowState::Returned)?)));
    match undecided {
        None => Ok(()),
        Some((tp, offset)) => Err(Error::State(format!(
            "offset {offset} of {tp} is not acknowledged: acknowledge each row of a poll before the next poll"
        ))),
    }
}
