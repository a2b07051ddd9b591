//! Every option, once: name, other names, kind, default, meaning.

use super::ClientKind::{self, Admin, Consumer, Producer};

/// What values an option takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A comma-separated list.
    List,
    /// `true` or `false`.
    Bool,
    /// A whole number within bounds.
    Int(i64, i64),
    /// Milliseconds within bounds.
    Millis(i64, i64),
    /// One of some words.
    Choice(&'static [&'static str]),
}

/// One option.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    /// Kafka's name.
    pub name: &'static str,
    /// Other clients' names for it.
    pub aliases: &'static [&'static str],
    /// What values it takes.
    pub kind: Kind,
    /// The default as text; empty means none.
    pub default: &'static str,
    /// Who has it.
    pub clients: &'static [ClientKind],
    /// What it does, in a sentence or two.
    pub doc: &'static str,
}

const ALL: &[ClientKind] = &[Producer, Consumer, Admin];
const P: &[ClientKind] = &[Producer];
const C: &[ClientKind] = &[Consumer];
const CA: &[ClientKind] = &[Consumer, Admin];
const MAX: i64 = i32::MAX as i64;

macro_rules! options {
    ($($name:literal $([$($alias:literal),*])? $clients:ident $kind:expr, $default:literal, $doc:literal;)*) => {
        /// The table, in the order of the documentation.
        pub const OPTIONS: &[OptionSpec] = &[$(OptionSpec {
            name: $name, aliases: &[$($($alias),*)?], kind: $kind, default: $default, clients: $clients, doc: $doc,
        },)*];
    };
}

