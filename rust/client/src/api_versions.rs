//! Negotiation of API versions.

use std::collections::BTreeMap;

use samsarrow_wire::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use samsarrow_wire::messages::{ApiKey, EncodeError, MessageBuf, Request};
use samsarrow_wire::releases::Release;

use crate::collections::HashMap;
use crate::error::{Error, Result};

/// Version of Fetch that Kafka 2.0 added.
const FIRST_FETCH_OF_2_0: i16 = 8;

/// API versions that a broker supports.
#[derive(Debug, Clone, Default)]
pub struct ApiVersions {
    address: String,
    ranges: HashMap<i16, (i16, i16)>,
    features: Features,
    assumed: bool,
}

/// Finalized cluster-wide features (KIP-584). Each change of the features increases the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// Epoch of the features; −1 if the broker reports none.
    pub epoch: i64,
    levels: BTreeMap<String, i16>,
}

impl Default for Features {
    fn default() -> Self {
        Self { epoch: -1, levels: BTreeMap::new() }
    }
}

impl Features {
    /// Returns the finalized level of a feature, or 0 if the feature is not finalized.
    pub fn level(&self, name: &str) -> i16 {
        self.levels.get(name).copied().unwrap_or(0)
    }
}

/// An API and the range of its versions that this client supports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SupportedVersions {
    pub(crate) key: ApiKey,
    min: i16,
    max: i16,
}

impl SupportedVersions {
    pub(crate) const fn of<R: Request>() -> Self {
        Self { key: R::KEY, min: R::MIN_VERSION, max: R::MAX_VERSION }
    }
}

impl ApiVersions {
    /// Creates the API versions that the broker at `address` has reported.
    pub fn new(address: &str, keys: &[ApiVersion]) -> Self {
        let ranges = keys.iter().map(|key| (key.api_key, (key.min_version, key.max_version))).collect();
        Self { address: address.to_owned(), ranges, features: Features::default(), assumed: false }
    }

    /// Creates the versions and features from a broker's response.
    pub fn from_response(address: &str, response: &ApiVersionsResponse) -> Self {
        let levels = response.finalized_features.iter().map(|f| (f.name.clone(), f.max_version_level)).collect();
        let features = Features { epoch: response.finalized_features_epoch, levels };
        Self { features, ..Self::new(address, &response.api_keys) }
    }

    /// Creates the API versions of a Kafka release, for brokers that do not support ApiVersions.
    pub fn of_release(address: &str, release: Release) -> Self {
        let range = |key: &ApiKey| release.versions(*key).map(|range| (key.code(), range));
        let ranges = ApiKey::ALL.iter().filter_map(range).collect();
        Self { address: address.to_owned(), ranges, features: Features::default(), assumed: true }
    }

    /// Returns true if the versions were assumed from a release instead of reported by the broker.
    pub(crate) fn is_assumed(&self) -> bool {
        self.assumed
    }

    /// Returns the features that the cluster has finalized.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Returns the version to use for an API: `chosen`, otherwise the highest version that both sides support, but at
    /// most `newest`.
    ///
    /// # Errors
    /// Fails with [`Error::UnsupportedVersion`], which contains the API and both ranges, if there is no such version.
    pub(crate) fn choose(&self, supported: SupportedVersions, chosen: Option<i16>, newest: Option<i16>) -> Result<i16> {
        let api = supported.key.name();
        let Some((min, max)) = self.range(supported.key) else {
            let requirement = required_release(supported.key, supported.min)
                .map(|needed| format!(", which {needed}"))
                .unwrap_or_default();
            let text = format!("the broker at {} does not support {api}{requirement}", self.address);
            return Err(Error::UnsupportedVersion(text));
        };
        let (low, high) = (min.max(supported.min), max.min(supported.max));
        match chosen {
            Some(version) if (low..=high).contains(&version) => Ok(version),
            Some(version) => Err(Error::UnsupportedVersion(format!(
                "{api} v{version} was chosen, by the call or by option api.version, but the broker at {} supports v{min} \
                 to v{max} and this client v{} to v{}{}{}",
                self.address,
                supported.min,
                supported.max,
                if version > max { requirement_suffix(supported.key, version) } else { String::new() },
                zookeeper_hint(supported.key, version)
            ))),
            None => self.newest(supported, (min, max), newest),
        }
    }

