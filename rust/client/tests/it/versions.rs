//! Tests with every Kafka release from 0.8.2 to 4.3, which the embedded broker emulates. Supported features must work,
//! and other features must fail with an error that names the required release.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::consume_common::{SOON, consumer, options, produce, read, tp};
use bytes::Bytes;
use samsarrow_broker::{Broker, BrokerOptions, Fault, Release};
use samsarrow_client::admin::{Admin, CommitSettings, FetchSettings, GroupFilter, NewTopic};
use samsarrow_client::config::ClientKind;
use samsarrow_client::error::{Error, Result};
use samsarrow_client::group::subscription::Subscription;
use samsarrow_client::producer::{GroupMember, Producer, ProducerRecord};
use samsarrow_client::types::OffsetAndMetadata;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

type Pairs<'a> = &'a [(&'a str, &'a str)];

async fn emulating(kafka: Option<Release>) -> Broker {
    let topics = vec![("t".to_owned(), 2)];
    Broker::start(BrokerOptions { topics, kafka, ..Default::default() }).await.unwrap()
}

fn record() -> ProducerRecord {
    let value = Some(Bytes::from_static(b"v"));
    ProducerRecord { topic: "t".into(), partition: Some(0), timestamp: Some(1000), key: None, value, headers: vec![] }
}

async fn send(bootstrap: &str, more: Pairs<'_>) -> Result<()> {
    let producer = Producer::new(&options(ClientKind::Producer, bootstrap, more))?;
    let sent = producer.send(record()).await?.wait().await;
    producer.close(SOON).await?;
    sent.map(drop)
}

async fn transaction(bootstrap: &str, more: Pairs<'_>) -> Result<()> {
    let more = [more, &[("transactional.id", "x")]].concat();
    let producer = Producer::new(&options(ClientKind::Producer, bootstrap, &more))?;
    producer.init_transactions(Some(SOON)).await?;
    producer.begin_transaction().await?;
    producer.send(record()).await?;
    let member = GroupMember { group: "in-transaction".into(), ..GroupMember::default() };
    let offsets = vec![(tp(0), OffsetAndMetadata { offset: 1, ..Default::default() })];
    producer.send_offsets_to_transaction(offsets, member, Some(SOON)).await?;
    producer.commit_transaction(Some(SOON)).await?;
    producer.close(SOON).await
}

/// Reads a row from the start of the partition, with or without a group.
async fn consume(broker: &Broker, more: Pairs<'_>, group: bool) -> Result<()> {
    let consumer = consumer(broker, more);
    if group {
        consumer.subscribe(Subscription::topics(["t".to_owned()])?)?;
    } else {
        consumer.assign(&[tp(0)])?;
    }
    let rows = consumer.poll(SOON).await;
    let done = async {
        if rows?.num_rows() == 0 {
            return Err(Error::State("no rows were returned".into()));
        }
        if more.iter().any(|(name, _)| *name == "group.id") {
            consumer.commit(None, SOON).await?;
            let committed = consumer.committed(&[tp(0)], None, SOON).await?;
            let at = committed[0].1.as_ref().map(|at| at.offset);
            if at != Some(consumer.position(&tp(0), SOON).await?) {
                return Err(Error::State(format!("committed is {at:?}")));
            }
        }
        Ok(())
    };
    let done = done.await;
    consumer.close(SOON).await;
    done
}

fn first<T, V>(outcomes: Vec<(T, Result<V>)>) -> Result<()> {
    outcomes.into_iter().next().unwrap().1.map(drop)
}

