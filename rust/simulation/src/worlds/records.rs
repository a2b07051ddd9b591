//! Producer of numbered records, for worlds that are about consumers.

use std::time::Duration;

use samsarrow_client::producer::ProducerRecord;
use tokio::time::sleep;

use crate::context::{Context, kind};
use crate::options;

/// Records to send, and the times in between.
pub(super) struct Records<'a> {
    /// Options of the producer.
    pub(super) options: &'a [(&'a str, String)],
    pub(super) count: usize,
    /// One of this many records is followed by a pause.
    pub(super) pause_every: u8,
    pub(super) max_pause_ms: u64,
    pub(super) close_timeout: Duration,
}

/// Sends the number of each record to the topic and partition that `place` returns, until the disturbances end.
pub(super) async fn produce(
    context: &Context,
    random: &mut fastrand::Rng,
    records: Records<'_>,
    mut place: impl FnMut(&mut fastrand::Rng) -> (&'static str, i32),
) {
    let producer = match options::producer(context, records.options) {
        Ok(producer) => producer,
        Err(error) => return context.violation(format!("the producer cannot be created: {error}")),
    };
    for k in 0..records.count {
        if context.is_calm() {
            break;
        }
        let (topic, partition) = place(random);
        let record = ProducerRecord::new(topic, format!("{k}")).with_partition(partition);
        if let Err(error) = producer.send(record).await {
            context.reached(format!("send: {}", kind(&error)));
        }
        if random.u8(..records.pause_every) == 0 {
            sleep(Duration::from_millis(random.u64(..records.max_pause_ms))).await;
        }
    }
    drop(producer.close(records.close_timeout).await);
}
