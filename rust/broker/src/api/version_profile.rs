//! Emulation of a Kafka release: its advertised and accepted API versions, and its handling of unsupported versions.

use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::frame::RequestHeader;
use samsarrow_wire::messages::ApiKey;
use samsarrow_wire::releases::Release;

use super::SUPPORTED_APIS;
use crate::options::{BrokerOptions, GroupOptions};
use crate::security::Mechanism;

/// First Produce version that Kafka 4 accepts. Kafka 4 also advertises the earlier versions, although it rejects them
/// (KIP-896).
const FIRST_WITH_BATCHES: i16 = 3;

/// Emulated Kafka release. With `None`, all implemented versions are supported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Profile(Option<Release>);

/// Handling of a request with an unsupported API or version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unsupported {
    /// Closes the connection.
    Close,
    /// Sends no response and reads the next request.
    Ignore,
    /// Sends an ApiVersions response in version 0. It contains the supported versions of ApiVersions, or no API
    /// (KIP-511).
    ApiVersions(Option<(i16, i16)>),
}

impl Profile {
    pub(crate) fn new(release: Option<Release>) -> Profile {
        Profile(release)
    }

    fn is_before(self, release: Release) -> bool {
        self.0.is_some_and(|own| own < release)
    }

    /// Returns the minimum and maximum version of an API for the ApiVersions response.
    pub(crate) fn advertised_versions(self, key: ApiKey) -> Option<(i16, i16)> {
        let (_, first, last) = SUPPORTED_APIS.iter().find(|(supported, ..)| *supported == key)?;
        match self.0 {
            None => Some((*first, *last)),
            // Kafka advertises these APIs only if a metrics plugin is configured.
            Some(release) if matches!(key, ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry) => {
                (release >= Release::V3_7).then_some((*first, *last))
            }
            Some(release) => release.versions(key).map(|(low, high)| (low.max(*first), high.min(*last))),
        }
    }

    /// Returns true if a ShareFetch fails as a whole if a topic of its session does not exist any more, as in Kafka 4.3.
    /// Kafka 4.2 and 4.4 report the error of the partition.
    pub(crate) fn fails_whole_share_fetches(self) -> bool {
        self.0.is_some_and(|own| Release::named("4.3") == Some(own))
    }

    /// Returns true if requests of this version are accepted.
    pub(crate) fn accepts(self, key: ApiKey, version: i16) -> bool {
        let dropped = key == ApiKey::Produce && self.0.is_some_and(|release| release >= Release::V4_0);
        let min = if dropped { FIRST_WITH_BATCHES } else { 0 };
        version >= min && self.advertised_versions(key).is_some_and(|(first, last)| (first..=last).contains(&version))
    }

    /// Returns true if the emulated release can read the request header. Kafka 0.9 accepts requests without a client id
    /// only for APIs that existed in 0.8.2, which use a separate parser.
    pub(crate) fn can_read_header(self, header: &RequestHeader) -> bool {
        let two_readers = !self.is_before(Release::V0_9_0) && self.is_before(Release::V0_10_0);
        !two_readers || header.client_id.is_some() || header.api_key <= ApiKey::OffsetFetch.code()
    }

    /// Returns the handling of requests with an unsupported API or version.
    pub(crate) fn unsupported(self, key: Option<ApiKey>) -> Unsupported {
        match key {
            _ if self.is_before(Release::V0_9_0) => Unsupported::Close,
            _ if self.is_before(Release::V0_10_0) => Unsupported::Ignore,
            Some(ApiKey::ApiVersions) if self.is_before(Release::V2_4) => Unsupported::ApiVersions(None),
            Some(ApiKey::ApiVersions) => Unsupported::ApiVersions(self.advertised_versions(ApiKey::ApiVersions)),
            _ => Unsupported::Close,
        }
    }

    /// Returns the error for an API that is implemented but disabled by default: KIP-848 groups in 3.7 to 3.9.
    pub(crate) fn switched_off(self, key: ApiKey) -> Option<ErrorCode> {
        let of_groups = matches!(key, ApiKey::ConsumerGroupHeartbeat | ApiKey::ConsumerGroupDescribe);
        (of_groups && self.is_before(Release::V4_0)).then_some(ErrorCode::UNSUPPORTED_VERSION)
    }

    /// Returns true if topics can be created with the broker's default partition count and replication factor
    /// (KIP-464).
    pub(crate) fn has_topic_defaults(self) -> bool {
        !self.is_before(Release::V2_4)
    }

    /// Returns true if the release sends throttled responses at once and then reads no requests of the connection
    /// (KIP-219). Earlier releases wait before they send the response.
    pub(crate) fn mutes_after_response(self) -> bool {
        !self.is_before(Release::V2_0)
    }

