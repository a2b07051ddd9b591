//! Tests of logins at brokers that reject them, require reauthentication or require no login.

#![allow(clippy::type_complexity, reason = "a table of cases")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::consume_common::{SOON, all, options, rows};
use samsarrow_broker::{Broker, BrokerOptions, LoginAnswer, Mechanism, Protocol, SecurityOptions};
use samsarrow_client::admin::Admin;
use samsarrow_client::config::ClientKind;
use samsarrow_client::consumer::Consumer;
use samsarrow_client::error::Error;
use samsarrow_client::group::subscription::Subscription;
use samsarrow_client::producer::{Producer, ProducerRecord};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::releases::Release;

const ALICE: [(&str, &str); 4] = [
    ("security.protocol", "SASL_PLAINTEXT"),
    ("sasl.mechanism", "SCRAM-SHA-256"),
    ("sasl.username", "alice"),
    ("sasl.password", "secret"),
];

fn secured() -> SecurityOptions {
    SecurityOptions {
        protocol: Protocol::SaslPlaintext,
        users: [("alice", "secret")].into_iter().collect(),
        ..SecurityOptions::default()
    }
}

async fn start(brokers: usize, security: SecurityOptions, kafka: Option<Release>) -> Broker {
    let topics = vec![("t".to_owned(), 3)];
    Broker::start(BrokerOptions { brokers, topics, security, kafka, ..Default::default() }).await.unwrap()
}

fn with<'a>(name: &'static str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    let others = ALICE.into_iter().filter(|(other, _)| *other != name);
    others
        .chain([(name, value), ("auto.offset.reset", "earliest"), ("fetch.max.wait.ms", "100")])
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

fn consumer(broker: &Broker, more: &[(&str, &str)]) -> Consumer {
    Consumer::new(&options(ClientKind::Consumer, &broker.bootstrap_servers(), more)).unwrap()
}

fn producer(broker: &Broker, more: &[(&str, &str)]) -> Producer {
    let mine = more.iter().copied().filter(|(name, _)| !["auto.offset.reset", "fetch.max.wait.ms"].contains(name));
    let mine: Vec<_> = mine.chain([("linger.ms", "0")]).collect();
    Producer::new(&options(ClientKind::Producer, &broker.bootstrap_servers(), &mine)).unwrap()
}

fn admin(broker: &Broker, more: &[(&str, &str)]) -> Admin {
    let mine: Vec<_> =
        more.iter().copied().filter(|(name, _)| !["auto.offset.reset", "fetch.max.wait.ms"].contains(name)).collect();
    Admin::new(&options(ClientKind::Admin, &broker.bootstrap_servers(), &mine)).unwrap()
}

fn record(number: usize) -> ProducerRecord {
    ProducerRecord::new("t", number.to_string()).with_partition(i32::try_from(number % 3).unwrap())
}

/// Polls until a poll fails, and returns its error.
async fn poll_error(consumer: &Consumer) -> Error {
    let until = Instant::now() + SOON;
    while Instant::now() < until {
        if let Err(error) = consumer.poll(Duration::from_millis(200)).await {
            return error;
        }
    }
    panic!("polls give no error");
}