/// Runs all requests of the client. Returns for each request its name, the first Kafka release that supports it, and
/// its result.
async fn surface(broker: &Broker, more: Pairs<'_>) -> Vec<(&'static str, &'static str, Result<()>)> {
    let bootstrap = broker.bootstrap_servers();
    let with = |own: Pairs<'static>| [own, &[("session.timeout.ms", "10000")], more].concat();
    let admin = Admin::new(&options(ClientKind::Admin, &bootstrap, more)).unwrap();
    let new = |name: &str, num_partitions, replication_factor| NewTopic {
        name: name.to_owned(),
        num_partitions,
        replication_factor,
        assignment: Vec::new(),
        configs: Vec::new(),
    };
    let group = |name: &str| [name.to_owned()];
    let at = [(tp(0), OffsetAndMetadata { offset: 1, ..Default::default() })];
    let mut results = Vec::new();
    results.push(("produce", "0.8.2", send(&bootstrap, more).await));
    results.push(("consume", "0.8.2", consume(broker, more, false).await));
    results.push(("commit", "0.8.2", consume(broker, &with(&[("group.id", "a")]), false).await));
    results.push(("group", "0.9.0", consume(broker, &with(&[("group.id", "g")]), true).await));
    let static_member = with(&[("group.id", "i"), ("group.instance.id", "one")]);
    results.push(("static member", "2.3", consume(broker, &static_member, true).await));
    let modern = [&[("group.id", "m"), ("group.protocol", "consumer")], more].concat();
    results.push(("consumer protocol", "4.0", consume(broker, &modern, true).await));
    let reader = consumer(broker, more);
    let by_time = reader.offsets_for_times(&[(tp(0), 1000)], SOON).await.and_then(|found| match &found[0].1 {
        Some(found) if found.offset == 0 => Ok(()),
        other => Err(Error::State(format!("found {other:?}"))),
    });
    results.push(("offset by time", "0.10.1", by_time));
    results.push(("end", "0.8.2", reader.end_offsets(&[tp(0)], SOON).await.map(drop)));
    reader.close(SOON).await;
    results.push(("transaction", "0.11.0", transaction(&bootstrap, more).await));
    let committed = with(&[("group.id", "s"), ("isolation.level", "read_committed")]);
    results.push((
        "read committed",
        "0.8.2",
        consume(broker, &with(&[("isolation.level", "read_committed")]), false).await,
    ));
    results.push(("stable offsets", "0.8.2", consume(broker, &committed, false).await));
    results.push(("list topics", "0.8.2", admin.list_topics(None, SOON).await.map(drop)));
    let created = admin.create_topics(&[new("new", 1, 1)], false, SOON).await.and_then(first);
    results.push(("create topic", "0.10.1", created));
    let created = admin.create_topics(&[new("default", -1, -1)], false, SOON).await.and_then(first);
    results.push(("create topic by default", "2.4", created));
    let deleted = admin.delete_topics(&["new".into()], SOON).await.and_then(first);
    results.push(("delete topic", "0.10.1", deleted));
    results.push(("list groups", "0.9.0", admin.list_groups(&GroupFilter::default(), SOON).await.map(drop)));
    let described =
        admin.describe_groups(&group("g"), false, SOON).await.and_then(|found| found.into_iter().next().unwrap().1);
    results.push(("describe group", "0.9.0", described.map(drop)));
    let settings = CommitSettings::default();
    let outside = admin.commit_offsets("o", &at, &settings, SOON).await.and_then(first);
    results.push(("commit from outside", "0.8.2", outside));
    let requested = [("o".to_owned(), Some(vec![tp(0)]))];
    let fetched = admin.fetch_offsets(&requested, &FetchSettings::default(), SOON).await.map(drop);
    results.push(("offsets of a group", "0.8.2", fetched));
    let fetched = admin.fetch_offsets(&[("o".to_owned(), None)], &FetchSettings::default(), SOON).await;
    results.push((
        "all offsets of a group",
        "0.10.2",
        fetched.and_then(|found| found.into_iter().next().unwrap().1).map(drop),
    ));
    results.push(("delete offsets", "2.4", admin.delete_offsets("o", &[tp(0)], SOON).await.and_then(first)));
    results.push(("delete group", "1.1", admin.delete_groups(&group("g"), SOON).await.and_then(first)));
    admin.close().await;
    results
}

