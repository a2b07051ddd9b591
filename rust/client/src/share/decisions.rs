//! Decisions of the application about returned rows.

use std::time::Duration;

use arrow_array::RecordBatch;
use tokio::time::Instant;

use super::acks::RowState;
use super::consumer::ShareConsumer;
use super::options::AcknowledgementMode;
use super::rows::positions;
use super::state::State;
use crate::error::{Error, Result};

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
        self.decide(batches, types)
    }

    /// Like [`acknowledge`](Self::acknowledge), in both modes.
    pub fn decide(&self, batches: &[RecordBatch], types: &[Option<Acknowledgement>]) -> Result<()> {
        self.check_open()?;
        let decisions = positions(batches)?;
        let total: usize = decisions.values().map(Vec::len).sum();
        if types.len() != 1 && types.len() != total {
            return Err(Error::configuration(format!(
                "{} acknowledgement types for {total} rows: pass one type, or one for each row",
                types.len()
            )));
        }
        let kind_of = |row: usize| types.get(if types.len() == 1 { 0 } else { row }).copied().flatten();
        self.shared.with(|state| {
            for (tp, rows) in &decisions {
                let decided = rows.iter().filter(|(row, _)| kind_of(*row).is_some()).map(|(_, offset)| *offset);
                let missing = match state.rows.get(tp) {
                    Some(known) => known.first_not_out(decided),
                    None => decided.into_iter().next(),
                };
                if let Some(offset) = missing {
                    return Err(Error::State(format!(
                        "offset {offset} of {tp} is not with this consumer: it was acknowledged before, or never \
                         returned by its polls"
                    )));
                }
            }
            for (tp, rows) in &decisions {
                let decided = rows.iter().filter_map(|(row, offset)| Some((*offset, kind_of(*row)?.state())));
                if let Some(known) = state.rows.get_mut(tp) {
                    known.set(decided);
                }
            }
            Ok(())
        })
    }

    /// Marks rows as not returned, or as returned again, for callers that return only some rows of a batch.
    pub fn set_returned(&self, batches: &[RecordBatch], is_returned: bool) -> Result<()> {
        let rows = positions(batches)?;
        let (from, to) = match is_returned {
            true => (RowState::Queued, RowState::Returned),
            false => (RowState::Returned, RowState::Queued),
        };
        self.shared.with(|state| {
            for (tp, rows) in &rows {
                let Some(known) = state.rows.get_mut(tp) else { continue };
                let held: Vec<_> = rows
                    .iter()
                    .filter(|(_, offset)| known.state(*offset) == Some(from))
                    .map(|(_, offset)| (*offset, to))
                    .collect();
                known.set(held);
            }
        });
        Ok(())
    }

    /// Returns the time left until the first lock of these rows ends; `None` if the consumer has none of them.
    pub fn locked_for(&self, batches: &[RecordBatch]) -> Result<Option<Duration>> {
        let rows = positions(batches)?;
        let now = Instant::now();
        Ok(self.shared.with(|state| {
            let ends = rows.iter().flat_map(|(tp, rows)| {
                let known = state.rows.get(tp);
                rows.iter().filter_map(move |(_, offset)| {
                    let known = known?;
                    let is_open = known.first_not_out([*offset]).is_none();
                    known.range(*offset).filter(|range| is_open && range.lost.is_none()).map(|range| range.locked_until)
                })
            });
            ends.min().map(|end| end.saturating_duration_since(now))
        }))
    }
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