/// Makes every broker reject logins while the flag is set.
fn reject_logins(broker: &Broker) -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(true));
    let rejecting = Arc::clone(&flag);
    broker.on_login(move |response: &mut LoginAnswer| {
        if response.step > 0 && rejecting.load(Ordering::Acquire) {
            response.error = ErrorCode::SASL_AUTHENTICATION_FAILED;
            response.message = Some("Invalid \x1b[31msecret\n eyJhbGciOi.eyJzdWIi.c2ln".into());
        }
    });
    flag
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_password_fails_fast_and_backs_off() {
    let broker = start(3, secured(), None).await;
    let begun = Instant::now();
    for mode in ["assigned", "in a group"] {
        let (before, since) = (broker.logins().failed, Instant::now());
        let wrong = with("sasl.password", "hunter22");
        let consumer = if mode == "assigned" {
            let consumer = consumer(&broker, &wrong);
            consumer.assign(&all(3)).unwrap();
            consumer
        } else {
            let consumer = consumer(&broker, &[wrong, vec![("group.id", "g")]].concat());
            consumer.subscribe(Subscription::topics(["t".to_owned()]).unwrap()).unwrap();
            consumer
        };
        let text = poll_error(&consumer).await.to_string();
        assert!(text.contains("sasl.username=alice") && text.contains("invalid credentials"), "{text}");
        assert!(!text.contains("hunter22"), "{text}");
        let (mut errors, until) = (0, Instant::now() + Duration::from_secs(4));
        while Instant::now() < until {
            match consumer.poll(Duration::from_millis(100)).await {
                Err(Error::Authentication { .. }) => errors += 1,
                Err(other) => panic!("{other}"),
                Ok(rows) => assert_eq!(rows.num_rows(), 0),
            }
        }
        assert!(errors >= 1, "later polls report it too");
        let failed = usize::try_from(broker.logins().failed - before).unwrap();
        let seconds = since.elapsed().as_secs_f64();
        // Logins follow after delays of 1, 2, 4, … seconds, each of which may be shorter by up to a fifth.
        let max_failed = [0.0, 0.8, 2.4, 5.6, 12.0, 24.8].iter().filter(|earliest| **earliest <= seconds).count();
        assert!((1..=max_failed).contains(&failed), "{failed} logins for {errors} errors in {seconds} s");
        let closing = Instant::now();
        consumer.close(SOON).await;
        assert!(closing.elapsed() < SOON / 2, "close waits for no login");
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_login_fails_every_call_immediately() {
    let broker = start(1, secured(), None).await;
    let wrong = with("sasl.password", "hunter22");
    let is = |error: Error| assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
    let begun = Instant::now();
    let producer = producer(&broker, &wrong);
    is(producer.send(record(0)).await.err().unwrap());
    producer.close(SOON).await.unwrap();
    let admin = admin(&broker, &wrong);
    is(admin.list_topics(None, SOON * 6).await.unwrap_err());
    let consumer = consumer(&broker, &[wrong, vec![("group.id", "g")]].concat());
    is(consumer.partitions_for("t", SOON * 6).await.unwrap_err());
    assert!(begun.elapsed() < SOON, "no call waits for a timeout");
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_recovers_once_the_password_is_corrected() {
    let broker = start(3, secured(), None).await;
    let rejecting = reject_logins(&broker);
    let consumer = consumer(&broker, &with("", ""));
    consumer.assign(&all(3)).unwrap();
    let text = poll_error(&consumer).await.to_string();
    // Control characters are escaped, and secrets and tokens are redacted.
    assert!(text.contains("Invalid \\u{1b}[31m[hidden]\\n [hidden]"), "{text}");
    let producer = producer(&broker, &with("", ""));
    assert!(producer.send(record(0)).await.is_err());
    rejecting.store(false, Ordering::Release);
    let until = Instant::now() + SOON * 3;
    let delivery = loop {
        match producer.send(record(7)).await {
            Ok(delivery) => break delivery,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    delivery.wait().await.unwrap();
    let mut received = Vec::new();
    while received.is_empty() {
        match consumer.poll(Duration::from_millis(200)).await {
            Ok(batch) => received = rows(&batch),
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    }
    assert_eq!(received[0].2, "7");
    producer.close(SOON).await.unwrap();
    consumer.close(SOON).await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_renewed_in_place_under_load() {
    // The time for a renewal is at least a twentieth of the session lifetime.
    let lifetime = Duration::from_secs(8);
    let broker = start(3, SecurityOptions { session_lifetime: Some(lifetime), ..secured() }, None).await;
    let consumer = consumer(&broker, &[with("", ""), vec![("group.id", "g")]].concat());
    consumer.subscribe(Subscription::topics(["t".to_owned()]).unwrap()).unwrap();
    let producer = producer(&broker, &with("", ""));
    let (mut sent, mut received) = (0, Vec::new());
    let begun = Instant::now();
    let mut connected = None;
    while begun.elapsed() < Duration::from_secs(20) {
        for _ in 0..30 {
            drop(producer.send(record(sent)).await.unwrap());
            sent += 1;
        }
        received.extend(rows(&consumer.poll(Duration::from_millis(20)).await.unwrap()));
        if !received.is_empty() && begun.elapsed() > lifetime {
            connected.get_or_insert_with(|| broker.logins().succeeded);
        }
        // The load is moderate, so that it stays below the capacity of the machine.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    producer.flush(Some(SOON)).await.unwrap();
    let late = Instant::now() + SOON;
    while received.len() < sent && Instant::now() < late {
        received.extend(rows(&consumer.poll(Duration::from_millis(100)).await.unwrap()));
    }
    let logins = broker.logins();
    let values: BTreeSet<_> = received.iter().map(|(_, _, value)| value.clone()).collect();
    assert_eq!((received.len(), values.len()), (sent, sent), "each once");
    assert_eq!((logins.failed, logins.expired), (0, 0), "{logins:?}");
    assert_eq!(Some(logins.succeeded), connected, "no client reconnects");
    // Each client has three connections, which have requests in flight at all times.
    assert!(logins.repeated >= 10, "{logins:?}");
    producer.close(SOON).await.unwrap();
    consumer.close(SOON).await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_reauthentication_is_raised_and_a_later_login_recovers() {
    let lifetime = Duration::from_secs(4);
    let broker = start(1, SecurityOptions { session_lifetime: Some(lifetime), ..secured() }, None).await;
    let rejecting = reject_logins(&broker);
    rejecting.store(false, Ordering::Release);
    let consumer = consumer(&broker, &with("", ""));
    consumer.assign(&all(3)).unwrap();
    let producer = producer(&broker, &with("", ""));
    producer.send(record(1)).await.unwrap().wait().await.unwrap();
    while consumer.poll(Duration::from_millis(100)).await.unwrap().num_rows() == 0 {}
    rejecting.store(true, Ordering::Release);
    let error = poll_error(&consumer).await;
    assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
    rejecting.store(false, Ordering::Release);
    let until = Instant::now() + SOON * 3;
    let delivery = loop {
        if let Ok(delivery) = producer.send(record(2)).await
            && let Ok(receipt) = delivery.wait().await
        {
            break receipt;
        }
        assert!(Instant::now() < until, "the producer does not heal");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(delivery.partition, 2);
    loop {
        match consumer.poll(Duration::from_millis(100)).await {
            Ok(batch) if batch.num_rows() > 0 => break,
            Ok(_) | Err(Error::Authentication { .. }) => assert!(Instant::now() < until, "the consumer does not heal"),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(broker.logins().expired, 0);
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_right_protocol_or_mechanism() {
    let secured_broker =
        start(1, SecurityOptions { mechanisms: vec![Mechanism::ScramSha512, Mechanism::Plain], ..secured() }, None)
            .await;
    let open = start(1, SecurityOptions::default(), None).await;
    let cases = [
        (&secured_broker, vec![], "set security.protocol=SASL_PLAINTEXT and sasl.mechanism to one that it accepts"),
        (
            &secured_broker,
            with("sasl.mechanism", "SCRAM-SHA-256"),
            "it accepts SCRAM-SHA-512, PLAIN: set sasl.mechanism",
        ),
        (
            &open,
            with("", ""),
            "does not accept a login on this listener, but security.protocol=SASL_PLAINTEXT requires one: set security.protocol=PLAINTEXT",
        ),
    ];
    for (broker, more, expected) in cases {
        let consumer = consumer(broker, &more);
        consumer.assign(&all(3)).unwrap();
        let error = poll_error(&consumer).await;
        assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        consumer.close(SOON).await;
    }
    secured_broker.shutdown().await;
    open.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_brokers_get_raw_sasl_tokens() {
    for (kafka, mechanisms, mechanism) in
        [("0.10.0", vec![Mechanism::Plain], "PLAIN"), ("0.11.0", vec![Mechanism::ScramSha256], "SCRAM-SHA-256")]
    {
        let kafka = Release::named(kafka).unwrap();
        let broker = start(1, SecurityOptions { mechanisms, ..secured() }, Some(kafka)).await;
        let producer = producer(&broker, &with("sasl.mechanism", mechanism));
        producer.send(record(0)).await.unwrap().wait().await.unwrap();
        producer.close(SOON).await.unwrap();
        assert_eq!(broker.logins().failed, 0);
        // An old broker rejects a login only by closing the connection.
        let wrong: Vec<_> = with("sasl.mechanism", mechanism);
        let wrong: Vec<_> = wrong
            .into_iter()
            .map(|(name, value)| (name, if name == "sasl.password" { "guess" } else { value }))
            .collect();
        let error = admin(&broker, &wrong).list_topics(None, SOON * 6).await.unwrap_err();
        assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
        broker.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_without_scram_proof_is_rejected() {
    let broker = start(1, secured(), None).await;
    let cases: [(u32, fn(&mut LoginAnswer), &str); 5] = [
        (1, |response| response.token = "r=x,s=AAAA,i=4096".into(), "knows your password"),
        (1, |response| response.token = vec![b'x'; 400_000].into(), "not a valid SCRAM message"),
        (2, |response| response.token = bytes::Bytes::new(), "signature is wrong or missing"),
        (2, |response| response.token = "v=AAAA".into(), "signature is wrong or missing"),
        (2, |response| response.token = vec![b'x'; 600_000].into(), "during a login"),
    ];
    for (step, change, expected) in cases {
        broker.clear_faults();
        broker.on_login(move |response| {
            if response.step == step {
                change(response);
            }
        });
        let error = admin(&broker, &with("", "")).list_topics(None, Duration::from_secs(3)).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
    broker.shutdown().await;
}
