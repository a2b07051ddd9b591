//! What a new connection is asked first: which versions the broker speaks.

use tokio::time::timeout;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::frame;
use samsarrow_wire::messages::{ApiKey, ApiVersionsRequest, ApiVersionsResponse, Request};

use super::Connection;
use crate::api_versions::ApiVersions;
use crate::config::CommonOptions;
use crate::error::{Error, Result};

impl Connection {
    /// Asks what the broker speaks.
    pub(super) async fn handshake(&self, options: &CommonOptions) -> Result<ApiVersions> {
        let limit = options.request_timeout.min(options.connection_setup_timeout);
        timeout(limit, self.ask_versions(options)).await.unwrap_or_else(|_| {
            let reason = format!("no answer to ApiVersions within {} ms: is this a Kafka broker?", limit.as_millis());
            Err(Error::connection(self.address(), reason))
        })
    }

    /// ApiVersions in our highest version, or in the one that an option chose. A broker that lacks it says so in version
    /// 0 and names what it has instead, since Kafka 2.4 (KIP-511): that, or version 0, is asked for then.
    async fn ask_versions(&self, options: &CommonOptions) -> Result<ApiVersions> {
        let request = ApiVersionsRequest {
            client_software_name: "samsarrow".into(),
            client_software_version: env!("CARGO_PKG_VERSION").into(),
            ..Default::default()
        };
        let chosen = options.api_versions.get(ApiKey::ApiVersions.name()).copied();
        let mut version = chosen.unwrap_or(ApiVersionsRequest::MAX_VERSION);
        loop {
            let frame = self.request_frame(&request, version)?.await?;
            let (_, response) = frame::decode_api_versions(version, frame)
                .map_err(|e| Error::protocol(self.address(), format!("does not speak Kafka: {e}")))?;
            let code = ErrorCode::from_i16(response.error_code);
            if code.is_none() {
                return Ok(ApiVersions::from_response(self.address(), &response));
            }
            version = match next_version(version, &response) {
                Some(next) if code == ErrorCode::UNSUPPORTED_VERSION && chosen.is_none() => next,
                _ => return Err(self.refused(version, code)),
            };
        }
    }

    fn refused(&self, version: i16, code: ErrorCode) -> Error {
        let reason = format!("the broker refuses ApiVersions v{version}: {code}");
        match code {
            _ if code.retriable() => Error::connection(self.address(), reason),
            ErrorCode::UNSUPPORTED_VERSION => Error::UnsupportedVersion(format!("{}: {reason}", self.address())),
            _ => Error::protocol(self.address(), reason),
        }
    }
}

/// The version to ask for after `refused`: always a lower one, so that asking comes to an end whatever a broker says.
fn next_version(refused: i16, response: &ApiVersionsResponse) -> Option<i16> {
    let told = response.api_keys.iter().find(|told| told.api_key == ApiKey::ApiVersions.code());
    let told = told.map(|told| told.max_version).filter(|told| (0..refused).contains(told));
    told.or((refused > 0).then_some(0))
}

#[cfg(test)]
mod tests {
    use samsarrow_wire::messages::api_versions::ApiVersion;

    use super::*;

    fn answer(max_version: Option<i16>) -> ApiVersionsResponse {
        let told = |max_version| ApiVersion { api_key: 18, max_version, ..Default::default() };
        let other = ApiVersion { api_key: 17, max_version: 1, ..Default::default() };
        let api_keys = [other].into_iter().chain(max_version.map(told)).collect();
        ApiVersionsResponse { error_code: 35, api_keys, ..Default::default() }
    }

    #[test]
    fn the_next_version_is_the_one_told_or_0_and_always_lower() {
        assert_eq!(next_version(4, &answer(Some(3))), Some(3));
        assert_eq!(next_version(4, &answer(None)), Some(0));
        for wrong in [4, 5, i16::MAX, -1, i16::MIN] {
            assert_eq!(next_version(4, &answer(Some(wrong))), Some(0), "{wrong}");
        }
        assert_eq!(next_version(0, &answer(None)), None);
        assert_eq!(next_version(0, &answer(Some(0))), None);
    }
}
