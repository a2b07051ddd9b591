//! Rows whose keys or values are decoded, once it is known what they were written with.

use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use samsarrow_client::error::{Error, Result as ClientResult};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Next, Reader};
use crate::decoded::Answer;
use crate::failure::{Failure, Result};
use crate::frame::Frame;

/// Rows, and the question about them that a registry has yet to answer.
#[derive(Debug)]
pub(super) struct Undecoded {
    batch: RecordBatch,
    /// All is asked for that was not known.
    asked: bool,
    question: Option<JoinHandle<ClientResult<Vec<Answer>>>>,
}

impl From<RecordBatch> for Undecoded {
    fn from(batch: RecordBatch) -> Self {
        Undecoded { batch, asked: false, question: None }
    }
}

impl Drop for Undecoded {
    fn drop(&mut self) {
        if let Some(question) = &self.question {
            question.abort();
        }
    }
}

impl Reader {
    /// Hands out the rows that wait for it. A registry that does not answer holds up no caller for longer than `wait`.
    pub(super) async fn decode(&mut self, wait: Duration) -> Result<Next> {
        let done = self.decoded(wait).await;
        if let Err(failure) = &done {
            // The rows are gone: nobody goes on behind them.
            self.bad = Some(failure.clone());
        }
        done
    }

    async fn decoded(&mut self, wait: Duration) -> Result<Next> {
        let Some(mut rows) = self.undecoded.take() else { return Ok(Next::Nothing) };
        if !rows.asked {
            rows.asked = true;
            if let Some(registry) = self.shared.registry()? {
                rows.question = self.decodings.question(&rows.batch, registry)?.map(tokio::spawn);
            }
        }
        if let Some(question) = &mut rows.question {
            let begun = Instant::now();
            let answered = timeout(wait, question).await;
            self.counters.wait += begun.elapsed();
            // It has times of its own, after which it fails.
            self.progress = Instant::now();
            let Ok(answers) = answered else {
                self.undecoded = Some(rows);
                return Ok(Next::Nothing);
            };
            rows.question = None;
            let closed = |_| Err(Error::closed("the schema registry's client"));
            self.decodings.learn(answers.unwrap_or_else(closed)?);
        }
        let begun = Instant::now();
        let (columns, count, bad) = self.decodings.decode(&rows.batch, &self.range.tp)?;
        match bad {
            Some(bad) if count == 0 => return Err(bad),
            bad => self.bad = bad,
        }
        let batch = rows.batch.slice(0, count);
        if self.bad.is_none() && count < rows.batch.num_rows() {
            rows.batch = rows.batch.slice(count, rows.batch.num_rows() - count);
            self.undecoded = Some(rows);
        }
        let frame = Frame::new(&batch, &self.range.columns, &columns, self.range.vectors, &self.range.tp);
        let frame = frame.map_err(|failure| self.placed(failure, &batch))?;
        Ok(self.handed_out(frame, begun))
    }

    /// The error of a value, with the rows among which it is.
    fn placed(&self, failure: Failure, batch: &RecordBatch) -> Failure {
        let offsets = batch.column_by_name("offset").and_then(|column| column.as_primitive_opt::<Int64Type>());
        match offsets.map(|offsets| offsets.values()).map(|offsets| (offsets.first(), offsets.last())) {
            Some((Some(first), Some(last))) if failure.kind == "bad_value" => {
                let text = format!("{}. It is in {}, in offsets {first} to {last}.", failure.text, self.range.tp);
                Failure { text, ..failure }
            }
            _ => failure,
        }
    }
}
