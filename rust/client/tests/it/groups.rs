//! Tests of group members with both protocols: failed joins are retried, no commit is lost, and no call exceeds its
//! timeout.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::consume_common::{SOON, broker, by_partition, complete, consumer, produce, rows, tp};
use samsarrow_broker::{Broker, BrokerOptions, Fault};
use samsarrow_client::consumer::{Consumer, Polled};
use samsarrow_client::error::Error;
use samsarrow_client::group::subscription::Subscription;
use samsarrow_client::types::OffsetAndMetadata;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

type Row = (i32, i64, String);

/// The two group protocols, and the request with which a member joins in each.
const PROTOCOLS: [(&str, ApiKey); 2] = [("classic", ApiKey::JoinGroup), ("consumer", ApiKey::ConsumerGroupHeartbeat)];

fn member(broker: &Broker, protocol: &str, more: &[(&str, &str)]) -> Consumer {
    let mut options = vec![("group.id", "g"), ("group.protocol", protocol), ("retry.backoff.ms", "50")];
    if protocol == "classic" {
        options.extend([("heartbeat.interval.ms", "200"), ("session.timeout.ms", "6000")]);
    }
    options.extend(more);
    let member = consumer(broker, &options);
    member.subscribe(Subscription::topics(["t".to_owned()]).unwrap()).unwrap();
    member
}

fn count(broker: &Broker, api: ApiKey) -> u64 {
    broker.requests().get(&api).copied().unwrap_or_default()
}

