//! Which version of each API a broker speaks, and which one to use.

use std::collections::{BTreeMap, HashMap};

use samsarrow_wire::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use samsarrow_wire::messages::{ApiKey, EncodeError, MessageBuf, Request};
use samsarrow_wire::releases::Release;

use crate::error::{Error, Result};

/// What one broker speaks.
#[derive(Debug, Clone, Default)]
pub struct ApiVersions {
    address: String,
    ranges: HashMap<i16, (i16, i16)>,
    features: Features,
    assumed: bool,
}

/// Features at their cluster-wide levels, as of an epoch (KIP-584).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// −1 where a broker reports none.
    pub epoch: i64,
    levels: BTreeMap<String, i16>,
}

impl Default for Features {
    fn default() -> Self {
        Self { epoch: -1, levels: BTreeMap::new() }
    }
}

impl Features {
    /// The level of a feature, 0 for one that is not there.
    pub fn level(&self, name: &str) -> i16 {
        self.levels.get(name).copied().unwrap_or(0)
    }
}

/// An API, and the versions of it that this client speaks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ours {
    pub(crate) key: ApiKey,
    min: i16,
    max: i16,
}

impl Ours {
    pub(crate) const fn of<R: Request>() -> Self {
        Self { key: R::KEY, min: R::MIN_VERSION, max: R::MAX_VERSION }
    }
}

impl ApiVersions {
    /// As the broker at `address` reported it.
    pub fn new(address: &str, keys: &[ApiVersion]) -> Self {
        let ranges = keys.iter().map(|key| (key.api_key, (key.min_version, key.max_version))).collect();
        Self { address: address.to_owned(), ranges, features: Features::default(), assumed: false }
    }

    /// The same with features.
    pub fn from_response(address: &str, response: &ApiVersionsResponse) -> Self {
        let levels = response.finalized_features.iter().map(|f| (f.name.clone(), f.max_version_level)).collect();
        let features = Features { epoch: response.finalized_features_epoch, levels };
        Self { features, ..Self::new(address, &response.api_keys) }
    }

    /// As brokers of a release speak that cannot say so.
    pub fn of_release(address: &str, release: Release) -> Self {
        let range = |key: &ApiKey| release.versions(*key).map(|range| (key.code(), range));
        let ranges = ApiKey::ALL.iter().filter_map(range).collect();
        Self { address: address.to_owned(), ranges, features: Features::default(), assumed: true }
    }

    /// Whether no broker said so.
    pub(crate) fn is_assumed(&self) -> bool {
        self.assumed
    }

    /// What the broker knows of the cluster's features.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The version of an API to use: the one that was `chosen`, or the highest in common that is none of those that
    /// `newest` rules out.
    ///
    /// # Errors
    /// [`Error::UnsupportedVersion`], naming the API and both ranges.
    pub(crate) fn choose(&self, ours: Ours, chosen: Option<i16>, newest: Option<i16>) -> Result<i16> {
        let api = ours.key.name();
        let Some((min, max)) = self.range(ours.key) else {
            let needed = needed(ours.key, ours.min).map(|needed| format!(", which {needed}")).unwrap_or_default();
            let text = format!("the broker at {} does not speak {api}{needed}", self.address);
            return Err(Error::UnsupportedVersion(text));
        };
        let (low, high) = (min.max(ours.min), max.min(ours.max));
        match chosen {
            Some(version) if (low..=high).contains(&version) => Ok(version),
            Some(version) => Err(Error::UnsupportedVersion(format!(
                "{api} v{version} was chosen, by the call or by option api.version, but the broker at {} speaks v{min} \
                 to v{max} and this client v{} to v{}{}{}",
                self.address,
                ours.min,
                ours.max,
                if version > max { needs(ours.key, version) } else { String::new() },
                in_zookeeper(ours.key, version)
            ))),
            None => self.newest(ours, (min, max), newest),
        }
    }

    fn newest(&self, ours: Ours, (min, max): (i16, i16), newest: Option<i16>) -> Result<i16> {
        let api = ours.key.name();
        let (low, high) = (min.max(ours.min), max.min(ours.max));
        match newest {
            _ if low > high => Err(Error::UnsupportedVersion(format!(
                "no version of {api} in common: the broker at {} speaks v{min} to v{max}, this client v{} to v{}",
                self.address, ours.min, ours.max
            ))),
            Some(newest) if newest < low => Err(Error::UnsupportedVersion(format!(
                "{api} v{newest} or older is needed, which the broker at {} no longer speaks (v{min} to v{max}){}",
                self.address,
                if ours.key == ApiKey::Produce {
                    ": message.format.version must be 0.11.0 or later for it"
                } else {
                    ""
                }
            ))),
            Some(newest) => Ok(high.min(newest)),
            None => Ok(high),
        }
    }

    /// What the broker speaks of one API.
    pub(crate) fn range(&self, key: ApiKey) -> Option<(i16, i16)> {
        let (min, max) = *self.ranges.get(&key.code())?;
        // Since 4.0 Kafka names Produce from 0 on for the sake of clients that conclude from it what they may compress,
        // but has dropped the versions before 3 with all others of that age (KIP-896), as those of Fetch show.
        let dropped = key == ApiKey::Produce && self.ranges.get(&ApiKey::Fetch.code()).is_some_and(|fetch| fetch.0 > 3);
        Some((if dropped { min.max(3) } else { min }, max))
    }
}

