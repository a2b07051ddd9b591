//! Deletions of topics and records whose requests are repeated or late.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::produce_common::PATIENCE;
use samsarrow_broker::{Broker, BrokerOptions, Fault, Release};
use samsarrow_client::admin::{Admin, TopicRef};
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::error::Result;
use samsarrow_client::producer::{Producer, ProducerRecord};
use samsarrow_client::types::TopicPartition;
use samsarrow_wire::messages::ApiKey;

async fn start(topics: &[&str], more: &[(&str, &str)]) -> (Arc<Broker>, Admin) {
    let topics = topics.iter().map(|name| ((*name).to_owned(), 1)).collect();
    let broker =
        Broker::start(BrokerOptions { topics, auto_create_topics: false, ..Default::default() }).await.unwrap();
    let admin = Admin::new(&options(&broker, more)).unwrap();
    (Arc::new(broker), admin)
}

fn options(broker: &Broker, more: &[(&str, &str)]) -> Options {
    let servers = broker.bootstrap_servers();
    let own = [("bootstrap.servers", &*servers), ("retry.backoff.ms", "20"), ("request.timeout.ms", "300")];
    let own = own.iter().filter(|(name, _)| more.iter().all(|(other, _)| other != name));
    let pairs = own.chain(more).map(|(name, value)| ((*name).to_owned(), OptionValue::Str((*value).to_owned())));
    Options::parse(ClientKind::Admin, pairs).unwrap()
}

async fn delete(admin: &Admin, topic: impl Into<TopicRef>) -> Result<()> {
    admin.delete_topics(&[topic.into()], PATIENCE).await.unwrap().remove(0).1
}

async fn id(admin: &Admin, name: &str) -> [u8; 16] {
    admin.list_topics(Some(&[name.to_owned()]), PATIENCE).await.unwrap().remove(0).topic_id.0
}

#[tokio::test]
async fn a_late_request_deletes_no_topic_that_was_created_again() {
    let (broker, admin) = start(&["t"], &[]).await;
    let late = Fault::Late(Duration::from_millis(1500), Box::new(Fault::DropAfter));
    broker.fail_next(ApiKey::DeleteTopics, late, 1);
    delete(&admin, "t").await.unwrap();
    assert!(!broker.has_partition("t", 0));
    broker.create_topic("t", 1).unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(broker.has_partition("t", 0), "the first request has deleted the new topic");
    admin.close().await;
    broker.shutdown().await;
}

#[tokio::test]
async fn a_repeated_request_deletes_no_topic_that_was_created_again() {
    let (broker, admin) = start(&["t"], &[]).await;
    let (requests, other) = (AtomicUsize::new(0), Arc::downgrade(&broker));
    broker.on_request(ApiKey::DeleteTopics, move |_| match requests.fetch_add(1, Ordering::Relaxed) {
        0 => Some(Fault::DropAfter),
        _ => {
            // Another client has created the topic again.
            other.upgrade().unwrap().create_topic("t", 1).unwrap();
            None
        }
    });
    assert_eq!(delete(&admin, "t").await, Ok(()));
    assert!(broker.has_partition("t", 0), "the second request has deleted the new topic");
    broker.clear_faults();
    // An id that the application names may never have existed.
    broker.fail_next(ApiKey::DeleteTopics, Fault::DropAfter, 1);
    let error = delete(&admin, TopicRef::Id(id(&admin, "t").await)).await.unwrap_err();
    assert_eq!(error.name(), "UnknownTopicIdError");
    assert!(error.to_string().contains("DeleteTopics was sent again because no response came"), "{error}");
    admin.close().await;
    broker.shutdown().await;
}

