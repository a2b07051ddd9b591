//! Requests to one broker, in the version that both sides know.

use std::sync::Arc;

use samsarrow_wire::messages::{ApiKey, Request};

use super::{Cluster, Wanted};
use crate::api_versions::Ours;
use crate::error::Result;
use crate::net::{Connection, FrameBody, Patience, RequestTimeout};

impl Cluster {
    /// Sends a request to a broker and waits for the answer.
    pub async fn send<R: Request>(&self, node: i32, request: R, patience: impl Into<Patience>) -> Result<R::Response>
    where
        R::Response: Send + 'static,
    {
        self.dispatch(node, patience, |_| Ok(request)).await?.await
    }

    /// The same with a request that is built for the version in use, which is returned too.
    pub async fn send_with<R: Request>(
        &self,
        node: i32,
        patience: impl Into<Patience>,
        build: impl FnOnce(i16) -> Result<R>,
    ) -> Result<(i16, R::Response)>
    where
        R::Response: Send + 'static,
    {
        let mut used = 0;
        let answer = self.dispatch(node, patience, |version| {
            used = version;
            build(version)
        });
        let response = answer.await?.await?;
        Ok((used, response))
    }

    /// Returns once the request is queued; the future that it returns gives the answer. Requests of one caller go out
    /// in the order of these calls.
    pub async fn dispatch<R: Request, P: Into<Patience>, F: FnOnce(i16) -> Result<R>>(
        &self,
        node: i32,
        patience: P,
        build: F,
    ) -> Result<impl Future<Output = Result<R::Response>> + Send + 'static + use<R, P, F>>
    where
        R::Response: Send + 'static,
    {
        let patience = patience.into();
        let (connection, version) = self.ready(node, Ours::of::<R>(), patience).await?;
        connection.request(&build(version)?, version, self.limit(R::KEY, patience), patience)
    }

    /// As [`Self::dispatch`] with an answer that the caller reads off the socket; the version is the one in use.
    pub async fn dispatch_body<R: Request, F: FnOnce(i16) -> Result<R>>(
        &self,
        node: i32,
        patience: impl Into<Patience>,
        build: F,
    ) -> Result<(i16, impl Future<Output = Result<FrameBody>> + Send + 'static)> {
        let patience = patience.into();
        let (connection, version) = self.ready(node, Ours::of::<R>(), patience).await?;
        let answer = connection.request_body(&build(version)?, version, self.limit(R::KEY, patience), patience)?;
        Ok((version, answer))
    }

    /// How long a broker has: `request.timeout.ms`, or what the caller grants to requests that wait at the broker for
    /// records or for other members.
    fn limit(&self, key: ApiKey, patience: Patience) -> RequestTimeout {
        let usual = self.options().request_timeout;
        match key {
            ApiKey::Fetch | ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::ConsumerGroupHeartbeat => {
                RequestTimeout(usual.max(patience.whole()))
            }
            _ => RequestTimeout(usual),
        }
    }

    /// A connection to a broker, and the version that it is asked in.
    async fn ready(&self, node: i32, ours: Ours, patience: Patience) -> Result<(Arc<Connection>, i16)> {
        let connection = self.connection(node, patience).await?;
        let version = self.choose(ours, &connection)?;
        Ok((connection, version))
    }

    fn choose(&self, ours: Ours, connection: &Connection) -> Result<i16> {
        let (options, api) = (self.options(), ours.key.name());
        let chosen = options.api_versions.get(api).copied();
        let newest = options.newest_api_versions.get(api).copied();
        let (chosen, newest) = match self.wanted.filter(|(key, _)| *key == ours.key) {
            None => (chosen, newest),
            Some((_, Wanted::Exactly(version))) => (Some(version), None),
            Some((_, Wanted::AtMost(version))) => (chosen, Some(newest.map_or(version, |other| version.min(other)))),
        };
        connection.versions().choose(ours, chosen, newest)
    }

    /// Sends a request that is never answered; returns once the socket has taken it.
    pub async fn send_oneway<R: Request>(
        &self,
        node: i32,
        patience: impl Into<Patience>,
        build: impl FnOnce(i16) -> Result<R>,
    ) -> Result<()> {
        let patience = patience.into();
        let (connection, version) = self.ready(node, Ours::of::<R>(), patience).await?;
        connection.request_without_answer(&build(version)?, version, self.limit(R::KEY, patience), patience).await
    }

    /// The version of `R` that a broker would be asked in.
    pub async fn version<R: Request>(&self, node: i32, patience: impl Into<Patience>) -> Result<i16> {
        self.ready(node, Ours::of::<R>(), patience.into()).await.map(|(_, version)| version)
    }
}
