//! Comparison of the release table with responses of real brokers.

use std::path::PathBuf;

use bytes::Bytes;

use super::*;
use crate::frame;

#[test]
fn parses_release_of_kafka_version() {
    for (input, expected) in
        [("2.8", "2.8"), ("2.8.2", "2.8"), (" 0.9", "0.9.0"), ("0.10.2.1", "0.10.2"), ("4.4.0", "4.4")]
    {
        assert_eq!(Release::named(input).map(|release| release.to_string()).as_deref(), Some(expected), "{input}");
    }
    for none in ["", "2", "0.7", "2.9", "9.0", "2.x", "2.8.1.1", "0.10.2.1.1", "-1.0"] {
        assert_eq!(Release::named(none), None, "{none}");
    }
    assert!(Release::ALL.is_sorted());
}

#[test]
fn first_with_returns_first_release() {
    assert_eq!(Release::first_with(ApiKey::InitProducerId, 0), Some(Release::V0_11_0));
    assert_eq!(Release::first_with(ApiKey::ListOffsets, 1), Some(Release::V0_10_1));
    assert_eq!(Release::first_with(ApiKey::OffsetFetch, 2), Some(Release::named("0.10.2").unwrap()), "KIP-88");
    assert_eq!(Release::first_with(ApiKey::Produce, 0), Some(Release::V0_8_2));
    assert_eq!(Release::first_with(ApiKey::InitProducerId, 6), None, "no release speaks it yet");
    assert_eq!(Release::V0_8_2.versions(ApiKey::JoinGroup), None);
    for (key, rows) in API_VERSIONS {
        assert!(rows.is_sorted_by_key(|(since, _)| *since), "{}", key.name());
        assert!(rows.iter().all(|(since, _)| Release::ALL.contains(since)), "{}", key.name());
    }
}

/// Returns ApiVersions v0 responses of real brokers, each with the broker's Kafka version.
fn captured() -> Vec<(String, Bytes)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = std::env::var_os("SAMSARROW_CONFORMANCE").map_or(root.join("../shared/conformance"), PathBuf::from);
    let folder = folder.join("api_versions");
    let Ok(files) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: there is no {}", folder.display());
        return Vec::new();
    };
    let paths = files.map(|file| file.unwrap().path());
    let version = |path: &PathBuf| Some(path.file_name()?.to_str()?.strip_suffix("-v0.bin")?.to_owned());
    paths.filter_map(|path| Some((version(&path)?, std::fs::read(&path).unwrap().into()))).collect()
}

/// APIs whose support begins in a later release for brokers with KRaft than for brokers with ZooKeeper.
const LATER_IN_KRAFT: [ApiKey; 6] = [
    ApiKey::CreateDelegationToken,
    ApiKey::RenewDelegationToken,
    ApiKey::ExpireDelegationToken,
    ApiKey::DescribeDelegationToken,
    ApiKey::DescribeUserScramCredentials,
    ApiKey::AlterUserScramCredentials,
];

#[test]
fn table_matches_real_brokers() {
    for (version, frame) in captured() {
        let release = Release::named(&version).unwrap();
        let (.., response) = frame::decode_api_versions(0, frame).unwrap();
        // Of the captured brokers that use KRaft, only the broker of version 3.3.2 does not support these APIs yet.
        let lacks = |key: &&ApiKey| version == "3.3.2" && LATER_IN_KRAFT.contains(key);
        for key in ApiKey::ALL.iter().filter(|key| !lacks(key)) {
            let advertised = response.api_keys.iter().find(|advertised| advertised.api_key == key.code());
            let advertised = advertised.map(|advertised| (advertised.min_version, advertised.max_version));
            assert_eq!(release.versions(*key), advertised, "{} of Kafka {version}", key.name());
        }
    }
}
