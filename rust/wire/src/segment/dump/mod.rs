//! Segments and their indexes written down, for people as Kafka's own DumpLogSegments writes them, for programs as one
//! JSON object a line.
mod indexes;
mod kraft;
mod lines;
mod log;
mod records;
mod text;

use std::time::Duration;

pub use indexes::{IndexDump, IndexDumpOptions};
pub use log::{LogDump, LogDumpOptions};

/// About how many bytes of text one [`Dump::step`] makes.
const STEP_BYTES: usize = 1 << 20;
/// About how long one takes at most: what prints little can be much work, and anyone who waits wants to be able to stop.
const STEP_TIME: Duration = Duration::from_millis(50);
/// The most problems and gaps that are kept: a file can have as many as it has records.
const MOST_KEPT: usize = 10_000;

/// How lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Names and values as Kafka's tool prints them.
    #[default]
    Text,
    /// A JSON object a line, with the same names.
    Json,
}

/// A file being written down, piece by piece.
pub trait Dump: std::fmt::Debug + Send {
    /// Appends the next lines to `out`; false at the end.
    fn step(&mut self, out: &mut String) -> bool;

    /// Bytes of the file that are dealt with.
    fn position(&self) -> u64;

    /// Bytes of the file.
    fn size(&self) -> u64;

    /// What was found.
    fn findings(&self) -> &Findings;
}

/// Something wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where in the file.
    pub position: u64,
    /// At which offset.
    pub offset: i64,
    /// What is wrong.
    pub cause: String,
}

/// What was found in a file besides its lines; the first ten thousand of each kind are kept, all are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// How many problems there are.
    pub problem_count: usize,
    /// Offsets that do not follow each other, as compaction leaves them: each with the one that comes next. Only known
    /// when records were looked at.
    pub gaps: Vec<(i64, i64)>,
    /// How many gaps there are.
    pub gap_count: usize,
    /// What an intact file can have to say.
    pub notes: Vec<String>,
}

impl Findings {
    fn problem(&mut self, format: Format, out: &mut String, problem: Problem) {
        lines::problem(format, out, &problem);
        self.problem_count += 1;
        if self.problems.len() < MOST_KEPT {
            self.problems.push(problem);
        }
    }

    fn gap(&mut self, after: i64, offset: i64) {
        self.gap_count += 1;
        if self.gaps.len() < MOST_KEPT {
            self.gaps.push((after, offset));
        }
    }
}
