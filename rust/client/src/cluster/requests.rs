//! Requests to one broker in the negotiated API version.

use std::sync::Arc;

use samsarrow_wire::messages::{ApiKey, Request};

use super::{ApiVersionOverride, Cluster};
use crate::api_versions::SupportedVersions;
use crate::error::Result;
use crate::net::{CallerDeadline, Connection, FrameBody, RequestTimeout};

impl Cluster {
    /// Sends a request to a broker and waits for the response.
    pub async fn send<R: Request>(
        &self,
        node: i32,
        request: R,
        patience: impl Into<CallerDeadline>,
    ) -> Result<R::Response>
    where
        R::Response: Send + 'static,
    {
        self.dispatch(node, patience, |_| Ok(request)).await?.await
    }

    /// Like [`Self::send`], but builds the request for the negotiated version and also returns that version.
    pub async fn send_with<R: Request>(
        &self,
        node: i32,
        patience: impl Into<CallerDeadline>,
        build: impl FnOnce(i16) -> Result<R>,
    ) -> Result<(i16, R::Response)>
    where
        R::Response: Send + 'static,
    {
        let mut used = 0;
        let response = self.dispatch(node, patience, |version| {
            used = version;
            build(version)
        });
        let response = response.await?.await?;
        Ok((used, response))
    }

    /// Queues a request and returns a future for the response. Requests of one caller are sent in the order in which
    /// the caller calls this method.
    pub async fn dispatch<R: Request, P: Into<CallerDeadline>, F: FnOnce(i16) -> Result<R>>(
        &self,
        node: i32,
        patience: P,
        build: F,
    ) -> Result<impl Future<Output = Result<R::Response>> + Send + 'static + use<R, P, F>>
    where
        R::Response: Send + 'static,
    {
        let patience = patience.into();
        let (connection, version) = self.ready(node, SupportedVersions::of::<R>(), patience).await?;
        connection.request(&build(version)?, version, self.limit(R::KEY, patience), patience)
    }

    /// Like [`Self::dispatch`], but the caller reads the response body from the socket. Also returns the negotiated
    /// version.
    pub async fn dispatch_body<R: Request, F: FnOnce(i16) -> Result<R>>(
        &self,
        node: i32,
        patience: impl Into<CallerDeadline>,
        build: F,
    ) -> Result<(i16, impl Future<Output = Result<FrameBody>> + Send + 'static)> {
        let patience = patience.into();
        let (connection, version) = self.ready(node, SupportedVersions::of::<R>(), patience).await?;
        let response = connection.request_body(&build(version)?, version, self.limit(R::KEY, patience), patience)?;
        Ok((version, response))
    }

    /// Returns the time that a broker has to respond: `request.timeout.ms` or, for requests that wait at the broker for
    /// records or members, the caller's timeout if it is longer.
    fn limit(&self, key: ApiKey, patience: CallerDeadline) -> RequestTimeout {
        let usual = self.options().request_timeout;
        match key {
            ApiKey::Fetch
            | ApiKey::ShareFetch
            | ApiKey::JoinGroup
            | ApiKey::SyncGroup
            | ApiKey::ConsumerGroupHeartbeat => RequestTimeout(usual.max(patience.whole())),
            _ => RequestTimeout(usual),
        }
    }

    /// Returns a connection to a broker and the version negotiated for this API.
    async fn ready(
        &self,
        node: i32,
        supported: SupportedVersions,
        patience: CallerDeadline,
    ) -> Result<(Arc<Connection>, i16)> {
        let connection = self.connection(node, patience).await?;
        let version = self.choose(supported, &connection)?;
        Ok((connection, version))
    }

    fn choose(&self, supported: SupportedVersions, connection: &Connection) -> Result<i16> {
        let (options, api) = (self.options(), supported.key.name());
        let chosen = options.api_versions.get(api).copied();
        let newest = options.newest_api_versions.get(api).copied();
        let (chosen, newest) = match self.version_override.filter(|(key, _)| *key == supported.key) {
            None => (chosen, newest),
            Some((_, ApiVersionOverride::Exactly(version))) => (Some(version), None),
            Some((_, ApiVersionOverride::AtMost(version))) => {
                (chosen, Some(newest.map_or(version, |other| version.min(other))))
            }
        };
        connection.versions().choose(supported, chosen, newest)
    }

    /// Sends a request that has no response, and returns after it is written to the socket.
    pub async fn send_oneway<R: Request>(
        &self,
        node: i32,
        patience: impl Into<CallerDeadline>,
        build: impl FnOnce(i16) -> Result<R>,
    ) -> Result<()> {
        let patience = patience.into();
        let (connection, version) = self.ready(node, SupportedVersions::of::<R>(), patience).await?;
        connection.request_without_answer(&build(version)?, version, self.limit(R::KEY, patience), patience).await
    }

    /// Returns the version that a request of type `R` to this broker would use.
    pub async fn version<R: Request>(&self, node: i32, patience: impl Into<CallerDeadline>) -> Result<i16> {
        self.ready(node, SupportedVersions::of::<R>(), patience.into()).await.map(|(_, version)| version)
    }
}
