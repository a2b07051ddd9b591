//! Which broker to ask when any will do.

use std::time::Duration;

use samsarrow_wire::messages::Request;
use tokio::time::Instant;

use super::Cluster;
use crate::error::{Error, Result};

impl Cluster {
    /// Sends a request to any broker that can be reached: known ones in random order, then the bootstrap servers.
    pub async fn send_any<R: Request + Clone>(&self, request: R, timeout: Duration) -> Result<R::Response>
    where
        R::Response: Send + 'static,
    {
        self.send_any_with(timeout, |_| Ok(request.clone())).await.map(|(_, response)| response)
    }

    /// The same with a request that is built for the version in use, which is returned too.
    pub async fn send_any_with<R: Request>(
        &self,
        timeout: Duration,
        build: impl Fn(i16) -> Result<R>,
    ) -> Result<(i16, R::Response)>
    where
        R::Response: Send + 'static,
    {
        let deadline = Instant::now() + timeout;
        let mut failure = None;
        for node in self.candidates() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match self.send_with(node, left, &build).await {
                Ok(answer) => return Ok(answer),
                Err(error @ (Error::Connection { .. } | Error::Protocol { .. } | Error::Timeout { .. })) => {
                    // A peer that does not speak Kafka is worth more in an error than one that is merely down.
                    if !matches!(failure, Some(Error::Protocol { .. })) {
                        failure = Some(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(|| Error::timeout(format!("{} to any broker", R::KEY.name()), timeout)))
    }

    fn candidates(&self) -> Vec<i32> {
        let mut nodes: Vec<i32> = self.metadata().brokers.keys().copied().collect();
        fastrand::shuffle(&mut nodes);
        let mut bootstrap: Vec<i32> = (0..self.inner.options.bootstrap_servers.len()).map(|i| -1 - i as i32).collect();
        fastrand::shuffle(&mut bootstrap);
        nodes.extend(bootstrap);
        nodes
    }
}