options! {
    "bootstrap.servers" ["metadata.broker.list"] ALL Kind::List, "",
        "Brokers to start from, `host:port` separated by commas. Required. One that answers is enough.";
    "client.dns.lookup" ALL Kind::Choice(&["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]), "use_all_dns_ips",
        "All addresses of a name are tried, one after the other. With `resolve_canonical_bootstrap_servers_only` each address of a bootstrap server counts as a server of its own (by number: no security protocol here looks at names).";
    "client.id" ALL Kind::Text, "samsarrow",
        "What the client calls itself in the broker's logs and quotas.";
    "client.rack" C Kind::Text, "",
        "The rack of the client, told to brokers in Fetch requests.";
    "security.protocol" ALL Kind::Choice(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]), "PLAINTEXT",
        "Only `PLAINTEXT` is available in this version.";
    "request.timeout.ms" ["socket.timeout.ms"] ALL Kind::Millis(1, MAX), "30000",
        "How long a broker has to answer one request; then the connection is given up and the request retried.";
    "default.api.timeout.ms" CA Kind::Millis(1, MAX), "60000",
        "How long a call that has no timeout of its own keeps trying.";
    "socket.connection.setup.timeout.ms" ALL Kind::Millis(1, MAX), "10000",
        "How long a connection has to be made, per address; doubles with each failure.";
    "socket.connection.setup.timeout.max.ms" ALL Kind::Millis(1, MAX), "30000",
        "The longest such time.";
    "connections.max.idle.ms" ALL Kind::Millis(0, MAX), "540000",
        "An idle connection is closed after this time; 0 keeps it.";
    "reconnect.backoff.ms" ALL Kind::Millis(0, MAX), "50",
        "The wait before a broker that could not be reached is tried again; doubles with each failure.";
    "reconnect.backoff.max.ms" ALL Kind::Millis(0, MAX), "1000",
        "The longest such wait.";
    "retry.backoff.ms" ALL Kind::Millis(0, MAX), "100",
        "The wait before a failed request is tried again; doubles with each failure.";
    "retry.backoff.max.ms" ALL Kind::Millis(0, MAX), "1000",
        "The longest such wait.";
    "metadata.max.age.ms" ["topic.metadata.refresh.interval.ms"] ALL Kind::Millis(1, MAX), "300000",
        "Metadata is asked for again after this time, even if nothing seems to have changed.";
    "metadata.max.idle.ms" ALL Kind::Millis(1, MAX), "300000",
        "Metadata of a topic that was not used for this time is dropped, and no longer asked for.";
    "metadata.recovery.strategy" ALL Kind::Choice(&["rebootstrap", "none"]), "rebootstrap",
        "What to do when the known brokers do not answer: `rebootstrap` asks the bootstrap servers as well, and forgets the known brokers if that goes on (KIP-899); `none` goes on asking the known ones only.";
    "metadata.recovery.rebootstrap.trigger.ms" ALL Kind::Millis(0, MAX), "300000",
        "How long metadata may fail to be refreshed before the known brokers are forgotten (KIP-1102).";
    "receive.buffer.bytes" ["socket.receive.buffer.bytes"] ALL Kind::Int(-1, MAX), "-1",
        "The socket's receive buffer; -1 leaves it to the operating system.";
    "send.buffer.bytes" ["socket.send.buffer.bytes"] ALL Kind::Int(-1, MAX), "-1",
        "The socket's send buffer; -1 leaves it to the operating system.";
    "receive.message.max.bytes" ALL Kind::Int(1000, MAX), "268435456",
        "The largest response that is accepted; a larger one breaks the connection.";

    "api.version.request" ALL Kind::Bool, "true",
        "Whether brokers are asked which versions they speak. If not, `broker.version.fallback` says it.";
    "broker.version.fallback" ALL Kind::Text, "",
        "The version of Kafka that a broker is spoken to as which cannot say what it speaks, for example `0.9.0`. Without it, such a broker (Kafka 0.8 and 0.9) is found out by what it answers.";

    "group.id" C Kind::Text, "",
        "The group whose offsets are committed and fetched.";
    "group.instance.id" C Kind::Text, "",
        "The name of a static member (KIP-345): a consumer that comes back under it within `session.timeout.ms` gets its partitions back without a rebalance.";
    "group.protocol" C Kind::Choice(&["classic", "consumer"]), "classic",
        "How the group shares partitions: `classic` lets a member assign, `consumer` the coordinator (KIP-848, Kafka 4.0 and later).";
    "group.remote.assignor" C Kind::Text, "",
        "The coordinator's assignor to use with `group.protocol=consumer`: `uniform` or `range`; without it the coordinator chooses.";
    "partition.assignment.strategy" C Kind::List, "range,cooperative-sticky",
        "Assignors in order of preference, for `group.protocol=classic`: `range`, `roundrobin`, `sticky`, `cooperative-sticky`; Java's class names are taken too.";
    "session.timeout.ms" C Kind::Millis(1, MAX), "45000",
        "How long the coordinator waits for a heartbeat before it takes a member for dead. With `group.protocol=consumer` the broker decides.";
    "heartbeat.interval.ms" C Kind::Millis(1, MAX), "3000",
        "How often a member tells the coordinator that it is alive, whatever the program is doing. With `group.protocol=consumer` the broker decides.";
    "max.poll.interval.ms" C Kind::Millis(1, MAX), "300000",
        "A member that does not call `poll` for so long leaves the group, so that others take its partitions; the next `poll` joins again. Also how long a rebalance waits for members.";
    "enable.auto.commit" C Kind::Bool, "true",
        "Whether `poll`, rebalances and `close` commit what the program has finished: the rows of every `poll` but the last. Without `group.id` nothing is committed.";
    "auto.commit.interval.ms" C Kind::Millis(0, MAX), "5000",
        "How often `poll` commits with `enable.auto.commit`.";
    "enable.auto.offset.store" C Kind::Bool, "true",
        "Whether rows count as finished at the next `poll`. If not, only what is given to `store_offsets` is committed without being named.";
    "exclude.internal.topics" C Kind::Bool, "true",
        "Whether a subscribed pattern leaves Kafka's own topics out.";
    "auto.offset.reset" C Kind::Text, "latest",
        "Where to start without a committed offset, or when the offset is gone: `latest` at the end, `earliest` at the beginning, `none` not at all (an error), `by_duration:PT24H` at the first record not older than an ISO 8601 duration (KIP-1106).";
    "isolation.level" C Kind::Choice(&["read_uncommitted", "read_committed"]), "read_uncommitted",
        "Whether records of open and aborted transactions are read.";
    "fetch.min.bytes" C Kind::Int(0, MAX), "1",
        "A broker answers a fetch when it has so many bytes, or after `fetch.max.wait.ms`.";
    "fetch.max.wait.ms" ["fetch.wait.max.ms"] C Kind::Millis(0, MAX), "500",
        "The longest that a broker waits for `fetch.min.bytes`.";
    "fetch.max.bytes" C Kind::Int(0, MAX), "52428800",
        "The most that one fetch answer should hold; a single larger batch still arrives (KIP-74).";
    "max.partition.fetch.bytes" ["fetch.message.max.bytes"] C Kind::Int(1, MAX), "16777216",
        "The most of one partition in a fetch answer; a single larger batch still arrives (KIP-74). (The Java default is 1 MiB; answers are decoded as they arrive, so a large one takes no more memory at a time.)";
    "queued.max.bytes" C Kind::Int(1, i64::MAX), "67108864",
        "The most fetched bytes that wait for `poll`, over all partitions: of records as they are once decompressed.";
    "max.poll.records" C Kind::Int(1, MAX), "65536",
        "The most rows in one batch from `poll`. (The Java default is 500; a batch here is columns, not objects.)";
    "check.crcs" C Kind::Bool, "true",
        "Whether the CRC of every batch is checked.";
    "max.decompressed.bytes" C Kind::Int(1, MAX), "268435456",
        "The most that one compressed batch may expand to; more is an error.";
    "max.decompressed.ratio" C Kind::Int(0, MAX), "2000",
        "The most that each byte of a compressed batch may expand to, where the batch expands to more than 64 MiB; more is an error, 0 allows any. gzip, lz4 and snappy cannot reach the default.";
    "layout" C Kind::Choice(&["binary", "view"]), "binary",
        "How keys and values lie in memory: `binary` is a copy, `view` points into the fetched bytes (pyarrow's `filter`, `take` and `sort` refuse views).";
    "include.headers" C Kind::Bool, "false",
        "Whether batches have the column `headers`.";
    "include.leader.epoch" C Kind::Bool, "false",
        "Whether batches have the column `leader_epoch`.";
    "allow.auto.create.topics" C Kind::Bool, "true",
        "Whether asking for a topic that does not exist may create it, if the broker allows that.";

    "acks" ["request.required.acks"] P Kind::Choice(&["all", "-1", "0", "1"]), "all",
        "Who must have a record before it counts as sent: all in-sync replicas, nobody, or the leader.";
    "enable.idempotence" P Kind::Bool, "true",
        "Whether retries can neither duplicate nor reorder records (KIP-98). Off by itself where `acks` is not `all`, and with brokers before Kafka 0.11 (with a warning), unless asked for.";
    "transactional.id" P Kind::Text, "",
        "The name of a producer that writes in transactions (KIP-98): whoever comes later under the same name fences it. Implies `enable.idempotence` and `acks=all`.";
    "transaction.timeout.ms" P Kind::Millis(1, MAX), "60000",
        "How long a transaction may stay open before the coordinator aborts it; at most the broker's `transaction.max.timeout.ms`.";
    "linger.ms" ["queue.buffering.max.ms"] P Kind::Millis(0, MAX), "5",
        "How long a record waits for others to share its batch.";
    "batch.size" P Kind::Int(0, MAX), "16384",
        "How large a batch of single records grows, in bytes before compression.";
    "buffer.memory" P Kind::Int(1, i64::MAX), "33554432",
        "How many bytes may wait to be sent; then `send` waits.";
    "max.block.ms" P Kind::Millis(0, MAX), "60000",
        "How long `send` waits for memory or for a topic's metadata.";
    "max.request.size" ["message.max.bytes"] P Kind::Int(1, MAX), "1048576",
        "The largest record and the largest request, in bytes.";
    "max.in.flight.requests.per.connection" ["max.in.flight"] P Kind::Int(1, 1000), "5",
        "How many requests may wait for an answer on one connection; at most 5 with idempotence.";
    "compression.type" ["compression.codec"] P Kind::Choice(&["none", "gzip", "snappy", "lz4", "zstd"]), "none",
        "The codec of batches.";
    "compression.gzip.level" P Kind::Int(-1, 9), "-1",
        "1 to 9; -1 is the codec's own default.";
    "compression.lz4.level" P Kind::Int(1, 17), "9",
        "Accepted for compatibility: one level is available, the fast one.";
    "compression.zstd.level" P Kind::Int(-131072, 22), "3",
        "-131072 to 22.";
    "message.format.version" P Kind::Text, "",
        "The newest message format to write, by a version of Kafka that had it: `0.9.0` (also `v0`: no timestamps), `0.10.2` (`v1`), `0.11.0` (`v2`: headers, zstd, idempotence, transactions). Without it the newest that the broker takes.";
    "partitioner" P Kind::Choice(&["murmur2", "murmur2_random", "round_robin", "consistent", "consistent_random", "fnv1a", "fnv1a_random"]), "murmur2",
        "How a record without a partition gets one. `murmur2` is the Java client's: keys by their hash, records without a key to one partition after another, a batch each. `round_robin`: every record to the next partition, whatever its key. `consistent` and `consistent_random` (CRC-32), `fnv1a` and `fnv1a_random` are librdkafka's: without `_random`, records without a key share one partition. `murmur2_random` is another name of `murmur2`. In Python also a function, see `Producer`.";
    "partitioner.ignore.keys" P Kind::Bool, "false",
        "Whether keys choose no partition: all records go where those without a key go (KIP-794).";
    "partitioner.adaptive.partitioning.enable" P Kind::Bool, "true",
        "Whether records without a key go more often to partitions that have less waiting to be sent (KIP-794).";
    "partitioner.availability.timeout.ms" P Kind::Millis(0, MAX), "0",
        "Records without a key avoid the partitions of a broker that has taken nothing for so long although something waits for it (KIP-794); 0 for never.";
    "retries" ["message.send.max.retries"] P Kind::Int(0, MAX), "2147483647",
        "How often a batch is sent again, within `delivery.timeout.ms`.";
    "delivery.timeout.ms" ["message.timeout.ms"] P Kind::Millis(1, MAX), "120000",
        "When a record that is not delivered fails, counted from `send`.";
}

/// Options of Kafka's that this version does not have; better refused than ignored.
pub(super) const NOT_YET: &[&str] = &[
    "enable.metrics.push",
    "enable.partition.eof",
    "interceptor.classes",
    "key.deserializer",
    "key.serializer",
    "metric.reporters",
    "metrics.num.samples",
    "partitioner.class",
    "queued.max.messages.kbytes",
    "schema.registry.url",
    "statistics.interval.ms",
    "value.deserializer",
    "value.serializer",
];

/// The same for whole families of options.
pub(super) const NOT_YET_FAMILIES: &[&str] = &["sasl.", "ssl."];
