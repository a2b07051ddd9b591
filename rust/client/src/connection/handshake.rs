//! What a new connection is asked first: which versions the broker speaks.

use tokio::time::timeout;

use samsarrow_wire::frame;
use samsarrow_wire::messages::{ApiVersionsRequest, Request};

use super::Connection;
use crate::api_versions::ApiVersions;
use crate::config::CommonOptions;
use crate::error::{Error, Result};

impl Connection {
    /// ApiVersions in our highest version; a broker that lacks it answers in version 0 (KIP-511).
    pub(super) async fn handshake(&self, options: &CommonOptions) -> Result<ApiVersions> {
        let request = ApiVersionsRequest {
            client_software_name: "samsarrow".into(),
            client_software_version: env!("CARGO_PKG_VERSION").into(),
            ..Default::default()
        };
        let limit = options.request_timeout.min(options.connection_setup_timeout);
        for version in [ApiVersionsRequest::MAX_VERSION, 0] {
            let answer = self.request_frame(&request, version)?;
            let Ok(frame) = timeout(limit, answer).await else {
                let reason =
                    format!("no answer to ApiVersions within {} ms: is this a Kafka broker?", limit.as_millis());
                return Err(Error::connection(self.address(), reason));
            };
            let frame = frame?;
            let (_, read_as, response) = frame::decode_api_versions(version, frame)
                .map_err(|e| Error::protocol(self.address(), format!("does not speak Kafka: {e}")))?;
            if read_as == version || !response.api_keys.is_empty() {
                return Ok(ApiVersions::from_response(self.address(), &response));
            }
        }
        Err(Error::protocol(self.address(), "the broker tells none of the versions that it speaks"))
    }
}