    /// Returns true if the release has the feature `share.version`.
    pub(crate) fn has_share_version(self) -> bool {
        !self.is_before(Release::V4_1)
    }

    /// Returns true if the release has the feature `transaction.version`.
    pub(crate) fn has_transaction_version(self) -> bool {
        !self.is_before(Release::V4_0)
    }
}

/// Changes options that still have their default value to the default of the emulated release.
pub(crate) fn adapt(options: &mut BrokerOptions) {
    let profile = Profile::new(options.kafka);
    if !profile.has_transaction_version() {
        options.transactions.version = 0;
    }
    // Share groups are a preview in 4.1, which has to be enabled.
    if profile.is_before(Release::V4_2) {
        options.shares.version = 0;
    }
    if let Some(kafka) = options.kafka
        && options.security.mechanisms == Mechanism::ALL
    {
        options.security.mechanisms.retain(|mechanism| mechanism.since() <= kafka);
    }
    if options.groups.max_session_timeout == GroupOptions::default().max_session_timeout {
        if profile.is_before(Release::V0_10_0) {
            options.groups.max_session_timeout = Duration::from_secs(30);
        } else if profile.is_before(Release::V2_3) {
            options.groups.max_session_timeout = Duration::from_secs(300);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile_of(kafka: &str) -> Profile {
        Profile::new(Some(Release::named(kafka).unwrap()))
    }

    /// APIs that the broker does not support by default. The telemetry APIs require an option. The others are never
    /// supported, because every node is an ordinary broker: voters do not change, and nodes are never unregistered.
    const UNSUPPORTED_APIS: &[ApiKey] = &[
        ApiKey::GetTelemetrySubscriptions,
        ApiKey::PushTelemetry,
        ApiKey::UnregisterBroker,
        ApiKey::UnregisterController,
        ApiKey::AddRaftVoter,
        ApiKey::RemoveRaftVoter,
    ];

    #[test]
    fn supports_every_version_of_a_release() {
        for named in Release::ALL {
            for key in ApiKey::ALL.iter().filter(|key| !UNSUPPORTED_APIS.contains(key)) {
                assert_eq!(
                    Profile::new(Some(*named)).advertised_versions(*key),
                    named.versions(*key),
                    "{key:?} of {named}"
                );
            }
        }
    }

    #[test]
    fn unsupported_request_is_handled_as_in_release() {
        let api_versions = Some(ApiKey::ApiVersions);
        assert_eq!(profile_of("0.8.2").unsupported(api_versions), Unsupported::Close);
        assert_eq!(profile_of("0.9.0").unsupported(api_versions), Unsupported::Ignore);
        assert_eq!(profile_of("2.3").unsupported(api_versions), Unsupported::ApiVersions(None));
        assert_eq!(profile_of("2.4").unsupported(api_versions), Unsupported::ApiVersions(Some((0, 3))));
        assert_eq!(profile_of("4.3").unsupported(api_versions), Unsupported::ApiVersions(Some((0, 4))));
        assert_eq!(profile_of("4.4").unsupported(api_versions), Unsupported::ApiVersions(Some((0, 5))));
        assert_eq!(profile_of("2.8").unsupported(Some(ApiKey::ListTransactions)), Unsupported::Close);
        assert_eq!(Profile::new(None).unsupported(api_versions), Unsupported::ApiVersions(Some((0, 5))));
    }

    #[test]
    fn kafka_0_9_requires_client_id() {
        let header = |key: ApiKey, client_id: Option<&str>| RequestHeader {
            api_key: key.code(),
            api_version: 0,
            correlation_id: 1,
            client_id: client_id.map(str::to_owned),
        };
        for (key, read) in [(ApiKey::ListOffsets, true), (ApiKey::ListGroups, false), (ApiKey::ApiVersions, false)] {
            assert_eq!(profile_of("0.9.0").can_read_header(&header(key, None)), read, "{key:?}");
            assert!(
                profile_of("0.9.0").can_read_header(&header(key, Some("")))
                    && profile_of("0.8.2").can_read_header(&header(key, None)),
                "{key:?}"
            );
            assert!(profile_of("0.10.0").can_read_header(&header(key, None)), "{key:?}");
        }
    }

    #[test]
    fn kafka_4_advertises_unsupported_produce_versions() {
        assert_eq!(profile_of("4.0").advertised_versions(ApiKey::Produce), Some((0, 12)));
        assert!(!profile_of("4.0").accepts(ApiKey::Produce, 2) && profile_of("4.0").accepts(ApiKey::Produce, 3));
        assert!(profile_of("3.9").accepts(ApiKey::Produce, 0) && !profile_of("3.9").accepts(ApiKey::Produce, 12));
    }
}
