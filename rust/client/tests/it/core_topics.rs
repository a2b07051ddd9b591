//! Tests of metadata requests: a result per topic, automatic creation only if it is allowed, and limited refreshes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::produce_common::{PATIENCE, record};
use samsarrow_broker::{Broker, BrokerOptions, Fault};
use samsarrow_client::admin::{Admin, NewTopic};
use samsarrow_client::cluster::Cluster;
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::consumer::Consumer;
use samsarrow_client::group::subscription::Subscription;
use samsarrow_client::producer::{Producer, ProducerRecord};
use samsarrow_client::types::TopicPartition;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{ApiKey, Message, MetadataRequest, Reader};

async fn broker(auto_create_topics: bool, topics: &[&str]) -> Broker {
    let topics = topics.iter().map(|name| ((*name).to_owned(), 1)).collect();
    Broker::start(BrokerOptions { topics, auto_create_topics, ..Default::default() }).await.unwrap()
}

fn options(broker: &Broker, kind: ClientKind, more: &[(&str, &str)]) -> Options {
    let servers = broker.bootstrap_servers();
    let fast = [("bootstrap.servers", &*servers), ("retry.backoff.ms", "20"), ("retry.backoff.max.ms", "200")];
    let is_set = |name: &str| more.iter().any(|(other, _)| *other == name);
    let pairs = fast.into_iter().filter(|(name, _)| !is_set(name)).chain(more.iter().copied());
    Options::parse(kind, pairs.map(|(k, v)| (k.to_owned(), OptionValue::Str(v.to_owned())))).unwrap()
}

fn cluster(broker: &Broker, more: &[(&str, &str)]) -> Cluster {
    Cluster::new(&options(broker, ClientKind::Consumer, more)).unwrap()
}

/// Records the topics of each Metadata request, and true if the request allows automatic creation.
type Seen = Arc<Mutex<Vec<(Vec<String>, bool)>>>;

fn watch(broker: &Broker) -> Seen {
    let seen = Seen::default();
    let requests = Arc::clone(&seen);
    broker.on_request(ApiKey::Metadata, move |info| {
        let request = MetadataRequest::decode(info.api_version, &mut Reader::new(info.body.clone())).unwrap();
        let names = request.topics.unwrap_or_default().into_iter().filter_map(|topic| topic.name).collect();
        requests.lock().unwrap().push((names, request.allow_auto_topic_creation));
        None
    });
    seen
}

fn codes(outcomes: &std::collections::BTreeMap<String, samsarrow_client::error::Result<()>>) -> Vec<(&str, i16)> {
    outcomes.iter().map(|(name, o)| (&**name, o.as_ref().err().and_then(|e| e.code()).unwrap_or(0))).collect()
}

async fn delete(broker: &Broker, topic: &str) {
    let admin = Admin::new(&options(broker, ClientKind::Admin, &[])).unwrap();
    admin.delete_topics(&[topic.into()], PATIENCE).await.unwrap().remove(0).1.unwrap();
    admin.close().await;
}

#[tokio::test]
async fn each_topic_has_its_own_result() {
    let broker = broker(false, &["a", "b"]).await;
    let seen = watch(&broker);
    let cluster = cluster(&broker, &[("allow.auto.create.topics", "false")]);
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code();
    let before = Instant::now();
    let outcomes = cluster.topics_each(&["b", "gone", "a", "not valid"], Duration::from_secs(60)).await;
    assert!(before.elapsed() < PATIENCE, "a topic that does not exist is no reason to wait for the timeout");
    let invalid = ErrorCode::INVALID_TOPIC_EXCEPTION.code();
    assert_eq!(codes(&outcomes), [("a", 0), ("b", 0), ("gone", unknown), ("not valid", invalid)]);
    assert!(seen.lock().unwrap().len() <= 3, "{:?}", seen.lock().unwrap());
    // Known topics are not requested again.
    let before = seen.lock().unwrap().len();
    assert_eq!(codes(&cluster.topics_each(&["a", "b"], PATIENCE).await), [("a", 0), ("b", 0)]);
    assert_eq!(seen.lock().unwrap().len(), before);
    // A broker that has just started may report that an existing topic is unknown.
    broker.fail_next(ApiKey::Metadata, Fault::Error(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION), 1);
    broker.create_topic("late", 1).unwrap();
    assert_eq!(codes(&cluster.topics_each(&["late"], PATIENCE).await), [("late", 0)]);
    cluster.close().await;
    broker.shutdown().await;
}

