//! The topic `__share_group_state`, in which brokers store the state of share groups. They create it on first use.
//!
//! If the topic cannot be created, Kafka 4.3 responds only after 30 seconds with the error that it found no coordinator
//! (measured with one broker and the default of three replicas). Until then, the broker reads no other request from the
//! connection, so requests that need the topic use a separate connection.

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use tokio::time::sleep;

use super::{Admin, ConfigResource};
use crate::error::{Error, Result};

/// Name of the topic.
const STATE_TOPIC: &str = "__share_group_state";
const REPLICAS: &str = "share.coordinator.state.topic.replication.factor";
const BROKER: i8 = 4;
/// Time within which brokers normally create the topic.
const CREATION_TIMEOUT: Duration = Duration::from_secs(1);

impl Admin {
    /// Returns the result of `request`. If there is none after [`CREATION_TIMEOUT`], checks whether the topic can be
    /// created.
    ///
    /// # Errors
    /// Fails with the error of `request`, or with `INVALID_REPLICATION_FACTOR` if the topic cannot be created.
    pub(super) async fn with_share_state<T>(
        &self,
        context: &str,
        timeout: Duration,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let failure = async {
            sleep(CREATION_TIMEOUT).await;
            match self.topic_error(context, timeout).await {
                Ok(Some(error)) => error,
                // No reason was found, so the result of `request` is awaited.
                Ok(None) | Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            done = request => done,
            error = failure => Err(error),
        }
    }

    async fn topic_error(&self, context: &str, timeout: Duration) -> Result<Option<Error>> {
        if !self.list_topics(Some(&[STATE_TOPIC.to_owned()]), timeout).await?.is_empty() {
            return Ok(None);
        }
        let brokers = self.brokers(timeout).await?;
        let Some(broker) = brokers.first() else { return Ok(None) };
        let resource = ConfigResource { kind: BROKER, name: broker.to_string() };
        let keys = BTreeMap::from([(resource, Some(vec![REPLICAS.to_owned()]))]);
        let described = self.describe_configs(&keys, false, false, timeout).await?;
        let entries = described.into_iter().next().map_or_else(|| Ok(Vec::new()), |(_, entries)| entries)?;
        let replicas = entries.into_iter().find(|entry| entry.name == REPLICAS).and_then(|entry| entry.value);
        let count = brokers.len();
        let missing = replicas.and_then(|text| text.parse::<usize>().ok()).filter(|replicas| *replicas > count);
        Ok(missing.map(|replicas| {
            let text = format!(
                "{context} (brokers keep it in the topic {STATE_TOPIC}, which they cannot make: {REPLICAS} is {replicas}, and the \
                 cluster has {count} of them; lower it on the brokers and start them again)"
            );
            Error::server(ErrorCode::INVALID_REPLICATION_FACTOR, text)
        }))
    }
}
