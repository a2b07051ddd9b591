//! ApiVersions, v0–v4.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::api_versions::{
    ApiVersion, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use samsarrow_wire::messages::{ApiKey, ApiVersionsRequest};

use super::{Call, Outcome, SERVED, Serve};
use crate::broker::LAST_TRANSACTION_VERSION;
use crate::sync::lock;

pub(crate) const TRANSACTION_VERSION: &str = "transaction.version";
/// First version whose clients accept a feature range that begins at level 0.
const FIRST_WITH_LEVEL_0: i16 = 4;

fn range(key: ApiKey, (min_version, max_version): (i16, i16)) -> ApiVersion {
    ApiVersion { api_key: key.code(), min_version, max_version, ..ApiVersion::default() }
}

fn served(call: &Call<'_>) -> Vec<ApiVersion> {
    let offered = SERVED.iter().filter(|(key, ..)| call.state.offers(*key));
    offered.filter_map(|(key, ..)| Some(range(*key, call.profile().told(*key)?))).collect()
}

/// Returns true if `name` follows Kafka's rule for client names and versions: letters, digits, '.' and '-', with a
/// letter or digit at both ends.
fn is_legal(name: &str) -> bool {
    let ends = [name.bytes().next(), name.bytes().last()];
    ends.iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
}

/// Response to an unsupported version. It is encoded in version 0, which every client can read, and lists only the
/// versions of ApiVersions (KIP-511), or nothing for releases before KIP-511.
pub(crate) fn unsupported(call: &Call<'_>, own: Option<(i16, i16)>) -> Outcome {
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UNSUPPORTED_VERSION.code(),
        api_keys: own.map(|own| range(ApiKey::ApiVersions, own)).into_iter().collect(),
        ..ApiVersionsResponse::default()
    };
    Call { version: 0, ..*call }.reply::<ApiVersionsRequest>(&response)
}

impl Serve for ApiVersionsRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        if call.version >= 3 && !(is_legal(&self.client_software_name) && is_legal(&self.client_software_version)) {
            return call.reply::<Self>(&self.refuse(call.version, ErrorCode::INVALID_REQUEST));
        }
        lock(call.session).told_versions();
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
            return call
                .reply::<Self>(&ApiVersionsResponse { api_keys: served(call), ..ApiVersionsResponse::default() });
        }
        call.reply::<Self>(&ApiVersionsResponse {
            api_keys: served(call),
            supported_features: if call.version >= FIRST_WITH_LEVEL_0 { vec![supported] } else { Vec::new() },
            finalized_features_epoch: epoch,
            // A feature at level 0 is not finalized.
            finalized_features: if level > 0 { vec![finalized] } else { Vec::new() },
            ..ApiVersionsResponse::default()
        })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> ApiVersionsResponse {
        ApiVersionsResponse { error_code: code.code(), ..ApiVersionsResponse::default() }
    }
}