#[tokio::test]
async fn ids_of_earlier_topics_are_looked_up_again() {
    let (broker, admin) = start(&["t", "gone"], &[("request.timeout.ms", "5000")]).await;
    assert_eq!(delete(&admin, TopicRef::Id([7; 16])).await.unwrap_err().name(), "UnknownTopicIdError");
    let other = Admin::new(&options(&broker, &[])).unwrap();
    for name in ["t", "gone"] {
        broker.fail_next(ApiKey::DeleteTopics, Fault::Delay(Duration::from_millis(500)), 1);
        let again = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            delete(&other, name).await.unwrap();
            if name == "t" {
                broker.create_topic(name, 1).unwrap();
            }
        };
        let (deleted, ()) = tokio::join!(delete(&admin, name), again);
        // The name stands for the topic that has it during the call.
        let error = deleted.as_ref().err().map(samsarrow_client::error::Error::name);
        assert_eq!(
            error.as_deref(),
            if name == "t" { None } else { Some("UnknownTopicOrPartitionError") },
            "{deleted:?}"
        );
        assert!(!broker.has_partition(name, 0));
    }
    other.close().await;
    admin.close().await;
    broker.shutdown().await;
}

#[tokio::test]
async fn the_lookup_of_ids_creates_no_topic() {
    let broker = Broker::start(BrokerOptions { auto_create_topics: true, ..Default::default() }).await.unwrap();
    broker.set_kafka(0, Release::named("0.10.2")).unwrap();
    let admin = Admin::new(&options(&broker, &[])).unwrap();
    assert_eq!(delete(&admin, "t").await.unwrap_err().name(), "UnknownTopicOrPartitionError");
    assert!(!broker.has_partition("t", 0));
    broker.create_topic("t", 1).unwrap();
    delete(&admin, "t").await.unwrap();
    assert!(!broker.has_partition("t", 0));
    admin.close().await;
    broker.shutdown().await;
}

#[tokio::test]
async fn a_topic_by_name_and_id_is_deleted_once() {
    let (broker, admin) = start(&["t"], &[]).await;
    let both = [TopicRef::Id(id(&admin, "t").await), TopicRef::from("t"), TopicRef::from("none"), TopicRef::from("t")];
    let deleted = admin.delete_topics(&both, PATIENCE).await.unwrap();
    let errors: Vec<_> = deleted.iter().map(|(_, result)| result.as_ref().err().map(|error| error.name())).collect();
    assert_eq!(errors, [None, None, Some("UnknownTopicOrPartitionError".to_owned()), None]);
    assert_eq!(deleted.into_iter().map(|(topic, _)| topic).collect::<Vec<_>>(), both);
    admin.close().await;
    broker.shutdown().await;
}

#[tokio::test]
async fn a_repeated_deletion_to_the_end_keeps_later_records() {
    let (broker, admin) = start(&["t"], &[("retry.backoff.ms", "1000")]).await;
    let produced = Options::parse(
        ClientKind::Producer,
        [("bootstrap.servers".to_owned(), OptionValue::Str(broker.bootstrap_servers()))],
    );
    let producer = Producer::new(&produced.unwrap()).unwrap();
    let send = async |value: &str| {
        let record = ProducerRecord::new("t", value.to_owned()).with_partition(0);
        producer.send(record).await.unwrap().wait().await.unwrap().offset
    };
    assert_eq!(send("old").await, 0);
    broker.fail_next(ApiKey::DeleteRecords, Fault::DropAfter, 1);
    let (tp, none) = (TopicPartition::new("t", 0), TopicPartition::new("none", 0));
    let before = BTreeMap::from([(tp.clone(), -1), (none.clone(), -1)]);
    let later = async {
        while !broker.requests().contains_key(&ApiKey::DeleteRecords) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(send("new").await, 1);
    };
    let (deleted, ()) = tokio::join!(admin.delete_records(&before, PATIENCE), later);
    let deleted: BTreeMap<_, _> = deleted.unwrap().into_iter().collect();
    assert_eq!(deleted[&tp], Ok(1), "the repeated request has deleted a later record");
    assert_eq!(deleted[&none].as_ref().unwrap_err().name(), "UnknownTopicOrPartitionError");
    assert!(broker.requests()[&ApiKey::DeleteRecords] > 1);
    producer.close(PATIENCE).await.unwrap();
    admin.close().await;
    broker.shutdown().await;
}