#[tokio::test]
async fn unreachable_brokers_fail_topics_at_the_timeout() {
    let broker = broker(false, &["a"]).await;
    let cluster = cluster(&broker, &[]);
    cluster.topics(&["a"], PATIENCE).await.unwrap();
    broker.stop_node(0).await.unwrap();
    let outcomes = cluster.topics_each(&["a", "b"], Duration::from_millis(500)).await;
    assert!(outcomes["a"].is_ok());
    assert!(outcomes["b"].as_ref().unwrap_err().retriable(), "{:?}", outcomes["b"]);
    cluster.close().await;
    broker.shutdown().await;
}

#[tokio::test]
async fn deleted_topic_is_recreated_only_by_a_write() {
    let broker = broker(true, &[]).await;
    let cluster = cluster(&broker, &[("allow.auto.create.topics", "true")]);
    cluster.topics(&["a", "b"], PATIENCE).await.unwrap();
    delete(&broker, "b").await;
    let seen = watch(&broker);
    for _ in 0..5 {
        cluster.refresh(PATIENCE).await.unwrap();
    }
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code();
    // Repeated requests do not create the topic either.
    for _ in 0..2 {
        assert_eq!(codes(&cluster.topics_each(&["a", "b"], PATIENCE).await), [("a", 0), ("b", unknown)]);
        cluster.topics(&["b"], Duration::from_millis(100)).await.unwrap_err();
    }
    assert!(seen.lock().unwrap().iter().all(|(_, create)| !create), "{:?}", seen.lock().unwrap());
    assert_eq!(broker.end_offset("b", 0), None, "asking made it again");
    cluster.close().await;

    let producer = Producer::new(&options(&broker, ClientKind::Producer, &[])).unwrap();
    for _ in 0..2 {
        let sent = producer.send(record("b", 0, "x")).await.unwrap();
        tokio::time::timeout(PATIENCE, sent.wait()).await.unwrap().unwrap();
        assert_eq!(broker.end_offset("b", 0), Some(1));
        delete(&broker, "b").await;
    }
    producer.close(PATIENCE).await.unwrap();
    broker.shutdown().await;
}

