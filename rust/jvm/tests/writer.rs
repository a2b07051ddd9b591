//! Tests of writers against the embedded broker. Like Java, the tests fill the row buffers by address.

#![allow(unsafe_code, reason = "blocks are addresses")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should say where")]

use std::time::{Duration, Instant};

use samsarrow_broker::{Broker, BrokerOptions, Fault};
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::consumer::Consumer;
use samsarrow_client::types::TopicPartition;
use samsarrow_jvm::clients::Client;
use samsarrow_jvm::failure::Failure;
use samsarrow_jvm::writer::Writer;
use samsarrow_wire::messages::ApiKey;
use tokio::runtime::Runtime;

const SOON: Duration = Duration::from_secs(20);
const VALUE: &str = r#"{"ask":"write_task","columns":[["value","string"]]}"#;

/// Broker with the topic `t`. It has its own runtime, because writers block on theirs.
struct Cluster {
    runtime: Runtime,
    broker: Broker,
}

impl Cluster {
    fn new() -> Cluster {
        let runtime = Runtime::new().unwrap();
        let topics = vec![("t".to_owned(), 1)];
        let options = BrokerOptions { topics, auto_create_topics: false, ..Default::default() };
        let broker = runtime.block_on(Broker::start(options)).unwrap();
        Cluster { runtime, broker }
    }

    fn client(&self, topic: &str) -> Client {
        let servers = self.broker.bootstrap_servers();
        Client::new(&format!(
            r#"{{"options":{{"kafka.bootstrap.servers":"{servers}","topic":"{topic}","kafka.max.block.ms":"500"}},
                "folders":[],"token":null}}"#
        ))
        .unwrap()
    }

    /// Returns the number of records in the partition, from its end offset.
    fn count(&self) -> i64 {
        let options = [("bootstrap.servers".to_owned(), OptionValue::Str(self.broker.bootstrap_servers()))];
        let _inside = self.runtime.enter();
        let consumer = Consumer::new(&Options::parse(ClientKind::Consumer, options).unwrap()).unwrap();
        let ends = self.runtime.block_on(consumer.end_offsets(&[TopicPartition::new("t", 0)], SOON)).unwrap();
        self.runtime.block_on(consumer.close(SOON));
        ends[0].1
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.runtime.block_on(self.broker.shutdown());
    }
}

fn open(client: &Client) -> Writer {
    Writer::new(client.shared().clone(), VALUE).unwrap()
}

/// Writes one row for each value.
fn write(writer: &mut Writer, values: &[&str]) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for value in values {
        rows.extend((value.len() as i32).to_ne_bytes());
        rows.extend(value.as_bytes());
    }
    let block = writer.block(1024)?;
    assert!(rows.len() <= 1024);
    unsafe {
        let to = std::ptr::with_exposed_provenance_mut::<u8>(block);
        std::ptr::copy_nonoverlapping(rows.as_ptr(), to, rows.len());
    }
    writer.write(rows.len(), values.len())
}

fn wait(writer: &mut Writer, all: bool) -> Result<(), Failure> {
    let deadline = Instant::now() + SOON;
    while Instant::now() < deadline {
        if writer.sent(all, Duration::from_millis(50))? {
            return Ok(());
        }
    }
    panic!("not sent");
}

#[test]
fn sent_waits_until_rows_are_stored() {
    let cluster = Cluster::new();
    let client = cluster.client("t");
    // The second of these two consecutive tasks takes over the producer of the first.
    for stored in [3, 6] {
        let mut writer = open(&client);
        write(&mut writer, &["a", "b"]).unwrap();
        wait(&mut writer, false).unwrap();
        write(&mut writer, &["c"]).unwrap();
        wait(&mut writer, true).unwrap();
        assert_eq!(cluster.count(), stored);
        assert!(writer.sent(true, Duration::ZERO).unwrap(), "repeated calls return true");
        writer.close(true);
    }
    let mut none = open(&client);
    assert!(none.sent(true, Duration::ZERO).unwrap(), "without rows nothing is sent");
}