/// Polls frequently until `enough` returns true for the rows received so far. Returns all rows.
async fn poll_until(consumer: &Consumer, mut enough: impl FnMut(&[Row]) -> bool) -> Vec<Row> {
    let (start, mut received) = (Instant::now(), Vec::new());
    while !enough(&received) {
        assert!(start.elapsed() < 6 * SOON, "only {} rows", received.len());
        received.extend(rows(&consumer.poll(Duration::from_millis(50)).await.unwrap()));
    }
    received
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_join_errors_back_off_and_recover() {
    let cases = [
        (0, ApiKey::JoinGroup, ErrorCode::ILLEGAL_GENERATION),
        (0, ApiKey::JoinGroup, ErrorCode::UNKNOWN_MEMBER_ID),
        (0, ApiKey::JoinGroup, ErrorCode::MEMBER_ID_REQUIRED),
        (0, ApiKey::JoinGroup, ErrorCode::REBALANCE_IN_PROGRESS),
        (0, ApiKey::SyncGroup, ErrorCode::UNKNOWN_MEMBER_ID),
        (0, ApiKey::SyncGroup, ErrorCode::REBALANCE_IN_PROGRESS),
        (0, ApiKey::SyncGroup, ErrorCode::NOT_COORDINATOR),
        (1, ApiKey::ConsumerGroupHeartbeat, ErrorCode::UNKNOWN_MEMBER_ID),
        (1, ApiKey::ConsumerGroupHeartbeat, ErrorCode::FENCED_MEMBER_EPOCH),
    ];
    for (protocol, api, code) in cases {
        let broker = broker(1, 1).await;
        produce(&broker, 1, 0, 10).await;
        broker.fail(api, None, &Fault::Error(code), None);
        let (protocol, joins) = PROTOCOLS[protocol];
        let member = member(&broker, protocol, &[]);
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(1500) {
            assert_eq!(member.poll(Duration::from_millis(50)).await.unwrap().num_rows(), 0, "{api:?} {code}");
        }
        // Retries are delayed by 50 ms, then by 100, 200, … ms. Two requests may be retried after each delay.
        assert!((2..30).contains(&count(&broker, joins)), "{api:?} {code}: {:?}", broker.requests());
        broker.clear_faults();
        assert_eq!(by_partition(&poll_until(&member, |received| received.len() >= 10).await), complete(1, 0, 10));
        member.close(SOON).await;
        broker.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn member_waits_for_a_broker_that_starts_later() {
    for (protocol, _) in PROTOCOLS {
        let broker = broker(1, 1).await;
        produce(&broker, 1, 0, 10).await;
        broker.stop_node(0).await.unwrap();
        let member = member(&broker, protocol, &[("request.timeout.ms", "300"), ("default.api.timeout.ms", "300")]);
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(1500) {
            assert_eq!(member.poll(Duration::from_millis(50)).await.unwrap().num_rows(), 0, "{protocol}");
        }
        broker.start_node(0).await.unwrap();
        assert_eq!(poll_until(&member, |received| received.len() >= 10).await.len(), 10, "{protocol}");
        member.close(SOON).await;
        broker.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_commit_on_revoke_blocks_neither_poll_nor_wakeup() {
    for (protocol, _) in PROTOCOLS {
        let broker = broker(1, 2).await;
        produce(&broker, 2, 0, 10).await;
        let member_a = member(&broker, protocol, &[("auto.commit.interval.ms", "600000")]);
        poll_until(&member_a, |received| received.len() >= 20).await;
        let slow = Duration::from_secs(5);
        broker.fail(ApiKey::OffsetCommit, None, &Fault::Delay(slow), None);
        let member_b = member(&broker, protocol, &[]);
        let other = tokio::spawn(async move {
            let mut received = Vec::new();
            for polls in 0.. {
                received.extend(rows(&member_b.poll(Duration::from_millis(50)).await.unwrap()));
                if polls >= 200 && member_b.assignment().len() == 1 {
                    break;
                }
            }
            (member_b, received)
        });
        // Polls are not blocked while the commit is pending.
        let start = Instant::now();
        let mut longest = Duration::ZERO;
        let mut woken = false;
        while member_a.assignment().len() == 2 {
            assert!(start.elapsed() < 6 * SOON, "{protocol}: nothing was revoked");
            if count(&broker, ApiKey::OffsetCommit) > 0 && !woken {
                member_a.wakeup();
                let polled = member_a.poll(SOON).await;
                assert_eq!(polled.unwrap_err(), Error::Wakeup, "{protocol}");
                woken = true;
            }
            let started_at = Instant::now();
            member_a.poll(Duration::from_millis(50)).await.unwrap();
            longest = longest.max(started_at.elapsed());
        }
        assert!(woken && longest < slow / 2, "{protocol}: a poll took {longest:?}");
        let start = Instant::now();
        let (member_b, received_again) = {
            let mut other = other;
            loop {
                assert!(start.elapsed() < 6 * SOON, "{protocol}: the revoked partition was not reassigned");
                tokio::select! {
                    output = &mut other => break output.unwrap(),
                    polled = member_a.poll(Duration::from_millis(50)) => assert_eq!(polled.unwrap().num_rows(), 0),
                }
            }
        };
        let kept = poll_until(&member_a, |_| member_a.assignment().len() == 1).await;
        assert_eq!((kept, received_again), (vec![], vec![]), "{protocol}: finished rows were returned again");
        assert!(broker.committed_offset("g", "t", member_b.assignment()[0].partition) == Some(10));
        broker.clear_faults();
        member_a.close(SOON).await;
        member_b.close(SOON).await;
        broker.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_commits_are_merged_and_complete_in_order() {
    let broker = broker(1, 2).await;
    let consumer = consumer(&broker, &[("group.id", "g")]);
    broker.fail(ApiKey::OffsetCommit, None, &Fault::Delay(Duration::from_secs(1)), None);
    let at = |offset| OffsetAndMetadata { offset, ..Default::default() };
    let mut ids = Vec::new();
    for i in 0..100 {
        ids.push(consumer.commit_async(Some(vec![(tp(i % 2), at(i64::from(i)))])).unwrap());
    }
    // The next commit contains a missing partition, which leads to an error for this commit only.
    let partly_failing = consumer.commit_async(Some(vec![(tp(0), at(100)), (tp(7), at(1))])).unwrap();
    consumer.commit(Some(vec![(tp(1), at(200))]), SOON).await.unwrap();
    let mut completed = consumer.take_completed();
    let last = completed.pop().unwrap();
    assert_eq!(completed.iter().map(|completed| completed.id).collect::<Vec<_>>(), ids);
    assert!(
        completed.iter().all(|completed| completed
            .outcome
            .as_ref()
            .unwrap()
            .iter()
            .all(|(_, outcome)| outcome.is_ok()))
    );
    assert_eq!(last.id, partly_failing);
    let outcomes = last.outcome.unwrap();
    assert_eq!(outcomes[0], (tp(0), Ok(())));
    assert_eq!(outcomes[1].1.as_ref().unwrap_err().name(), "UnknownTopicOrPartitionError");
    assert!(count(&broker, ApiKey::OffsetCommit) <= 4, "{:?}", broker.requests());
    assert_eq!([0, 1].map(|p| broker.committed_offset("g", "t", p)), [Some(100), Some(200)]);
    consumer.close(SOON).await;
    broker.shutdown().await;
}

/// Reads and commits every row, for at least `rounds` polls and until both members together have read all rows. Returns
/// the rows and the errors of failed commits.
async fn commit_each(member: &Consumer, rounds: usize, remaining: &AtomicUsize) -> (Vec<Row>, Vec<Error>) {
    let (mut received, mut failed, start) = (Vec::new(), Vec::new(), Instant::now());
    for round in 0.. {
        let finished = remaining.load(Ordering::Relaxed) == 0 && member.assignment().len() == 1;
        if round >= rounds && (finished || start.elapsed() > 6 * SOON) {
            break;
        }
        match member.next(Duration::from_millis(20)).await.unwrap() {
            Polled::Rows(polled) => {
                let new = polled.batch.as_ref().map(rows).unwrap_or_default();
                if !new.is_empty() {
                    match member.commit_async(None) {
                        Ok(_) => {}
                        // A commit may fail during a rebalance, in which case the next commit succeeds.
                        Err(error) if error.code() == Some(ErrorCode::REBALANCE_IN_PROGRESS.code()) => {}
                        Err(error) => failed.push(error),
                    }
                }
                let _ = remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |remaining| {
                    Some(remaining.saturating_sub(new.len()))
                });
                received.extend(new);
            }
            Polled::Rebalance(event) => member.acknowledge(&event),
            Polled::Committed => {
                failed.extend(member.take_completed().into_iter().filter_map(|completed| match completed.outcome {
                    Err(error) => Some(error),
                    Ok(outcomes) => outcomes.into_iter().find_map(|(_, outcome)| outcome.err()),
                }))
            }
        }
    }
    (received, failed)
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_commits_complete_before_partitions_are_revoked() {
    for (protocol, assignor) in [("classic", "range"), ("classic", "cooperative-sticky"), ("consumer", "")] {
        let broker = broker(1, 2).await;
        produce(&broker, 2, 0, 200).await;
        let mut more = vec![("enable.auto.commit", "false"), ("max.poll.records", "3")];
        if !assignor.is_empty() {
            more.push(("partition.assignment.strategy", assignor));
        }
        let member_a = member(&broker, protocol, &more);
        let mut received = poll_until(&member_a, |received| received.len() >= 6).await;
        broker.fail(ApiKey::OffsetCommit, None, &Fault::Delay(Duration::from_millis(400)), None);
        let member_b = member(&broker, protocol, &more);
        let remaining = AtomicUsize::new(400 - received.len());
        let (first, second) =
            tokio::join!(commit_each(&member_a, 600, &remaining), commit_each(&member_b, 600, &remaining));
        received.extend(first.0);
        received.extend(second.0);
        let failed: Vec<_> = first.1.iter().chain(&second.1).map(ToString::to_string).collect();
        assert_eq!(failed, Vec::<String>::new(), "{protocol} {assignor}");
        received.sort();
        assert_eq!(by_partition(&received), complete(2, 0, 200), "{protocol} {assignor}");
        assert_eq!((member_a.assignment().len(), member_b.assignment().len()), (1, 1));
        broker.clear_faults();
        member_a.close(SOON).await;
        member_b.close(SOON).await;
        broker.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_topic_does_not_block_other_commits() {
    for (protocol, _) in PROTOCOLS {
        let topics = [("t", 1), ("y", 1)].map(|(name, count)| (name.to_owned(), count)).to_vec();
        let broker = Broker::start(BrokerOptions { topics, auto_create_topics: false, ..Default::default() });
        let broker = broker.await.unwrap();
        produce(&broker, 1, 0, 10).await;
        let more = [("allow.auto.create.topics", "false"), ("auto.commit.interval.ms", "200")];
        let member = member(&broker, protocol, &more);
        member.subscribe(Subscription::topics(["t".to_owned(), "y".to_owned()]).unwrap()).unwrap();
        poll_until(&member, |received| received.len() >= 10 && member.assignment().len() == 2).await;
        let options = crate::consume_common::options(
            samsarrow_client::config::ClientKind::Admin,
            &broker.bootstrap_servers(),
            &[],
        );
        let admin = samsarrow_client::admin::Admin::new(&options).unwrap();
        admin.delete_topics(&["y".into()], SOON).await.unwrap().remove(0).1.unwrap();
        let start = Instant::now();
        produce(&broker, 1, 10, 10).await;
        let outcome = member.commit(None, 6 * SOON).await;
        assert!(start.elapsed() < SOON, "{protocol}: {:?}", start.elapsed());
        if let Err(error) = outcome {
            assert!(error.to_string().contains("y-0"), "{protocol}: {error}");
        }
        poll_until(&member, |received| received.len() >= 10).await;
        poll_until(&member, |_| broker.committed_offset("g", "t", 0) == Some(20)).await;
        assert!(start.elapsed() < 3 * SOON, "{protocol}: {:?}", start.elapsed());
        member.close(SOON).await;
        broker.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fenced_static_member_fails_every_call() {
    let broker = broker(1, 1).await;
    produce(&broker, 1, 0, 1).await;
    let member = member(&broker, "classic", &[("group.instance.id", "i"), ("enable.auto.commit", "false")]);
    poll_until(&member, |received| !received.is_empty()).await;
    broker.fail(ApiKey::Heartbeat, None, &Fault::Error(ErrorCode::FENCED_INSTANCE_ID), None);
    let start = Instant::now();
    let error = loop {
        assert!(start.elapsed() < SOON);
        if let Err(error) = member.poll(Duration::from_millis(50)).await {
            break error;
        }
    };
    for error in [error, member.commit(None, SOON).await.unwrap_err(), member.poll(SOON).await.unwrap_err()] {
        assert!(error.name() == "FencedInstanceIdError" && error.fatal(), "{error}");
    }
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_topic_name_is_raised_by_poll_and_others_are_read() {
    for (protocol, _) in PROTOCOLS {
        let broker = broker(1, 1).await;
        produce(&broker, 1, 0, 10).await;
        let member = member(&broker, protocol, &[]);
        for names in [&["a b"][..], &["t", "a/b", "a b"]] {
            member.subscribe(Subscription::topics(names.iter().map(|name| (*name).to_owned())).unwrap()).unwrap();
            let error = loop {
                match member.poll(SOON).await {
                    Ok(batch) => assert!(batch.num_rows() > 0, "{protocol}: no error in time"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.name(), "InvalidTopicError", "{protocol}: {error}");
            assert!(error.to_string().contains("\"a b\""), "{protocol}: {error}");
            assert_eq!(error.to_string().contains("\"a/b\""), names.len() > 1, "{protocol}: {error}");
        }
        produce(&broker, 1, 10, 1).await;
        // The invalid topic is reported only once, and the valid topic is still read.
        poll_until(&member, |received| received.iter().any(|row| row.1 == 10)).await;
        let requests = count(&broker, ApiKey::Metadata);
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert!(count(&broker, ApiKey::Metadata) <= requests + 1, "{protocol}: looked up repeatedly");
        // Topic names that the pattern does not match cause no error.
        member.subscribe(Subscription::pattern("t|a b").unwrap()).unwrap();
        produce(&broker, 1, 11, 1).await;
        poll_until(&member, |received| received.iter().any(|row| row.1 == 11)).await;
        member.close(SOON).await;
        broker.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn static_member_waits_for_the_session_of_its_killed_predecessor() {
    let broker = broker(1, 1).await;
    produce(&broker, 1, 0, 10).await;
    let own = [("group.instance.id", "i"), ("enable.auto.commit", "false")];
    broker.fail(ApiKey::ConsumerGroupHeartbeat, None, &Fault::Error(ErrorCode::UNRELEASED_INSTANCE_ID), None);
    let member = member(&broker, "consumer", &own);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1500) {
        assert_eq!(member.poll(Duration::from_millis(100)).await.unwrap().num_rows(), 0);
    }
    assert!((2..30).contains(&count(&broker, ApiKey::ConsumerGroupHeartbeat)), "{:?}", broker.requests());
    broker.clear_faults();
    assert_eq!(poll_until(&member, |received| received.len() >= 10).await.len(), 10);
    member.close(SOON).await;
    broker.shutdown().await;
}

/// Regression test: a static member whose first join had no response waited for the end of its own session, and failed
/// if it had waited for a predecessor before.
#[tokio::test(flavor = "multi_thread")]
async fn static_member_joins_again_after_a_lost_response() {
    let broker = broker(1, 1).await;
    produce(&broker, 1, 0, 10).await;
    broker.fail(ApiKey::ConsumerGroupHeartbeat, None, &Fault::DropAfter, Some(1));
    let member = member(&broker, "consumer", &[("group.instance.id", "i")]);
    let start = Instant::now();
    assert_eq!(poll_until(&member, |received| received.len() >= 10).await.len(), 10);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    member.close(SOON).await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_commit_needs_no_membership() {
    for (protocol, joins) in PROTOCOLS {
        let broker = broker(1, 1).await;
        let member = member(&broker, protocol, &[("enable.auto.commit", "false")]);
        // Nothing is committed before the member joins the group, or while it joins.
        member.commit(None, SOON).await.unwrap();
        broker.fail(joins, None, &Fault::Delay(Duration::from_millis(500)), Some(1));
        member.poll(Duration::ZERO).await.unwrap();
        for _ in 0..5 {
            member.commit(None, SOON).await.unwrap();
            let id = member.commit_async(None).unwrap();
            let start = Instant::now();
            let completed = loop {
                assert!(start.elapsed() < SOON);
                match member.take_completed().pop() {
                    Some(completed) => break completed,
                    None => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            };
            assert_eq!((completed.id, completed.outcome.map(|outcomes| outcomes.len())), (id, Ok(0)), "{protocol}");
            member.poll(Duration::from_millis(10)).await.unwrap();
        }
        assert_eq!(count(&broker, ApiKey::OffsetCommit), 0, "{protocol}");
        member.close(SOON).await;
        broker.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_before_joining_is_an_error() {
    let broker = broker(1, 1).await;
    let member = member(&broker, "classic", &[]);
    let offsets = || Some(vec![(tp(0), OffsetAndMetadata { offset: 5, ..Default::default() })]);
    let error = member.commit(offsets(), SOON).await.unwrap_err();
    assert!(error.to_string().contains("has not joined the group yet"), "{error}");
    // The error of a commit in the background is passed to its callback.
    let id = member.commit_async(offsets()).unwrap();
    let start = Instant::now();
    let completed = loop {
        assert!(start.elapsed() < SOON);
        match member.take_completed().pop() {
            Some(completed) => break completed,
            None => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    assert_eq!((completed.id, completed.outcome.unwrap_err()), (id, error));
    let long = OffsetAndMetadata { offset: 5, metadata: "x".repeat(40_000), ..Default::default() };
    let text = member.commit(Some(vec![(tp(0), long)]), SOON).await.unwrap_err().to_string();
    assert!(text.contains("t-0") && text.contains("40000 bytes"), "{text}");
    member.close(SOON).await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_epoch_commit_is_retried_and_is_the_cause_of_timeouts() {
    let broker = broker(1, 1).await;
    produce(&broker, 1, 0, 10).await;
    let member = member(&broker, "consumer", &[("enable.auto.commit", "false")]);
    poll_until(&member, |received| received.len() >= 10).await;
    broker.fail(ApiKey::OffsetCommit, None, &Fault::Error(ErrorCode::STALE_MEMBER_EPOCH), Some(2));
    member.commit(None, SOON).await.unwrap();
    broker.fail(ApiKey::OffsetCommit, None, &Fault::Error(ErrorCode::STALE_MEMBER_EPOCH), None);
    let limit = Duration::from_secs(2);
    member.commit_async(None).unwrap();
    let error = member.commit(None, limit).await.unwrap_err();
    assert!(error.to_string().contains("STALE_MEMBER_EPOCH"), "{error}");
    broker.clear_faults();
    member.commit(None, SOON).await.unwrap();
    member.close(SOON).await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rebalance_can_be_requested_with_a_reason() {
    let broker = broker(1, 1).await;
    produce(&broker, 1, 0, 1).await;
    let member = member(&broker, "classic", &[]);
    poll_until(&member, |received| !received.is_empty()).await;
    let reasons = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = std::sync::Arc::clone(&reasons);
    broker.on_request(ApiKey::JoinGroup, move |request| {
        if request.body.windows(13).any(|bytes| bytes == b"a new machine") {
            seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        None
    });
    let before = count(&broker, ApiKey::JoinGroup);
    member.enforce_rebalance("a new machine").unwrap();
    poll_until(&member, |_| count(&broker, ApiKey::JoinGroup) > before).await;
    poll_until(&member, |_| member.assignment().len() == 1).await;
    assert_eq!(reasons.load(std::sync::atomic::Ordering::Relaxed), 1);
    member.unsubscribe().unwrap();
    assert_eq!(member.enforce_rebalance("").unwrap_err().name(), "IllegalStateError");
    member.close(SOON).await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wakeup_interrupts_every_call_except_close() {
    let broker = broker(1, 1).await;
    let consumer = std::sync::Arc::new(consumer(&broker, &[("group.id", "g"), ("enable.auto.commit", "false")]));
    consumer.assign(&[tp(0)]).unwrap();
    consumer.position(&tp(0), SOON).await.unwrap();
    for api in [ApiKey::OffsetCommit, ApiKey::OffsetFetch, ApiKey::ListOffsets] {
        broker.fail(api, None, &Fault::Delay(SOON), None);
        let requests = count(&broker, api);
        let waiting = std::sync::Arc::clone(&consumer);
        let call = tokio::spawn(async move {
            let offset = OffsetAndMetadata { offset: 1, ..Default::default() };
            match api {
                ApiKey::OffsetCommit => waiting.commit(Some(vec![(tp(0), offset)]), 6 * SOON).await,
                ApiKey::OffsetFetch => waiting.committed(&[tp(0)], None, 6 * SOON).await.map(drop),
                _ => waiting.end_offsets(&[tp(0)], 6 * SOON).await.map(drop),
            }
        });
        while count(&broker, api) == requests {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let start = Instant::now();
        consumer.wakeup();
        assert_eq!(call.await.unwrap().unwrap_err(), Error::Wakeup, "{api:?}");
        assert!(start.elapsed() < SOON / 2, "{api:?}: {:?}", start.elapsed());
    }
    // The next call also fails if `wakeup` is called before it.
    consumer.wakeup();
    assert_eq!(consumer.end_offsets(&[tp(0)], SOON).await.unwrap_err(), Error::Wakeup);
    consumer.wakeup();
    let start = Instant::now();
    consumer.commit_finished(true, Duration::from_secs(1)).await;
    consumer.close(Duration::from_secs(1)).await;
    assert!(start.elapsed() < SOON / 2);
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn close_respects_its_timeout_with_an_unresponsive_coordinator() {
    for (protocol, leaves) in [("classic", ApiKey::LeaveGroup), ("consumer", ApiKey::ConsumerGroupHeartbeat)] {
        let broker = broker(1, 1).await;
        produce(&broker, 1, 0, 10).await;
        let member = member(&broker, protocol, &[("auto.commit.interval.ms", "600000")]);
        poll_until(&member, |received| received.len() >= 10).await;
        for api in [ApiKey::OffsetCommit, leaves] {
            broker.fail(api, None, &Fault::Delay(4 * SOON), None);
        }
        let (start, limit) = (Instant::now(), Duration::from_secs(4));
        let remaining = member.commit_finished(true, limit).await;
        assert!(!remaining.is_zero(), "{protocol}: nothing is left for LeaveGroup");
        member.close(remaining).await;
        assert!(start.elapsed() < limit + SOON / 2, "{protocol}: {:?}", start.elapsed());
        broker.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_partitions_are_read_and_committed_during_rebalances() {
    let broker = std::sync::Arc::new(broker(1, 4).await);
    produce(&broker, 4, 0, 1).await;
    // The second member detects the rebalance late, and the first member waits for it.
    let more = [("partition.assignment.strategy", "cooperative-sticky"), ("enable.auto.commit", "false")];
    let join = |heartbeat| {
        let own = [("group.id", "g"), ("session.timeout.ms", "40000"), ("heartbeat.interval.ms", heartbeat)];
        consumer(&broker, &[&own[..], &more].concat())
    };
    let topics = || Subscription::topics(["t".to_owned()]).unwrap();
    let members: Vec<_> = ["200", "8000", "200"].map(join).into_iter().collect();
    let [member_a, member_b, member_c] = members.as_slice() else { unreachable!() };
    member_a.subscribe(topics()).unwrap();
    member_b.subscribe(topics()).unwrap();
    let start = Instant::now();
    while member_a.assignment().len() != 2 || member_b.assignment().len() != 2 {
        assert!(start.elapsed() < 6 * SOON);
        member_a.poll(Duration::from_millis(20)).await.unwrap();
        member_b.poll(Duration::from_millis(20)).await.unwrap();
    }
    let going = std::sync::atomic::AtomicBool::new(true);
    let goes = || going.load(std::sync::atomic::Ordering::Relaxed);
    let writer = async {
        let mut next = 1;
        while goes() {
            produce(&broker, 4, next, 1).await;
            next += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // Measures the longest time without rows from those partitions that the first member owned all the time.
    let reader = async {
        let (mut kept, mut last, mut longest) = (member_a.assignment(), Instant::now(), Duration::ZERO);
        let mut rejected = 0;
        while goes() {
            let received = rows(&member_a.poll(Duration::from_millis(20)).await.unwrap());
            let owned = member_a.assignment();
            kept.retain(|tp| owned.contains(tp));
            if received.iter().any(|(partition, ..)| kept.contains(&tp(*partition))) {
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
            let offsets = received.iter().filter(|(partition, ..)| kept.contains(&tp(*partition)));
            let offset = |next| OffsetAndMetadata { offset: next, ..Default::default() };
            let offsets: std::collections::BTreeMap<_, _> =
                offsets.map(|(partition, at, _)| (tp(*partition), offset(at + 1))).collect();
            let offsets: Vec<_> = offsets.into_iter().collect();
            // Commits in the background succeed too, except in the moment in which the new generation exists but the
            // member has not entered it.
            member_a.commit_async(Some(offsets.clone())).unwrap();
            member_a.commit(Some(offsets), SOON).await.unwrap();
            rejected += member_a.take_completed().into_iter().filter(|completed| completed.outcome.is_err()).count();
        }
        assert!(rejected <= 10, "{rejected} commits in the background were rejected");
        (kept, longest.max(last.elapsed()))
    };
    let second = async {
        while goes() {
            member_b.poll(Duration::from_millis(20)).await.unwrap();
        }
    };
    let third = async {
        member_c.subscribe(topics()).unwrap();
        let start = Instant::now();
        while member_c.assignment().is_empty() || start.elapsed() < Duration::from_secs(12) {
            assert!(start.elapsed() < 6 * SOON);
            member_c.poll(Duration::from_millis(20)).await.unwrap();
        }
        member_c.close(SOON).await;
        tokio::time::sleep(Duration::from_secs(9)).await;
        going.store(false, std::sync::atomic::Ordering::Relaxed);
    };
    let ((kept, longest), (), (), ()) = tokio::join!(reader, writer, second, third);
    assert!(!kept.is_empty() && longest < Duration::from_secs(4), "{kept:?}: {longest:?}");
    member_a.close(SOON).await;
    member_b.close(SOON).await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topic_recreated_with_fewer_partitions_is_still_read() {
    for (protocol, _) in PROTOCOLS {
        let topics = vec![("t".to_owned(), 4)];
        let broker = Broker::start(BrokerOptions { topics, auto_create_topics: false, ..Default::default() });
        let broker = broker.await.unwrap();
        produce(&broker, 4, 0, 10).await;
        let more = [("metadata.max.age.ms", "300"), ("auto.commit.interval.ms", "200")];
        let member = member(&broker, protocol, &more);
        poll_until(&member, |received| received.len() >= 40).await;
        let kind = samsarrow_client::config::ClientKind::Admin;
        let options = crate::consume_common::options(kind, &broker.bootstrap_servers(), &[]);
        let admin = samsarrow_client::admin::Admin::new(&options).unwrap();
        admin.delete_topics(&["t".into()], SOON).await.unwrap().remove(0).1.unwrap();
        broker.create_topic("t", 2).unwrap();
        poll_until(&member, |_| member.assignment().len() == 2).await;
        produce(&broker, 2, 0, 100).await;
        let received = poll_until(&member, |received| {
            [0, 1].iter().all(|p| received.iter().any(|row| row.0 == *p && row.1 == 99))
        });
        assert!(received.await.len() <= 200, "{protocol}");
        member.close(SOON).await;
        broker.shutdown().await;
    }
}