    fn newest(&self, supported: SupportedVersions, (min, max): (i16, i16), newest: Option<i16>) -> Result<i16> {
        let api = supported.key.name();
        let (low, high) = (min.max(supported.min), max.min(supported.max));
        match newest {
            _ if low > high => Err(Error::UnsupportedVersion(format!(
                "no version of {api} in common: the broker at {} supports v{min} to v{max}, this client v{} to v{}",
                self.address, supported.min, supported.max
            ))),
            Some(newest) if newest < low => Err(Error::UnsupportedVersion(format!(
                "{api} v{newest} or older is needed, which the broker at {} no longer supports (v{min} to v{max}){}",
                self.address,
                if supported.key == ApiKey::Produce {
                    ": message.format.version must be 0.11.0 or later for it"
                } else {
                    ""
                }
            ))),
            Some(newest) => Ok(high.min(newest)),
            None => Ok(high),
        }
    }

    /// Returns true if the broker sends throttled responses at once and then reads no requests for the throttle time
    /// (KIP-219, Kafka 2.0). Earlier brokers wait before they send the response, and clients continue at once.
    pub(crate) fn mutes_after_response(&self) -> bool {
        self.range(ApiKey::Fetch).is_none_or(|(_, max)| max >= FIRST_FETCH_OF_2_0)
    }

    /// Returns the range of versions of an API that the broker supports.
    pub(crate) fn range(&self, key: ApiKey) -> Option<(i16, i16)> {
        let (min, max) = *self.ranges.get(&key.code())?;
        // Kafka 4.0 and later have removed the versions of Produce before 3 (KIP-896). But they still report Produce
        // from version 0 on, for clients that derive the supported compression types from it. The minimum version of
        // Fetch shows whether the versions are removed.
        let dropped = key == ApiKey::Produce && self.ranges.get(&ApiKey::Fetch.code()).is_some_and(|fetch| fetch.0 > 3);
        Some((if dropped { min.max(3) } else { min }, max))
    }
}

/// Names the first Kafka release that supports a version of an API, as a phrase for error texts.
pub(crate) fn required_release(key: ApiKey, version: i16) -> Option<String> {
    Release::first_with(key, version).map(|release| format!("needs Kafka {release} or later"))
}

/// Names the required Kafka release, as the end of a sentence.
fn requirement_suffix(key: ApiKey, version: i16) -> String {
    required_release(key, version).map(|needed| format!(": v{version} {needed}")).unwrap_or_default()
}

/// Returns the error for a request that cannot be encoded in `version`. The error names the release that supports the
/// request, if there is one.
pub(crate) fn cannot_be_sent<R: Request>(request: &R, version: i16, address: &str, error: &EncodeError) -> Error {
    let api = R::KEY.name();
    let can = |later: &i16| request.encode(*later, &mut MessageBuf::sharing()).is_ok();
    match (version + 1..=R::MAX_VERSION).find(can).and_then(|later| required_release(R::KEY, later)) {
        Some(needed) => Error::UnsupportedVersion(format!(
            "{api} v{version}, the version in use with the broker at {address}, does not support this ({error}): it \
             {needed}"
        )),
        None => Error::configuration(format!("{api} v{version} cannot be sent: {error}")),
    }
}