#[tokio::test]
async fn consumers_create_topics_on_read_only_if_allowed() {
    let broker = broker(true, &["t"]).await;
    let absent = |name: &str| broker.end_offset(name, 0).is_none();
    let unknown = Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());
    let own = |create| [("allow.auto.create.topics", create), ("group.id", "g"), ("default.api.timeout.ms", "1500")];
    for create in ["true", "false"] {
        let consumer = Consumer::new(&options(&broker, ClientKind::Consumer, &own(create))).unwrap();
        let limit = Duration::from_millis(1500);
        let lost = [TopicPartition::new("looked-up", 0)];
        assert_eq!(consumer.partitions_for("looked-up", limit).await.unwrap_err().code(), unknown);
        assert_eq!(consumer.end_offsets(&lost, limit).await.unwrap_err().code(), unknown);
        assert_eq!(consumer.beginning_offsets(&lost, limit).await.unwrap_err().code(), unknown);
        assert_eq!(consumer.offsets_for_times(&[(lost[0].clone(), 1)], limit).await.unwrap_err().code(), unknown);
        assert_eq!(consumer.committed(&lost, None, limit).await.unwrap()[0].1, None);
        assert!(absent("looked-up"), "{create}");
        consumer.close(PATIENCE).await;
    }
    // Topics are created by default, and if the option allows it.
    for (more, subscribed, assigned) in [(&[][..], "s0", "a0"), (&own("true")[..1], "s1", "a1")] {
        let more = [more, &[("group.id", "g"), ("default.api.timeout.ms", "1500")]].concat();
        let consumer = Consumer::new(&options(&broker, ClientKind::Consumer, &more)).unwrap();
        consumer.subscribe(Subscription::topics([subscribed.to_owned()]).unwrap()).unwrap();
        let polled = async {
            while absent(subscribed) {
                consumer.poll(Duration::from_millis(50)).await.unwrap();
            }
        };
        let created = tokio::time::timeout(Duration::from_secs(3), polled).await.is_ok();
        assert_eq!(created, !more.is_empty() && more[0].1 == "true", "{more:?}");
        consumer.unsubscribe().unwrap();
        consumer.assign(&[TopicPartition::new(assigned, 0)]).unwrap();
        let _ = consumer.poll(Duration::from_secs(2)).await;
        assert_eq!(!absent(assigned), created, "{more:?}");
        consumer.close(PATIENCE).await;
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn unused_topic_is_no_longer_requested() {
    let broker = broker(false, &["idle", "used", "written"]).await;
    let cluster = cluster(&broker, &[("metadata.max.idle.ms", "1500")]);
    cluster.topics(&["idle", "used"], PATIENCE).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1600)).await;
    cluster.topics(&["used"], PATIENCE).await.unwrap();
    let seen = watch(&broker);
    cluster.refresh(PATIENCE).await.unwrap();
    assert_eq!(seen.lock().unwrap().last().unwrap().0, ["used"]);
    assert!(cluster.metadata().topic("idle").is_none(), "topics that were not requested are ignored");
    cluster.topics(&["idle"], PATIENCE).await.unwrap();
    assert!(cluster.metadata().topic("idle").is_some());
    cluster.close().await;

    // A topic counts as used while a producer writes to it.
    let more = [("metadata.max.idle.ms", "100"), ("metadata.max.age.ms", "30"), ("linger.ms", "0")];
    let producer = Producer::new(&options(&broker, ClientKind::Producer, &more)).unwrap();
    let write = async || {
        let sent = producer.send(record("written", 0, "x")).await.unwrap();
        tokio::time::timeout(PATIENCE, sent.wait()).await.unwrap().unwrap();
    };
    write().await;
    let until = Instant::now() + PATIENCE;
    while seen.lock().unwrap().last().unwrap().0.contains(&"written".to_owned()) {
        assert!(Instant::now() < until, "requested although no record is written");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let before = seen.lock().unwrap().len();
    write().await;
    while !seen.lock().unwrap()[before..].iter().any(|(names, _)| names.contains(&"written".to_owned())) {
        assert!(Instant::now() < until, "not requested although records were written");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    producer.close(PATIENCE).await.unwrap();
    broker.shutdown().await;
}

#[tokio::test]
async fn refreshes_without_changes_back_off() {
    let broker = broker(false, &["a"]).await;
    let cluster = cluster(&broker, &[("retry.backoff.ms", "50"), ("retry.backoff.max.ms", "1000")]);
    cluster.topics(&["a"], PATIENCE).await.unwrap();
    let seen = watch(&broker);
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        cluster.request_refresh();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // With delays of 50, 100, 200, 400 and 800 ms, there are about six requests in two seconds instead of forty.
    let requests = seen.lock().unwrap().len();
    assert!((2..=9).contains(&requests), "{requests} requests");
    cluster.close().await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topic_recreated_with_fewer_partitions_is_written_to() {
    let broker = broker(false, &[]).await;
    broker.create_topic("t", 8).unwrap();
    let more = [("linger.ms", "0"), ("delivery.timeout.ms", "120000")];
    let producer = Producer::new(&options(&broker, ClientKind::Producer, &more)).unwrap();
    let send = async |key: i32| {
        let record = ProducerRecord::new("t", "x").with_key(key.to_string());
        tokio::time::timeout(PATIENCE, producer.send(record).await.unwrap().wait())
            .await
            .expect("fails at once or is sent")
    };
    let mut used = std::collections::BTreeSet::new();
    for key in 0..40 {
        used.insert(send(key).await.unwrap().partition);
    }
    assert!(used.len() > 4, "keys choose partitions: {used:?}");
    delete(&broker, "t").await;
    broker.create_topic("t", 2).unwrap();
    // Until the change is known, records may be sent to partitions that no longer exist. They must fail with this error
    // and not with a timeout.
    let until = Instant::now() + PATIENCE;
    loop {
        match send(7).await.map_err(|error| error.code()) {
            Ok(_) => break,
            Err(code) => assert_eq!(code, Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code())),
        }
        assert!(Instant::now() < until);
    }
    for key in 0..40 {
        assert!(send(key).await.unwrap().partition < 2);
    }
    producer.close(PATIENCE).await.unwrap();
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_flight_batch_completes_after_the_topic_leaves_metadata() {
    let broker = broker(false, &["t"]).await;
    let more = [("linger.ms", "0"), ("enable.idempotence", "false"), ("metadata.max.age.ms", "50")];
    let producer = Producer::new(&options(&broker, ClientKind::Producer, &more)).unwrap();
    producer.send(record("t", 0, "0")).await.unwrap().wait().await.unwrap();
    broker.fail_next(ApiKey::Produce, Fault::Delay(Duration::from_millis(700)), 1);
    let delivery = producer.send(record("t", 0, "1")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    // While the request is pending, the client removes the topic from its metadata.
    let seen = watch(&broker);
    broker.fail(ApiKey::Metadata, None, &Fault::Error(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION), None);
    let until = Instant::now() + PATIENCE;
    while seen.lock().unwrap().is_empty() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    delivery.wait().await.unwrap();
    assert_eq!(broker.end_offset("t", 0), Some(2), "appended records were sent again");
    broker.clear_faults();
    producer.close(PATIENCE).await.unwrap();
    broker.shutdown().await;
}

#[tokio::test]
async fn topics_rejected_by_a_quota_are_retried() {
    let broker = broker(false, &["old"]).await;
    let admin = Admin::new(&options(&broker, ClientKind::Admin, &[])).unwrap();
    let topic = |name: &str| NewTopic {
        name: name.into(),
        num_partitions: 1,
        replication_factor: 1,
        assignment: Vec::new(),
        configs: Vec::new(),
    };
    broker.fail_next(ApiKey::CreateTopics, Fault::Error(ErrorCode::THROTTLING_QUOTA_EXCEEDED), 2);
    let created = admin.create_topics(&[topic("a"), topic("old"), topic("b")], false, PATIENCE).await.unwrap();
    let results: Vec<_> = created.iter().map(|(name, o)| (&**name, o.as_ref().err().and_then(|e| e.code()))).collect();
    let exists = Some(ErrorCode::TOPIC_ALREADY_EXISTS.code());
    assert_eq!(results, [("a", None), ("old", exists), ("b", None)]);
    // Until the timeout.
    broker.fail_next(ApiKey::DeleteTopics, Fault::Error(ErrorCode::THROTTLING_QUOTA_EXCEEDED), 1000);
    let deleted = admin.delete_topics(&["a".into()], Duration::from_secs(2)).await.unwrap();
    let error = deleted[0].1.clone().unwrap_err();
    assert!(error.to_string().contains("THROTTLING_QUOTA_EXCEEDED"), "{error}");
    // The quota error is not replaced by the timeout of the last attempt.
    broker.clear_faults();
    let requests = AtomicUsize::new(0);
    broker.on_request(ApiKey::DeleteTopics, move |_| {
        Some(match requests.fetch_add(1, Ordering::Relaxed) {
            0 => Fault::Error(ErrorCode::THROTTLING_QUOTA_EXCEEDED),
            _ => Fault::Delay(Duration::from_secs(60)),
        })
    });
    let deleted = admin.delete_topics(&["b".into()], Duration::from_secs(2)).await.unwrap();
    let error = deleted[0].1.clone().unwrap_err();
    assert!(error.to_string().contains("THROTTLING_QUOTA_EXCEEDED"), "{error}");
    admin.close().await;
    broker.shutdown().await;
}