#[test]
fn rejects_invalid_blocks_and_requests() {
    let cluster = Cluster::new();
    let client = cluster.client("t");
    let mut writer = open(&client);
    let rejected = |outcome: Result<(), Failure>, text: &str| {
        let failure = outcome.unwrap_err();
        assert!(failure.text.contains(text), "{failure:?}");
    };
    rejected(writer.write(8, 1), "8 bytes of a smaller block");
    writer.block(16).unwrap();
    rejected(writer.write(17, 1), "17 bytes of a smaller block");
    rejected(writer.write(16, 1), "a block of 16 bytes that does not have 1 rows");
    rejected(writer.block(usize::MAX).map(|_| ()), "for rows cannot be allocated");
    write(&mut writer, &["a"]).unwrap();
    rejected(write(&mut writer, &["b"]), "before the previous ones were sent");
    rejected(
        Writer::new(client.shared().clone(), r#"{"ask":"schema"}"#).map(|_| ()),
        "a request other than write_task",
    );
    let nothing = r#"{"ask":"write_task","columns":[]}"#;
    rejected(Writer::new(client.shared().clone(), nothing).map(|_| ()), "there is no column value to be written");
}

#[test]
fn rejects_missing_topic() {
    let cluster = Cluster::new();
    let mut writer = open(&cluster.client("no-such-topic"));
    write(&mut writer, &["a"]).unwrap();
    let failure = wait(&mut writer, false).unwrap_err();
    assert_eq!(failure.name, "UnknownTopicOrPartitionError");
    assert!(
        failure.text.contains("topic no-such-topic does not exist, and the brokers do not create it"),
        "{failure:?}"
    );
}

#[test]
fn unresponsive_broker_does_not_block_sent() {
    let cluster = Cluster::new();
    let client = cluster.client("t");
    cluster.broker.fail(ApiKey::Produce, None, &Fault::Delay(Duration::from_secs(60)), None);
    let mut writer = open(&client);
    write(&mut writer, &["a"]).unwrap();
    wait(&mut writer, false).unwrap();
    let begun = Instant::now();
    assert!(!writer.sent(true, Duration::from_millis(50)).unwrap());
    writer.close(false);
    assert!(begun.elapsed() < SOON);
    assert!(writer.sent(true, Duration::ZERO).unwrap() && cluster.count() == 0);
}

/// Opens a writer for one attempt of a task of the micro-batch `number`.
fn attempt(client: &Client, number: u32) -> Writer {
    let task = format!(r#""query":"q","number":"{number}","task":0"#);
    let request = format!(r#"{{"ask":"write_task","columns":[["value","string"]],{task}}}"#);
    Writer::new(client.shared().clone(), &request).unwrap()
}

fn once(client: &Client, number: u32, values: &[&str]) -> Result<(), Failure> {
    let mut writer = attempt(client, number);
    if !values.is_empty() {
        write(&mut writer, values)?;
    }
    wait(&mut writer, true)?;
    writer.close(true);
    Ok(())
}

#[test]
fn micro_batch_is_written_once() {
    let cluster = Cluster::new();
    let servers = cluster.broker.bootstrap_servers();
    let client = |more: &str| {
        let options = format!(r#""kafka.bootstrap.servers":"{servers}","topic":"t","exactlyOnce":"true"{more}"#);
        Client::new(&format!(r#"{{"options":{{{options}}},"folders":[],"token":null}}"#)).unwrap()
    };
    let writer_client = client("");
    assert!(
        Writer::new(writer_client.shared().clone(), VALUE)
            .unwrap_err()
            .text
            .contains("no task for an exactly-once write")
    );
    once(&writer_client, 0, &[]).unwrap();
    assert_eq!(cluster.count(), 0, "without rows nothing is written");
    once(&writer_client, 0, &["a", "b"]).unwrap();
    // Two rows, and the commit marker of the transaction.
    assert_eq!(cluster.count(), 3);
    once(&writer_client, 0, &["b", "a"]).unwrap();
    let failure = once(&writer_client, 0, &["a", "c"]).unwrap_err();
    assert_eq!(failure.name, "ReplayMismatchError");
    assert!(failure.text.contains("The option allowReplayMismatch=0 continues anyway"), "{failure:?}");
    once(&client(r#","allowReplayMismatch":"0""#), 0, &["a", "c"]).unwrap();
    assert_eq!(cluster.count(), 3, "all rows were skipped");
    // If two attempts run concurrently, the later attempt writes the rows.
    let mut early = attempt(&writer_client, 1);
    write(&mut early, &["d"]).unwrap();
    wait(&mut early, false).unwrap();
    once(&writer_client, 1, &["d"]).unwrap();
    let failure = wait(&mut early, true).unwrap_err();
    assert!(["ProducerFencedError", "InvalidProducerEpochError"].contains(&&*failure.name), "{failure:?}");
    drop(early);
    let failure = once(&writer_client, 0, &["a", "b"]).unwrap_err();
    assert!(failure.text.contains("at micro-batch 0, but its task 0 has written micro-batch 1 already"), "{failure:?}");
}
