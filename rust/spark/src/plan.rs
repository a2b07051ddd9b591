//! A batch read: asks the brokers for what the options leave open and cuts the result into tasks.

use samsarrow_client::error::Error as ClientError;
use samsarrow_wire::error_code::ErrorCode;

use crate::bounds::{At, Bound};
use crate::brokers::Brokers;
use crate::error::{Error, Result};
use crate::offsets::Offsets;
use crate::options::ReadOptions;
use crate::predicates::Predicates;
use crate::ranges::{OffsetRange, split};

/// The tasks of a batch read.
///
/// # Errors
/// A topic or partition to be read does not exist; given offsets do not cover exactly the partitions to be read, or end
/// before they start.
pub(crate) async fn plan(options: &ReadOptions, brokers: &Brokers, wanted: &Predicates) -> Result<Vec<OffsetRange>> {
    let partitions = brokers.partitions(options, true).await?.partitions;
    let starts = brokers.resolve(options, &options.starting, &partitions).await?;
    let ends = brokers.resolve(options, &options.ending, &partitions).await?;
    let since = match wanted.since {
        Some(time) => {
            let later = Bound { option: "timestamp", symbols: "", at: At::Time(time.max(0)) };
            brokers.resolve(options, &later, &partitions).await?
        }
        None => Offsets::new(),
    };
    let mut ranges = Vec::new();
    for tp in partitions.iter().filter(|tp| wanted.allow(tp)) {
        let (Some(&start), Some(&end)) = (starts.get(tp), ends.get(tp)) else {
            let text = format!("{tp} is to be read, and has no start or no end: read again");
            return Err(Error::Client(ClientError::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text)));
        };
        if start > end {
            return Err(Error::configuration(format!(
                "{tp} would be read from offset {start} ({}) to {end} ({}), where it ends before it starts",
                options.starting.option, options.ending.option
            )));
        }
        // Without a bound of time there is none to be after.
        let start = start.max(since.get(tp).copied().unwrap_or(start));
        let (start, end) = wanted.clip(tp, start, end);
        ranges.push(OffsetRange { tp: tp.clone(), start, end });
    }
    Ok(split(&ranges, options.min_partitions, options.max_records_per_partition))
}
