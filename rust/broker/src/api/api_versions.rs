//! ApiVersions, v0–v4.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::api_versions::{
    ApiVersion, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use samsarrow_wire::messages::{ApiKey, ApiVersionsRequest};
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome, SUPPORTED_APIS};

/// Highest supported level of the feature `transaction.version`.
pub(crate) const LAST_TRANSACTION_VERSION: i16 = 2;

pub(crate) const TRANSACTION_VERSION: &str = "transaction.version";
/// First version whose clients accept a feature range that begins at level 0.
const FIRST_WITH_LEVEL_0: i16 = 4;

fn range(key: ApiKey, (min_version, max_version): (i16, i16)) -> ApiVersion {
    ApiVersion { api_key: key.code(), min_version, max_version, ..ApiVersion::default() }
}

fn supported_apis(call: &Call<'_>) -> Vec<ApiVersion> {
    let offered = SUPPORTED_APIS.iter().filter(|(key, ..)| call.state.offers(*key));
    offered.filter_map(|(key, ..)| Some(range(*key, call.profile().advertised_versions(*key)?))).collect()
}

/// Returns true if `name` follows Kafka's rule for client names and versions: letters, digits, '.' and '-', with a
/// letter or digit at both ends.
fn is_valid_software_name(name: &str) -> bool {
    let ends = [name.bytes().next(), name.bytes().last()];
    ends.iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
}

/// Builds the response to an unsupported version. It uses version 0, which every client can decode, and lists only
/// ApiVersions with its supported versions (KIP-511), or no API if the emulated release predates KIP-511.
pub(crate) fn unsupported(call: &Call<'_>, own_range: Option<(i16, i16)>) -> Outcome {
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UNSUPPORTED_VERSION.code(),
        api_keys: own_range.map(|own_range| range(ApiKey::ApiVersions, own_range)).into_iter().collect(),
        ..ApiVersionsResponse::default()
    };
    Call { version: 0, ..*call }.reply::<ApiVersionsRequest>(&response)
}

impl Handler for ApiVersionsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        if call.version >= 3
            && !(is_valid_software_name(&self.client_software_name)
                && is_valid_software_name(&self.client_software_version))
        {
            return call.reply::<Self>(&self.error_response(call.version, ErrorCode::INVALID_REQUEST));
        }
        lock(call.session).versions_sent();
        let (level, epoch) = call.state.transaction_version();
        let supported = SupportedFeatureKey {
            name: TRANSACTION_VERSION.to_owned(),
            max_version: LAST_TRANSACTION_VERSION,
            ..SupportedFeatureKey::default()
        };
        let finalized = FinalizedFeatureKey {
            name: TRANSACTION_VERSION.to_owned(),
            max_version_level: level,
            min_version_level: level,
            ..FinalizedFeatureKey::default()
        };
        if !call.profile().has_transaction_version() {
            return call.reply::<Self>(&ApiVersionsResponse {
                api_keys: supported_apis(call),
                ..ApiVersionsResponse::default()
            });
        }
        call.reply::<Self>(&ApiVersionsResponse {
            api_keys: supported_apis(call),
            supported_features: if call.version >= FIRST_WITH_LEVEL_0 { vec![supported] } else { Vec::new() },
            finalized_features_epoch: epoch,
            // A feature at level 0 is not finalized.
            finalized_features: if level > 0 { vec![finalized] } else { Vec::new() },
            ..ApiVersionsResponse::default()
        })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ApiVersionsResponse {
        ApiVersionsResponse { error_code: code.code(), ..ApiVersionsResponse::default() }
    }
}