/// Returns a hint if this version stores offsets in ZooKeeper.
fn zookeeper_hint(key: ApiKey, version: i16) -> &'static str {
    if version == 0 && matches!(key, ApiKey::OffsetCommit | ApiKey::OffsetFetch) {
        " (v0 is for offsets in ZooKeeper, which Kafka 3.9 was the last to have)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use samsarrow_wire::messages::api_versions::FinalizedFeatureKey;
    use samsarrow_wire::messages::{FetchRequest, HeartbeatRequest, OffsetCommitRequest, ProduceRequest};

    impl ApiVersions {
        fn choose_for<R: Request>(
            &self,
            chosen: &BTreeMap<&'static str, i16>,
            newest: &BTreeMap<&'static str, i16>,
        ) -> Result<i16> {
            let version_of = |versions: &BTreeMap<&'static str, i16>| versions.get(R::KEY.name()).copied();
            self.choose(SupportedVersions::of::<R>(), version_of(chosen), version_of(newest))
        }
    }

    fn reported(api_key: i16, min_version: i16, max_version: i16) -> ApiVersions {
        ApiVersions::new("h:1", &[ApiVersion { api_key, min_version, max_version, ..Default::default() }])
    }

    #[test]
    fn highest_common_version_is_used_unless_one_is_chosen() {
        let none = BTreeMap::new();
        assert_eq!(reported(1, 4, 99).choose_for::<FetchRequest>(&none, &none), Ok(18));
        assert_eq!(reported(1, 0, 11).choose_for::<FetchRequest>(&none, &none), Ok(11));
        assert_eq!(
            reported(8, 0, 9).choose_for::<OffsetCommitRequest>(&BTreeMap::from([("OffsetCommit", 0)]), &none),
            Ok(0)
        );
    }

    #[test]
    fn finalized_features_are_read_from_the_response() {
        let feature =
            FinalizedFeatureKey { name: "transaction.version".into(), max_version_level: 2, ..Default::default() };
        let response = ApiVersionsResponse {
            finalized_features_epoch: 7,
            finalized_features: vec![feature],
            ..Default::default()
        };
        let versions = ApiVersions::from_response("h:1", &response);
        assert_eq!((versions.features().epoch, versions.features().level("transaction.version")), (7, 2));
        assert_eq!(versions.features().level("metadata.version"), 0);
        assert_eq!(reported(1, 0, 1).features().epoch, -1);
    }

    #[test]
    fn newest_limits_the_version() {
        let (none, newest) = (BTreeMap::new(), BTreeMap::from([("Produce", 2)]));
        assert_eq!(reported(0, 0, 11).choose_for::<ProduceRequest>(&none, &newest), Ok(2));
        assert_eq!(reported(0, 0, 1).choose_for::<ProduceRequest>(&none, &newest), Ok(1));
        assert_eq!(reported(1, 0, 11).choose_for::<FetchRequest>(&none, &newest), Ok(11));
        let text = reported(0, 3, 11).choose_for::<ProduceRequest>(&none, &newest).unwrap_err().to_string();
        assert!(text.contains("v3 to v11") && text.contains("message.format.version"), "{text}");
    }

    #[test]
    fn removed_produce_versions_of_kafka_4_are_ignored() {
        let version =
            |api_key, min_version, max_version| ApiVersion { api_key, min_version, max_version, ..Default::default() };
        let none = BTreeMap::new();
        let kafka_4 = ApiVersions::new("h:1", &[version(0, 0, 13), version(1, 4, 18)]);
        assert!(kafka_4.choose_for::<ProduceRequest>(&none, &BTreeMap::from([("Produce", 2)])).is_err());
        assert!(kafka_4.choose_for::<ProduceRequest>(&BTreeMap::from([("Produce", 1)]), &none).is_err());
        assert_eq!(kafka_4.choose_for::<ProduceRequest>(&none, &none), Ok(13));
        let kafka_3 = ApiVersions::new("h:1", &[version(0, 0, 11), version(1, 0, 17)]);
        assert_eq!(kafka_3.choose_for::<ProduceRequest>(&BTreeMap::from([("Produce", 1)]), &none), Ok(1));
    }

    #[test]
    fn errors_contain_the_api_and_both_ranges() {
        let none = BTreeMap::new();
        let error = reported(8, 2, 9).choose_for::<OffsetCommitRequest>(&BTreeMap::from([("OffsetCommit", 0)]), &none);
        let text = error.unwrap_err().to_string();
        assert!(text.contains("OffsetCommit v0") && text.contains("v2 to v9") && text.contains("ZooKeeper"), "{text}");
        let text = reported(1, 90, 99).choose_for::<FetchRequest>(&none, &none).unwrap_err().to_string();
        assert!(text.contains("v90 to v99") && text.contains("v0 to v18"), "{text}");
        assert!(reported(1, 0, 9).choose_for::<HeartbeatRequest>(&none, &none).is_err());
    }
}