/// Which Kafka a version of an API needs, as a part of a sentence.
pub(crate) fn needed(key: ApiKey, version: i16) -> Option<String> {
    Release::first_with(key, version).map(|release| format!("needs Kafka {release} or later"))
}

/// The same as a sentence's end.
fn needs(key: ApiKey, version: i16) -> String {
    needed(key, version).map(|needed| format!(": v{version} {needed}")).unwrap_or_default()
}

/// Why a request cannot be sent in `version`, and the Kafka whose brokers could be asked for it.
pub(crate) fn cannot_be_sent<R: Request>(request: &R, version: i16, address: &str, error: &EncodeError) -> Error {
    let api = R::KEY.name();
    let can = |later: &i16| request.encode(*later, &mut MessageBuf::sharing()).is_ok();
    match (version + 1..=R::MAX_VERSION).find(can).and_then(|later| needed(R::KEY, later)) {
        Some(needed) => Error::UnsupportedVersion(format!(
            "{api} v{version}, which the broker at {address} is asked in, cannot say this ({error}): it {needed}"
        )),
        None => Error::configuration(format!("{api} v{version} cannot be sent: {error}")),
    }
}

/// What to know of a version that is of another storage than all others.
fn in_zookeeper(key: ApiKey, version: i16) -> &'static str {
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
        fn choose_of<R: Request>(
            &self,
            chosen: &BTreeMap<&'static str, i16>,
            newest: &BTreeMap<&'static str, i16>,
        ) -> Result<i16> {
            let of = |versions: &BTreeMap<&'static str, i16>| versions.get(R::KEY.name()).copied();
            self.choose(Ours::of::<R>(), of(chosen), of(newest))
        }
    }

    fn speaks(api_key: i16, min_version: i16, max_version: i16) -> ApiVersions {
        ApiVersions::new("h:1", &[ApiVersion { api_key, min_version, max_version, ..Default::default() }])
    }

    #[test]
    fn the_highest_in_common_is_taken_unless_one_is_chosen() {
        let none = BTreeMap::new();
        assert_eq!(speaks(1, 4, 99).choose_of::<FetchRequest>(&none, &none), Ok(18));
        assert_eq!(speaks(1, 0, 11).choose_of::<FetchRequest>(&none, &none), Ok(11));
        assert_eq!(
            speaks(8, 0, 9).choose_of::<OffsetCommitRequest>(&BTreeMap::from([("OffsetCommit", 0)]), &none),
            Ok(0)
        );
    }

    #[test]
    fn a_broker_tells_the_features_of_the_cluster() {
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
        assert_eq!(speaks(1, 0, 1).features().epoch, -1);
    }

    #[test]
    fn other_options_can_ask_for_an_older_version() {
        let (none, newest) = (BTreeMap::new(), BTreeMap::from([("Produce", 2)]));
        assert_eq!(speaks(0, 0, 11).choose_of::<ProduceRequest>(&none, &newest), Ok(2));
        assert_eq!(speaks(0, 0, 1).choose_of::<ProduceRequest>(&none, &newest), Ok(1));
        assert_eq!(speaks(1, 0, 11).choose_of::<FetchRequest>(&none, &newest), Ok(11));
        let text = speaks(0, 3, 11).choose_of::<ProduceRequest>(&none, &newest).unwrap_err().to_string();
        assert!(text.contains("v3 to v11") && text.contains("message.format.version"), "{text}");
    }

    #[test]
    fn kafka_4_does_not_take_the_old_versions_of_produce_that_it_names() {
        let version =
            |api_key, min_version, max_version| ApiVersion { api_key, min_version, max_version, ..Default::default() };
        let none = BTreeMap::new();
        let kafka_4 = ApiVersions::new("h:1", &[version(0, 0, 13), version(1, 4, 18)]);
        assert!(kafka_4.choose_of::<ProduceRequest>(&none, &BTreeMap::from([("Produce", 2)])).is_err());
        assert!(kafka_4.choose_of::<ProduceRequest>(&BTreeMap::from([("Produce", 1)]), &none).is_err());
        assert_eq!(kafka_4.choose_of::<ProduceRequest>(&none, &none), Ok(13));
        let kafka_3 = ApiVersions::new("h:1", &[version(0, 0, 11), version(1, 0, 17)]);
        assert_eq!(kafka_3.choose_of::<ProduceRequest>(&BTreeMap::from([("Produce", 1)]), &none), Ok(1));
    }

    #[test]
    fn what_cannot_be_names_the_api_and_both_ranges() {
        let none = BTreeMap::new();
        let error = speaks(8, 2, 9).choose_of::<OffsetCommitRequest>(&BTreeMap::from([("OffsetCommit", 0)]), &none);
        let text = error.unwrap_err().to_string();
        assert!(text.contains("OffsetCommit v0") && text.contains("v2 to v9") && text.contains("ZooKeeper"), "{text}");
        let text = speaks(1, 90, 99).choose_of::<FetchRequest>(&none, &none).unwrap_err().to_string();
        assert!(text.contains("v90 to v99") && text.contains("v0 to v18"), "{text}");
        assert!(speaks(1, 0, 9).choose_of::<HeartbeatRequest>(&none, &none).is_err());
    }
}
