//! Where brokers keep the state of share groups: a topic of their own, which they make when it is first needed.
//!
//! Where it cannot be made, Kafka 4.3 answers only after half a minute, and that it found no coordinator: measured with one
//! broker and the default of three replicas. Until then it reads nothing else from that connection, so that what asks here
//! goes over another one.

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use tokio::time::sleep;

use super::{Admin, ConfigResource};
use crate::error::{Error, Result};

/// The topic.
const TOPIC: &str = "__share_group_state";
const REPLICAS: &str = "share.coordinator.state.topic.replication.factor";
const BROKER: i8 = 4;
/// Brokers that can make the topic have done so by then.
const USUAL: Duration = Duration::from_secs(1);

impl Admin {
    /// What `asked` gives, or why brokers will not answer it.
    ///
    /// # Errors
    /// That of `asked`; that the topic cannot be made.
    pub(super) async fn with_share_state<T>(
        &self,
        what: &str,
        timeout: Duration,
        asked: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let impossible = async {
            sleep(USUAL).await;
            match self.impossible(what, timeout).await {
                Ok(Some(error)) => error,
                // Whatever it is, the brokers' own answer says it better.
                Ok(None) | Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            done = asked => done,
            error = impossible => Err(error),
        }
    }

    async fn impossible(&self, what: &str, timeout: Duration) -> Result<Option<Error>> {
        if !self.list_topics(Some(&[TOPIC.to_owned()]), timeout).await?.is_empty() {
            return Ok(None);
        }
        let brokers = self.brokers(timeout).await?;
        let Some(broker) = brokers.first() else { return Ok(None) };
        let resource = ConfigResource { kind: BROKER, name: broker.to_string() };
        let wanted = BTreeMap::from([(resource, Some(vec![REPLICAS.to_owned()]))]);
        let told = self.describe_configs(&wanted, false, false, timeout).await?;
        let entries = told.into_iter().next().map_or_else(|| Ok(Vec::new()), |(_, entries)| entries)?;
        let replicas = entries.into_iter().find(|entry| entry.name == REPLICAS).and_then(|entry| entry.value);
        let count = brokers.len();
        let missing = replicas.and_then(|text| text.parse::<usize>().ok()).filter(|replicas| *replicas > count);
        Ok(missing.map(|replicas| {
            let text = format!(
                "{what} (brokers keep it in the topic {TOPIC}, which they cannot make: {REPLICAS} is {replicas}, and the \
                 cluster has {count} of them; lower it on the brokers and start them again)"
            );
            Error::server(ErrorCode::INVALID_REPLICATION_FACTOR, text)
        }))
    }
}
