//! Where reading starts and ends, as the options say it.

use crate::error::{Error, Result};
use crate::offsets::Offsets;
use crate::values::{Given, get, natural, numbers_per_partition, quoted};

/// Stands for the first offset of a partition.
pub const EARLIEST: i64 = -2;
/// Stands for the end of a partition.
pub const LATEST: i64 = -1;

const FIRST: &str = "-2 for earliest";
const LAST: &str = "-1 for latest";
const BOTH: &str = "-1 for latest, -2 for earliest";

/// One end of what is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The option that said so, for errors.
    pub option: &'static str,
    /// The symbols that it takes for partitions, for errors.
    pub symbols: &'static str,
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
    /// The same per partition, or [`EARLIEST`] or [`LATEST`].
    Times(Offsets),
    /// The committed offsets of `kafka.group.id`.
    Group,
}

/// Where to start; by default a stream at the latest offset, a batch at the earliest.
pub(crate) fn starting(given: &Given, streaming: bool) -> Result<Bound> {
    let default = if streaming { At::Latest } else { At::Earliest };
    let symbols = if streaming { BOTH } else { FIRST };
    let bound = match timed(given, "startingTimestamp", "startingOffsetsByTimestamp", symbols)? {
        Some(bound) => bound,
        None => plain(given, "startingOffsets", default, symbols)?,
    };
    if !streaming {
        refuse(&bound, &At::Latest, LATEST, "latest")?;
    }
    Ok(bound)
}

/// Where a batch ends.
pub(crate) fn ending(given: &Given) -> Result<Bound> {
    let bound = match timed(given, "endingTimestamp", "endingOffsetsByTimestamp", LAST)? {
        Some(bound) => bound,
        None => plain(given, "endingOffsets", At::Latest, LAST)?,
    };
    if bound.at == At::Group {
        return Err(Error::configuration("option endingOffsets cannot be 'group': only startingOffsets can"));
    }
    refuse(&bound, &At::Earliest, EARLIEST, "earliest")?;
    Ok(bound)
}

fn timed(given: &Given, everywhere: &'static str, each: &'static str, symbols: &'static str) -> Result<Option<Bound>> {
    if let Some(time) = natural(given, everywhere)? {
        let at = At::Time(i64::try_from(time).unwrap_or(i64::MAX));
        return Ok(Some(Bound { option: everywhere, symbols, at }));
    }
    let Some(text) = get(given, each) else { return Ok(None) };
    let times = numbers_per_partition(text, each, EARLIEST, &format!("a time in milliseconds ({symbols})"))?;
    Ok(Some(Bound { option: each, symbols, at: At::Times(times) }))
}

fn plain(given: &Given, option: &'static str, default: At, symbols: &'static str) -> Result<Bound> {
    let Some(text) = get(given, option).map(str::trim) else { return Ok(Bound { option, symbols, at: default }) };
    let at = match text.to_lowercase().as_str() {
        "earliest" => At::Earliest,
        "latest" => At::Latest,
        "group" => At::Group,
        _ => At::Offsets(numbers_per_partition(text, option, EARLIEST, &format!("an offset ({symbols})"))?),
    };
    Ok(Bound { option, symbols, at })
}

/// A batch cannot start at the latest offset nor end at the earliest.
fn refuse(bound: &Bound, everywhere: &At, symbol: i64, word: &str) -> Result<()> {
    let option = bound.option;
    if bound.at == *everywhere {
        return Err(Error::configuration(format!("option {option} cannot be {} in a batch read", quoted(word))));
    }
    let (At::Offsets(offsets) | At::Times(offsets)) = &bound.at else { return Ok(()) };
    match offsets.iter().find(|(_, offset)| **offset == symbol) {
        Some((tp, _)) => Err(Error::configuration(format!(
            "option {option}: {symbol} ({word}) of {tp} cannot be used in a batch read"
        ))),
        None => Ok(()),
    }
}
