//! ApiVersions, v0–v5.

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
pub(super) const SHARE_VERSION: &str = "share.version";
/// Highest supported level of the feature `share.version`.
const LAST_SHARE_VERSION: i16 = 1;
/// First version whose clients accept a feature range that begins at level 0.
const FIRST_WITH_LEVEL_0: i16 = 4;

fn range(key: ApiKey, (min_version, max_version): (i16, i16)) -> ApiVersion {
    ApiVersion { api_key: key.code(), min_version, max_version, ..ApiVersion::default() }
}

fn supported_apis(call: &Call<'_>) -> Vec<ApiVersion> {
    let offered = SUPPORTED_APIS.iter().filter(|(key, ..)| call.state.offers(*key));
    offered.filter_map(|(key, ..)| Some(range(*key, call.profile().advertised_versions(*key)?))).collect()
}

/// A feature of the broker.
pub(super) struct Feature {
    pub(super) name: &'static str,
    /// Highest supported level. The lowest is 0.
    pub(super) last: i16,
    pub(super) level: i16,
}

/// Returns the features of the emulated release.
pub(super) fn features(call: &Call<'_>) -> impl Iterator<Item = Feature> {
    let (profile, state) = (call.profile(), call.state);
    let share = profile.has_share_version().then(|| Feature {
        name: SHARE_VERSION,
        last: LAST_SHARE_VERSION,
        level: state.share_version(),
    });
    let transaction = profile.has_transaction_version().then(|| Feature {
        name: TRANSACTION_VERSION,
        last: LAST_TRANSACTION_VERSION,
        level: state.transactions().version(),
    });
    share.into_iter().chain(transaction)
}

/// Returns true if `name` follows Kafka's rule for client names and versions: letters, digits, '.' and '-', with a
/// letter or digit at both ends.
fn is_valid_software_name(name: &str) -> bool {
    let ends = [name.bytes().next(), name.bytes().last()];
    ends.iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
}

/// Checks that the request was sent to this cluster and broker (KIP-1242). Clients must send both or neither.
fn check_destination(call: &Call<'_>, request: &ApiVersionsRequest) -> Result<(), ErrorCode> {
    match (&request.cluster_id, request.node_id) {
        (None, -1) => Ok(()),
        (None, _) | (Some(_), -1) => Err(ErrorCode::INVALID_REQUEST),
        (Some(cluster), node) if *cluster == call.state.cluster_id && node == call.node => Ok(()),
        (Some(_), _) => Err(ErrorCode::REBOOTSTRAP_REQUIRED),
    }
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
        if let Err(code) = check_destination(call, &self) {
            return call.reply::<Self>(&self.error_response(call.version, code));
        }
        lock(call.session).versions_sent();
        let features: Vec<Feature> = features(call).collect();
        let supported = |feature: &Feature| SupportedFeatureKey {
            name: feature.name.to_owned(),
            max_version: feature.last,
            ..SupportedFeatureKey::default()
        };
        let finalized = |feature: &Feature| FinalizedFeatureKey {
            name: feature.name.to_owned(),
            max_version_level: feature.level,
            min_version_level: feature.level,
            ..FinalizedFeatureKey::default()
        };
        if features.is_empty() {
            return call.reply::<Self>(&ApiVersionsResponse {
                api_keys: supported_apis(call),
                ..ApiVersionsResponse::default()
            });
        }
        call.reply::<Self>(&ApiVersionsResponse {
            api_keys: supported_apis(call),
            supported_features: features.iter().filter(|_| call.version >= FIRST_WITH_LEVEL_0).map(supported).collect(),
            finalized_features_epoch: call.state.features_epoch(),
            // A feature at level 0 is not finalized.
            finalized_features: features.iter().filter(|feature| feature.level > 0).map(finalized).collect(),
            ..ApiVersionsResponse::default()
        })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ApiVersionsResponse {
        ApiVersionsResponse { error_code: code.code(), ..ApiVersionsResponse::default() }
    }
}