/// Returns the problem of a result, if any. A request must fail if the release does not support it, and the error must
/// name the required release. Otherwise it must succeed.
fn problem(release: Release, since: &str, outcome: Result<()>) -> Option<String> {
    let can = release >= Release::named(since).unwrap();
    match outcome {
        Ok(()) => (!can).then(|| format!("works, though it requires {since}")),
        // Only two classes of errors are correct. One means that the broker does not support the request at all, the
        // other that it does not support an argument.
        Err(error) if can || !["UnsupportedVersionError", "ConfigurationError"].contains(&&*error.name()) => {
            Some(error.to_string())
        }
        Err(error) => {
            let text = error.to_string();
            let later = |newer: &&Release| **newer > release && text.contains(&format!("Kafka {newer}"));
            Release::ALL.iter().find(later).is_none().then_some(text)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_features_name_the_required_release() {
    let mut problems = Vec::new();
    for release in Release::ALL {
        let broker = emulating(Some(*release)).await;
        for (feature, since, outcome) in surface(&broker, &[]).await {
            problems
                .extend(problem(*release, since, outcome).map(|text| format!("{feature} on Kafka {release}: {text}")));
        }
        broker.shutdown().await;
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Tests the versions that are not the newest of any release, so that the client uses them only because of an option.
#[tokio::test(flavor = "multi_thread")]
async fn every_version_of_every_request_can_be_sent() {
    let newest = |key: &ApiKey| -> BTreeSet<i16> {
        Release::ALL.iter().filter_map(|release| release.versions(*key)).map(|(_, last)| last).collect()
    };
    let (mut count, mut problems) = (0, Vec::new());
    for key in ApiKey::ALL {
        let known = newest(key);
        // APIs that brokers report only with a plugin do not belong to a release.
        let Some(last) = known.last().copied() else { continue };
        for version in (0..=last).filter(|version| !known.contains(version)) {
            let broker = emulating(None).await;
            let (name, version) = (format!("api.version.{}", key.name()), version.to_string());
            let name = name.chars().fold(String::new(), |mut name, c| {
                if c.is_uppercase() && !name.ends_with('.') {
                    name.push('_');
                }
                name.push(c.to_ascii_lowercase());
                name
            });
            for (feature, _, outcome) in surface(&broker, &[(&*name, &*version)]).await {
                let text = outcome.err().map(|error| error.to_string()).unwrap_or_default();
                if text.contains("cannot be sent") || text.contains("took longer") {
                    problems.push(format!("{feature}, {name}={version}: {text}"));
                }
            }
            count += 1;
            broker.shutdown().await;
        }
    }
    assert!(count > 5, "only {count} such versions");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[tokio::test]
async fn broker_without_api_versions_is_detected_once() {
    for kafka in ["0.8.2", "0.9.0"] {
        let broker = emulating(Release::named(kafka)).await;
        produce(&broker, 2, 0, 3).await;
        let before = broker.requests().get(&ApiKey::ListOffsets).copied().unwrap_or_default();
        let consumer = consumer(&broker, &[]);
        consumer.assign(&[tp(0), tp(1)]).unwrap();
        assert_eq!(read(&consumer, 6).await.len(), 6);
        // One request is sent to the bootstrap address, which is also the broker's address, and one for the partitions.
        assert!(broker.requests()[&ApiKey::ListOffsets] - before <= 3, "Kafka {kafka}: {:?}", broker.requests());
        consumer.close(SOON).await;
        broker.shutdown().await;
    }
}

#[tokio::test]
async fn broker_version_fallback_replaces_api_versions() {
    let broker = emulating(Release::named("0.9.0")).await;
    let bootstrap = broker.bootstrap_servers();
    let known = [("api.version.request", "false"), ("broker.version.fallback", "0.9.0")];
    send(&bootstrap, &known).await.unwrap();
    assert!(!broker.requests().contains_key(&ApiKey::ListOffsets), "nothing was probed");
    // If the assumed release is wrong, the broker closes the connection or does not respond.
    let older = [("broker.version.fallback", "0.8.2"), ("request.timeout.ms", "4000")];
    let error = consume(&broker, &[&older[..], &[("group.id", "g")]].concat(), true).await.unwrap_err();
    assert!(error.to_string().contains("JoinGroup, which needs Kafka 0.9.0"), "{error}");
    broker.shutdown().await;
}

/// Regression test: a broker that closed two or three connections after ApiVersions was taken for Kafka 0.9, and got
/// messages in format v0.
#[tokio::test]
async fn closed_connections_do_not_make_a_broker_old() {
    for times in 1..8 {
        let broker = emulating(None).await;
        broker.fail_next(ApiKey::ApiVersions, Fault::DropBefore, times);
        send(&broker.bootstrap_servers(), &[]).await.unwrap();
        assert_eq!(formats(&broker), [2], "{times} closed connections");
        broker.shutdown().await;
    }
}

/// Even a broker that behaves exactly like Kafka 0.8 is not taken for it after a broker has responded to ApiVersions.
#[tokio::test]
async fn a_cluster_that_has_responded_to_api_versions_is_not_old() {
    let broker = emulating(None).await;
    let options = options(ClientKind::Producer, &broker.bootstrap_servers(), &[("request.timeout.ms", "4000")]);
    let producer = Producer::new(&options).unwrap();
    producer.send(record()).await.unwrap().wait().await.unwrap();
    broker.fail(ApiKey::ApiVersions, None, &Fault::DropBefore, None);
    broker.fail(ApiKey::ListGroups, None, &Fault::DropBefore, None);
    broker.stop_node(0).await.unwrap();
    broker.start_node(0).await.unwrap();
    let sent = producer.send(record()).await.unwrap();
    while broker.requests().get(&ApiKey::ListGroups).is_none_or(|probes| *probes < 4) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    broker.clear_faults();
    sent.wait().await.unwrap();
    assert_eq!(formats(&broker), [2, 2]);
    producer.close(SOON).await.unwrap();
    broker.shutdown().await;
}

/// Returns the message formats of the batches of partition 0.
fn formats(broker: &Broker) -> Vec<i8> {
    broker.batches("t", 0).unwrap().iter().map(|batch| batch.header.magic).collect()
}

/// As in the middle of a rolling upgrade, each node gets the versions that it supports.
#[tokio::test]
async fn nodes_may_be_of_different_releases() {
    let old = Release::named("2.3");
    let topics = vec![("t".to_owned(), 2)];
    let broker = Broker::start(BrokerOptions { brokers: 2, topics, kafka: old, ..Default::default() }).await.unwrap();
    broker.set_kafka(1, Release::named("4.3")).unwrap();
    assert!(broker.set_kafka(2, None).is_err());
    let versions = Arc::new(Mutex::new(BTreeMap::new()));
    let seen = Arc::clone(&versions);
    broker.on_request(ApiKey::Fetch, move |request| {
        seen.lock().unwrap().insert(request.node, request.api_version);
        None
    });
    produce(&broker, 2, 0, 3).await;
    let consumer = consumer(&broker, &[]);
    consumer.assign(&[tp(0), tp(1)]).unwrap();
    assert_eq!(read(&consumer, 6).await.len(), 6);
    let newest = |release: &str| Release::named(release).unwrap().versions(ApiKey::Fetch).unwrap().1;
    let versions = versions.lock().unwrap().clone();
    assert_eq!(versions[&0], newest("2.3"));
    // Requests from v13 on have topic ids, which the client has only if its metadata came from the newer node.
    assert!([12, newest("4.3")].contains(&versions[&1]), "{versions:?}");
    consumer.close(SOON).await;
    broker.shutdown().await;
}

#[tokio::test]
async fn explicit_idempotence_is_not_disabled() {
    let broker = emulating(Release::named("0.10.2")).await;
    let bootstrap = broker.bootstrap_servers();
    send(&bootstrap, &[]).await.unwrap();
    let error = send(&bootstrap, &[("enable.idempotence", "true")]).await.unwrap_err();
    assert_eq!(error.name(), "UnsupportedVersionError");
    assert!(error.to_string().contains("InitProducerId, which needs Kafka 0.11.0"), "{error}");
    broker.shutdown().await;
}

#[tokio::test]
async fn session_timeout_too_long_for_an_old_broker_names_the_option() {
    let broker = emulating(Release::named("0.9.0")).await;
    let more = [("group.id", "g"), ("session.timeout.ms", "45000")];
    send(&broker.bootstrap_servers(), &[]).await.unwrap();
    let error = consume(&broker, &more, true).await.unwrap_err().to_string();
    assert!(error.contains("session.timeout.ms=45000") && error.contains("30000 in Kafka 0.9"), "{error}");
    broker.shutdown().await;
}

#[tokio::test]
async fn old_metadata_versions_allow_auto_creation() {
    for kafka in ["0.10.0", "0.10.2", "0.11.0"] {
        let broker = emulating(Release::named(kafka)).await;
        send(&broker.bootstrap_servers(), &[]).await.unwrap();
        consume(&broker, &[("allow.auto.create.topics", "false")], false).await.unwrap();
        broker.shutdown().await;
    }
}

/// Brokers with an old inter-broker protocol support newer requests, but do not report topic ids.
#[tokio::test]
async fn topics_without_reported_ids_are_requested_by_name() {
    let broker = emulating(None).await;
    let newest = Arc::new(AtomicI16::new(-1));
    for key in [ApiKey::Produce, ApiKey::Fetch] {
        let newest = Arc::clone(&newest);
        broker.on_request(key, move |request| {
            newest.fetch_max(request.api_version, Ordering::Relaxed);
            None
        });
    }
    for version in ["0", "4", "9"] {
        let chosen = [("api.version.metadata", version)];
        send(&broker.bootstrap_servers(), &chosen).await.unwrap();
        consume(&broker, &chosen, false).await.unwrap();
    }
    assert_eq!(newest.load(Ordering::Relaxed), 12);
    consume(&broker, &[], false).await.unwrap();
    assert_eq!(newest.load(Ordering::Relaxed), 18, "with ids they are used");
    broker.shutdown().await;
}

#[tokio::test]
async fn group_with_topic_ids_requires_ids_in_metadata() {
    let broker = emulating(None).await;
    send(&broker.bootstrap_servers(), &[]).await.unwrap();
    let more = [("group.id", "g"), ("group.protocol", "consumer"), ("api.version.metadata", "9")];
    let error = consume(&broker, &more, true).await.unwrap_err();
    assert_eq!(error.name(), "UnsupportedVersionError");
    assert!(error.to_string().contains("omit api.version.metadata"), "{error}");
    broker.shutdown().await;
}

#[tokio::test]
async fn offsets_by_id_name_the_required_release() {
    for kafka in ["0.10.2", "2.3", "3.9"] {
        let broker = emulating(Release::named(kafka)).await;
        let admin = Admin::new(&options(ClientKind::Admin, &broker.bootstrap_servers(), &[])).unwrap();
        let at = [(tp(0), OffsetAndMetadata { offset: 1, ..Default::default() })];
        let commit = CommitSettings { version: Some(10), ..Default::default() };
        let committed = admin.commit_offsets("g", &at, &commit, SOON).await.map(drop);
        let fetch = FetchSettings { version: Some(10), ..Default::default() };
        let fetched = admin.fetch_offsets(&[("g".to_owned(), Some(vec![tp(0)]))], &fetch, SOON).await.map(drop);
        for error in [committed.unwrap_err(), fetched.unwrap_err()] {
            assert_eq!(error.name(), "UnsupportedVersionError", "Kafka {kafka}: {error}");
            assert!(error.to_string().contains("v10 needs Kafka 4.2"), "Kafka {kafka}: {error}");
        }
        admin.close().await;
        broker.shutdown().await;
    }
}

#[tokio::test]
async fn headers_name_the_required_release() {
    let broker = emulating(Release::named("0.10.2")).await;
    let producer = Producer::new(&options(ClientKind::Producer, &broker.bootstrap_servers(), &[])).unwrap();
    let with_header = ProducerRecord { headers: vec![("h".to_owned(), None)], ..record() };
    let error = producer.send(with_header).await.unwrap().wait().await.unwrap_err();
    assert_eq!(error.name(), "UnsupportedVersionError");
    assert!(error.to_string().contains("a record with headers needs Kafka 0.11.0"), "{error}");
    producer.close(SOON).await.unwrap();
    broker.shutdown().await;
}

/// Topics with an older message format, which Kafka 0.10 to 3 support.
#[tokio::test]
async fn old_topic_format_names_the_option_to_set() {
    let broker = emulating(Release::named("2.8")).await;
    let rejection = Fault::Error(ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT);
    broker.fail_next(ApiKey::Produce, rejection.clone(), 1);
    let text = send(&broker.bootstrap_servers(), &[]).await.unwrap_err().to_string();
    assert!(text.contains("message.format.version 0.11.0") && text.contains("enable.idempotence"), "{text}");
    broker.fail_next(ApiKey::ListOffsets, rejection, 1);
    let consumer = consumer(&broker, &[]);
    let text = consumer.offsets_for_times(&[(tp(0), 1)], SOON).await.unwrap_err().to_string();
    assert!(text.contains("message.format.version to 0.10.0"), "{text}");
    consumer.close(SOON).await;
    broker.shutdown().await;
}

#[tokio::test]
async fn unknown_broker_version_fallback_is_rejected() {
    let bad = |pairs: Pairs<'_>| {
        let all = pairs.iter().copied().chain([("bootstrap.servers", "localhost:1")]);
        let values = all.map(|(k, v)| (k.to_owned(), samsarrow_client::config::OptionValue::Str(v.to_owned())));
        samsarrow_client::config::Options::parse(ClientKind::Admin, values).unwrap_err().to_string()
    };
    let text = bad(&[("broker.version.fallback", "0.7")]);
    assert!(text.contains("broker.version.fallback=0.7") && text.contains("0.8.2, 0.9.0"), "{text}");
    assert!(bad(&[("api.version.request", "false")]).contains("broker.version.fallback"));
}
