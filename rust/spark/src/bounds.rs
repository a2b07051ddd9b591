//! Where reading starts and ends, as the options say it.

use crate::error::{Error, Result};
use crate::offsets::Offsets;
use crate::values::{Given, get, natural, numbers_per_partition, quoted};

/// Stands for the first offset of a partition.
pub const EARLIEST: i64 = -2;
/// Stands for the end of a partition.
pub const LATEST: i64 = -1;

/// One end of what is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The option that said so, for errors.
    pub option: &'static str,
    /// Where it is.
    pub at: At,
}

/// A place in every partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// The first offset.
    Earliest,
    /// The end.
    Latest,
    /// Per partition a number, [`EARLIEST`] or [`LATEST`].
    Offsets(Offsets),
    /// Milliseconds since 1970, for all partitions.
    Time(i64),
    /// The same per partition.
    Times(Offsets),
    /// The committed offsets of `kafka.group.id`.
    Group,
}

/// Where to start; by default a stream at the latest offset, a batch at the earliest.
pub(crate) fn starting(given: &Given, streaming: bool) -> Result<Bound> {
    let default = if streaming { At::Latest } else { At::Earliest };
    let bound = match timed(given, "startingTimestamp", "startingOffsetsByTimestamp")? {
        Some(bound) => bound,
        None => plain(given, "startingOffsets", default)?,
    };
    if !streaming {
        refuse(&bound, &At::Latest, LATEST, "latest")?;
    }
    Ok(bound)
}

/// Where a batch ends.
pub(crate) fn ending(given: &Given) -> Result<Bound> {
    let bound = match timed(given, "endingTimestamp", "endingOffsetsByTimestamp")? {
        Some(bound) => bound,
        None => plain(given, "endingOffsets", At::Latest)?,
    };
    if bound.at == At::Group {
        return Err(Error::configuration("option endingOffsets cannot be 'group': only startingOffsets can"));
    }
    refuse(&bound, &At::Earliest, EARLIEST, "earliest")?;
    Ok(bound)
}

fn timed(given: &Given, everywhere: &'static str, each: &'static str) -> Result<Option<Bound>> {
    if let Some(time) = natural(given, everywhere)? {
        return Ok(Some(Bound { option: everywhere, at: At::Time(i64::try_from(time).unwrap_or(i64::MAX)) }));
    }
    let Some(text) = get(given, each) else { return Ok(None) };
    let times = numbers_per_partition(text, each, 0, "a time in milliseconds")?;
    Ok(Some(Bound { option: each, at: At::Times(times) }))
}

fn plain(given: &Given, option: &'static str, default: At) -> Result<Bound> {
    let Some(text) = get(given, option).map(str::trim) else { return Ok(Bound { option, at: default }) };
    let at = match text.to_lowercase().as_str() {
        "earliest" => At::Earliest,
        "latest" => At::Latest,
        "group" => At::Group,
        _ => At::Offsets(numbers_per_partition(text, option, EARLIEST, "an offset")?),
    };
    Ok(Bound { option, at })
}

/// A batch cannot start at the latest offset nor end at the earliest.
fn refuse(bound: &Bound, everywhere: &At, symbol: i64, word: &str) -> Result<()> {
    let option = bound.option;
    if bound.at == *everywhere {
        return Err(Error::configuration(format!("option {option} cannot be {} in a batch read", quoted(word))));
    }
    let At::Offsets(offsets) = &bound.at else { return Ok(()) };
    match offsets.iter().find(|(_, offset)| **offset == symbol) {
        Some((tp, _)) => Err(Error::configuration(format!(
            "option {option}: {symbol} ({word}) of {tp} cannot be used in a batch read"
        ))),
        None => Ok(()),
    }
}
