//! Planning of batch reads: resolves the start and end offsets and splits the ranges into tasks.

use samsarrow_client::error::Error as ClientError;
use samsarrow_wire::error_code::ErrorCode;

use crate::bounds::{Bound, OffsetSpec};
use crate::error::{Error, Result};
use crate::kafka_metadata::KafkaMetadata;
use crate::offsets::Offsets;
use crate::options::ReadOptions;
use crate::predicates::Predicates;
use crate::ranges::{OffsetRange, split};

/// Returns the offset ranges of the tasks of a batch read.
///
/// # Errors
/// Fails if a topic or partition does not exist, if the offsets in an option do not cover exactly the partitions to
/// read, or if a range ends before it starts.
pub(crate) async fn plan(
    options: &ReadOptions,
    metadata: &KafkaMetadata,
    predicates: &Predicates,
) -> Result<Vec<OffsetRange>> {
    let partitions = metadata.partitions(options, true).await?.partitions;
    let starts = metadata.resolve(options, &options.starting, &partitions).await?;
    let ends = metadata.resolve(options, &options.ending, &partitions).await?;
    let since = match predicates.since {
        Some(time) => {
            let later = Bound { option: "timestamp", symbols: "", spec: OffsetSpec::Time(time.max(0)) };
            metadata.resolve(options, &later, &partitions).await?
        }
        None => Offsets::new(),
    };
    let mut ranges = Vec::new();
    for tp in partitions.iter().filter(|tp| predicates.allow(tp)) {
        let (Some(&start), Some(&end)) = (starts.get(tp), ends.get(tp)) else {
            let text = format!("the brokers returned no start or end offset of {tp}: read again");
            return Err(Error::Client(ClientError::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text)));
        };
        if start > end {
            return Err(Error::configuration(format!(
                "{tp} would be read from offset {start} ({}) to {end} ({}), where it ends before it starts",
                options.starting.option, options.ending.option
            )));
        }
        // If there is no predicate for the timestamp, the start does not change.
        let start = start.max(since.get(tp).copied().unwrap_or(start));
        let (start, end) = predicates.clip(tp, start, end);
        ranges.push(OffsetRange { tp: tp.clone(), start, end });
    }
    Ok(split(&ranges, options.min_partitions, options.max_records_per_partition))
}
