//! Dumps of segments and their indexes, in the text format of Kafka's DumpLogSegments or as one JSON object per line.
mod indexes;
mod kraft;
mod log;
mod records;
mod text;
mod text_output;

use std::time::Duration;

pub use indexes::{IndexDump, IndexDumpOptions};
pub use log::{LogDump, LogDumpOptions};

/// Approximate number of bytes that one [`Dump::step`] writes.
const STEP_BYTES: usize = 1 << 20;
/// Approximate maximum duration of a step. Even a step that writes little may take long, and callers must be able to
/// cancel between steps.
const STEP_TIME: Duration = Duration::from_millis(50);
/// Maximum number of problems and of gaps that are kept, because a file can have as many of them as records.
const MAX_KEPT_FINDINGS: usize = 10_000;

/// Output format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Names and values as Kafka's tool prints them.
    #[default]
    Text,
    /// One JSON object per line, with the names of the text format.
    Json,
}

/// An incremental dump of a file.
pub trait Dump: std::fmt::Debug + Send {
    /// Appends the next lines to `out`. Returns false at the end of the file.
    fn step(&mut self, out: &mut String) -> bool;

    /// Returns the number of bytes of the file that have been dumped.
    fn position(&self) -> u64;

    /// Returns the size of the file.
    fn size(&self) -> u64;

    /// Returns the findings so far.
    fn findings(&self) -> &Findings;
}

/// A problem in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Position of the problem in the file.
    pub position: u64,
    /// Offset of the affected batch, record or index entry.
    pub offset: i64,
    /// Description of the problem.
    pub cause: String,
}

/// Findings in a file. All problems and gaps are counted, but only the first ten thousand of each are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Problems.
    pub problems: Vec<Problem>,
    /// Number of problems.
    pub problem_count: usize,
    /// Pairs of consecutive offsets with a gap between them, for example after compaction. Gaps are only found if
    /// records are printed.
    pub gaps: Vec<(i64, i64)>,
    /// Number of gaps.
    pub gap_count: usize,
    /// Notes about properties that are not errors.
    pub notes: Vec<String>,
}

impl Findings {
    fn problem(&mut self, format: Format, out: &mut String, problem: Problem) {
        text_output::problem(format, out, &problem);
        self.problem_count += 1;
        if self.problems.len() < MAX_KEPT_FINDINGS {
            self.problems.push(problem);
        }
    }

    fn gap(&mut self, after: i64, offset: i64) {
        self.gap_count += 1;
        if self.gaps.len() < MAX_KEPT_FINDINGS {
            self.gaps.push((after, offset));
        }
    }
}
