//! Start and end offsets of reads, parsed from the options.

use crate::error::{Error, Result};
use crate::offsets::Offsets;
use crate::option_values::{RawOptions, get, natural, numbers_per_partition, quoted};

/// Number in the options that stands for the first offset of a partition.
pub const EARLIEST: i64 = -2;
/// Number in the options that stands for the end of a partition.
pub const LATEST: i64 = -1;

const FIRST: &str = "-2 for earliest";
const LAST: &str = "-1 for latest";
const BOTH: &str = "-1 for latest, -2 for earliest";

/// Start or end of a read, as set by an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// Option that set the bound, for error messages.
    pub option: &'static str,
    /// Symbolic offsets that the option accepts for single partitions, for error messages.
    pub symbols: &'static str,
    pub spec: OffsetSpec,
}

/// Determines the offset of a bound in each partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The first offset.
    Earliest,
    /// The end.
    Latest,
    /// The offset of each partition, which may be [`EARLIEST`] or [`LATEST`].
    Offsets(Offsets),
    /// A timestamp for all partitions, in milliseconds since 1970.
    Time(i64),
    /// The timestamp of each partition in milliseconds since 1970, or [`EARLIEST`] or [`LATEST`].
    Times(Offsets),
    /// The committed offsets of the group `kafka.group.id`.
    Group,
}

/// Returns the start of a read. By default, a stream starts at the latest offset and a batch at the earliest.
pub(crate) fn starting(options: &RawOptions, streaming: bool) -> Result<Bound> {
    let default = if streaming { OffsetSpec::Latest } else { OffsetSpec::Earliest };
    let symbols = if streaming { BOTH } else { FIRST };
    let bound = match timestamp_bound(options, "startingTimestamp", "startingOffsetsByTimestamp", symbols)? {
        Some(bound) => bound,
        None => offsets_bound(options, "startingOffsets", default, symbols)?,
    };
    if !streaming {
        reject(&bound, &OffsetSpec::Latest, LATEST, "latest")?;
    }
    Ok(bound)
}

/// Returns the end of a batch read.
pub(crate) fn ending(options: &RawOptions) -> Result<Bound> {
    let bound = match timestamp_bound(options, "endingTimestamp", "endingOffsetsByTimestamp", LAST)? {
        Some(bound) => bound,
        None => offsets_bound(options, "endingOffsets", OffsetSpec::Latest, LAST)?,
    };
    if bound.spec == OffsetSpec::Group {
        return Err(Error::configuration("option endingOffsets cannot be 'group': only startingOffsets can"));
    }
    reject(&bound, &OffsetSpec::Earliest, EARLIEST, "earliest")?;
    Ok(bound)
}

fn timestamp_bound(
    options: &RawOptions,
    all: &'static str,
    per_partition: &'static str,
    symbols: &'static str,
) -> Result<Option<Bound>> {
    if let Some(time) = natural(options, all)? {
        let spec = OffsetSpec::Time(i64::try_from(time).unwrap_or(i64::MAX));
        return Ok(Some(Bound { option: all, symbols, spec }));
    }
    let Some(text) = get(options, per_partition) else { return Ok(None) };
    let times = numbers_per_partition(text, per_partition, EARLIEST, &format!("a time in milliseconds ({symbols})"))?;
    Ok(Some(Bound { option: per_partition, symbols, spec: OffsetSpec::Times(times) }))
}

fn offsets_bound(
    options: &RawOptions,
    option: &'static str,
    default: OffsetSpec,
    symbols: &'static str,
) -> Result<Bound> {
    let Some(text) = get(options, option).map(str::trim) else { return Ok(Bound { option, symbols, spec: default }) };
    let spec = match text.to_lowercase().as_str() {
        "earliest" => OffsetSpec::Earliest,
        "latest" => OffsetSpec::Latest,
        "group" => OffsetSpec::Group,
        _ => OffsetSpec::Offsets(numbers_per_partition(text, option, EARLIEST, &format!("an offset ({symbols})"))?),
    };
    Ok(Bound { option, symbols, spec })
}

/// Rejects a batch read that starts at the latest offset or ends at the earliest offset.
fn reject(bound: &Bound, all: &OffsetSpec, symbol: i64, word: &str) -> Result<()> {
    let option = bound.option;
    if bound.spec == *all {
        return Err(Error::configuration(format!("option {option} cannot be {} in a batch read", quoted(word))));
    }
    let (OffsetSpec::Offsets(offsets) | OffsetSpec::Times(offsets)) = &bound.spec else { return Ok(()) };
    match offsets.iter().find(|(_, offset)| **offset == symbol) {
        Some((tp, _)) => Err(Error::configuration(format!(
            "option {option}: {symbol} ({word}) of {tp} cannot be used in a batch read"
        ))),
        None => Ok(()),
    }
}
