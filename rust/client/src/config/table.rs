//! Table of all options: name, aliases, type, default, description.

use super::ClientKind::{self, Admin, Consumer, Producer};

/// Type of an option's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A comma-separated list.
    List,
    /// `true` or `false`.
    Bool,
    /// An integer within bounds.
    Int(i64, i64),
    /// Milliseconds within bounds.
    Millis(i64, i64),
    /// Seconds within bounds.
    Seconds(i64, i64),
    /// A number within bounds.
    Float(f64, f64),
    /// One of the listed words.
    Choice(&'static [&'static str]),
    /// A file or directory.
    Path,
    /// Secret text, hidden in all output.
    Secret,
}

/// One option.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    /// Kafka's name.
    pub name: &'static str,
    /// Names of the option in other clients.
    pub aliases: &'static [&'static str],
    /// Type of its values.
    pub kind: Kind,
    /// Default as text; empty for none.
    pub default: &'static str,
    /// Clients that have the option.
    pub clients: &'static [ClientKind],
    /// Description in one or two sentences.
    pub doc: &'static str,
}

const ALL: &[ClientKind] = &[Producer, Consumer, Admin];
const P: &[ClientKind] = &[Producer];
const C: &[ClientKind] = &[Consumer];
const A: &[ClientKind] = &[Admin];
const PC: &[ClientKind] = &[Producer, Consumer];
const CA: &[ClientKind] = &[Consumer, Admin];
const MAX: i64 = i32::MAX as i64;

macro_rules! options {
    ($($name:literal $([$($alias:literal),*])? $clients:ident $kind:expr, $default:literal, $doc:literal;)*) => {
        /// All options, in the order of the documentation.
        pub const OPTIONS: &[OptionSpec] = &[$(OptionSpec {
            name: $name, aliases: &[$($($alias),*)?], kind: $kind, default: $default, clients: $clients, doc: $doc,
        },)*];
    };
}

options! {
    "bootstrap.servers" ["metadata.broker.list"] ALL Kind::List, "",
        "Brokers to start from, `host:port` separated by commas. Required, unless an admin client has `bootstrap.controllers`. One that responds is enough.";
    "bootstrap.controllers" A Kind::List, "",
        "Controllers to start from instead of `bootstrap.servers` (KIP-919, Kafka 3.7): for settings, ACLs, features, reassignments and the quorum, also when no broker runs. Requests that controllers do not support raise `UnsupportedEndpointTypeError`.";
    "bootstrap.resolve.timeout.ms" ALL Kind::Millis(0, MAX), "0",
        "How long the names in `bootstrap.servers` may remain unresolvable from the first call on (KIP-909, Kafka 4.4). Until then calls repeat the lookup, also beyond one call; after it this client raises `BootstrapResolutionError` from every call. 0: each call repeats the lookup until its own timeout. (In Java, 0 resolves the names in the constructor, and fails at once; here no constructor does.)";
    "client.dns.lookup" ALL Kind::Choice(&["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]), "use_all_dns_ips",
        "Tries every address of a name in turn. With `resolve_canonical_bootstrap_servers_only` each address of a bootstrap server counts as a server of its own (by number, which certificates and Kerberos principals of brokers seldom have: not for those).";
    "client.id" ALL Kind::Text, "samsarrow",
        "The client's name in broker logs and quotas.";
    "client.rack" PC Kind::Text, "",
        "The client's rack. Consumers send it in Fetch requests, so that brokers can name a closer replica (KIP-392); producers use it with `partitioner.rack.aware`.";
    "config.providers" ALL Kind::List, "",
        "Sources for option values (KIP-297): any of `env`, `file` and `directory`. With them, `${env:NAME}` stands for an environment variable, `${file:/path:key}` for a value in a properties file, `${directory:/path:name}` for the text of a file, in any option. Do not accept options from users who may not read what this process can read (CVE-2024-31141).";
    "security.protocol" ALL Kind::Choice(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]), "PLAINTEXT",
        "Whether connections use TLS, and whether clients log in (SASL).";
    "ssl.truststore.location" ["ssl.ca.location", "ssl.cafile"] ALL Kind::Path, "",
        "The certificate authorities to trust: a file (PEM, PKCS12 or JKS, detected by its first bytes), a folder of PEM files, or `probe` for the system's. If not set, the system's are trusted.";
    "ssl.truststore.certificates" ["ssl.ca.pem", "ssl.cadata"] ALL Kind::Text, "",
        "The same certificates as PEM text.";
    "ssl.truststore.password" ALL Kind::Secret, "",
        "The password of `ssl.truststore.location`.";
    "ssl.truststore.type" ALL Kind::Choice(&["JKS", "PKCS12", "PEM"]), "",
        "The type of that store. It is detected by its first bytes; a type that contradicts them is an error, except PKCS12 given as JKS, which Java accepts too.";
    "ssl.keystore.location" ALL Kind::Path, "",
        "The client's certificate and private key in one file (PEM, PKCS12 or JKS), for brokers that require client certificates.";
    "ssl.keystore.certificate.chain" ["ssl.certificate.pem"] ALL Kind::Text, "",
        "The client's certificate chain as PEM text.";
    "ssl.keystore.key" ["ssl.key.pem"] ALL Kind::Secret, "",
        "The client's private key as PEM text (PKCS8, optionally encrypted).";
    "ssl.keystore.password" ALL Kind::Secret, "",
        "The password of `ssl.keystore.location`.";
    "ssl.keystore.type" ALL Kind::Choice(&["JKS", "PKCS12", "PEM"]), "",
        "The type of that store, as `ssl.truststore.type`.";
    "ssl.certificate.location" ["ssl.certfile"] ALL Kind::Path, "",
        "A PEM file with the client's certificate chain.";
    "ssl.key.location" ["ssl.keyfile"] ALL Kind::Path, "",
        "A PEM file with the client's private key.";
    "ssl.key.password" ["ssl.password"] ALL Kind::Secret, "",
        "The password of an encrypted private key.";
    "ssl.endpoint.identification.algorithm" ALL Kind::Text, "https",
        "With `https`, a broker's certificate must name the host that the client connects to. Empty or `none` disables the check: anyone with a certificate from the same authority can then impersonate a broker.";
    "ssl.check.hostname" ALL Kind::Bool, "true",
        "kafka-python's name for the same.";
    "enable.ssl.certificate.verification" ALL Kind::Bool, "true",
        "`false` accepts any certificate, which protects against nothing; each client that does so logs a warning.";
    "ssl.enabled.protocols" ALL Kind::List, "TLSv1.2,TLSv1.3",
        "The TLS versions to allow.";
    "ssl.cipher.suites" ["ssl.ciphers"] ALL Kind::List, "",
        "Cipher suites, by IANA or OpenSSL name. If not set, all of TLS 1.3 and those of TLS 1.2 with forward secrecy and authenticated encryption.";
    "ssl.curves.list" ALL Kind::List, "",
        "Key exchange groups, for example `X25519:P-256`. If not set, the post-quantum X25519MLKEM768 is offered as well.";
    "ssl.crl.location" ["ssl.crlfile"] ALL Kind::Path, "",
        "A PEM file with certificate revocation lists.";
    "sasl.mechanism" ["sasl.mechanisms"] ALL Kind::Choice(&["GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"]), "GSSAPI",
        "The login mechanism. The client never falls back to another.";
    "sasl.username" ["sasl.plain.username"] ALL Kind::Text, "",
        "The user's name, for PLAIN and SCRAM.";
    "sasl.password" ["sasl.plain.password"] ALL Kind::Secret, "",
        "The user's password, for PLAIN and SCRAM.";
    "sasl.jaas.config" ALL Kind::Secret, "",
        "Java's form of user name, password and other login settings. The entry is parsed, never loaded as a class. A setting in it may not be set by another option as well.";
    "sasl.login.callback.handler.class" ALL Kind::Text, "",
        "Java's. Kafka's own handlers and that of AWS MSK IAM map to options of this client; any other is an error.";
    "sasl.client.callback.handler.class" ALL Kind::Text, "",
        "The same.";
    "sasl.kerberos.service.name" ALL Kind::Text, "kafka",
        "The Kerberos service name of the brokers.";
    "sasl.kerberos.domain.name" ALL Kind::Text, "",
        "The host in the brokers' Kerberos principals, if it differs from the host that the client connects to.";
    "sasl.kerberos.principal" ["sasl.kerberos.name"] ALL Kind::Text, "",
        "The client's Kerberos principal.";
    "sasl.kerberos.keytab" ALL Kind::Path, "",
        "The keytab of that principal. If not set, the user's ticket cache is used.";
    "sasl.kerberos.kinit.cmd" ALL Kind::Text, "",
        "Java's; ignored. The Kerberos library fetches tickets.";
    "sasl.kerberos.ticket.renew.window.factor" ALL Kind::Float(0.0, 1.0), "0.8",
        "The share of a ticket's lifetime after which it is renewed.";
    "sasl.kerberos.ticket.renew.jitter" ALL Kind::Float(0.0, 0.25), "0.05",
        "Random jitter added to that time, as a share of the lifetime.";
    "sasl.kerberos.min.time.before.relogin" ALL Kind::Millis(0, MAX), "60000",
        "The minimum time between two renewals.";
    "sasl.login.refresh.window.factor" ALL Kind::Float(0.5, 1.0), "0.8",
        "The share of a token's lifetime after which it is refreshed.";
    "sasl.login.refresh.window.jitter" ALL Kind::Float(0.0, 0.25), "0.05",
        "Random jitter added to that time, as a share of the lifetime.";
    "sasl.login.refresh.min.period.seconds" ALL Kind::Seconds(0, 900), "60",
        "The minimum time between two refreshes.";
    "sasl.login.refresh.buffer.seconds" ALL Kind::Seconds(0, 3600), "300",
        "How long before its expiry a token is refreshed.";
    "sasl.login.connect.timeout.ms" ALL Kind::Millis(1, MAX), "10000",
        "The timeout for connecting to the token endpoint.";
    "sasl.login.read.timeout.ms" ALL Kind::Millis(1, MAX), "10000",
        "The timeout for a response of the token endpoint.";
    "sasl.login.retry.backoff.ms" ALL Kind::Millis(0, MAX), "100",
        "The wait before a failed token request is retried; doubles with each failure.";
    "sasl.login.retry.backoff.max.ms" ALL Kind::Millis(0, MAX), "10000",
        "The longest such wait.";
    "sasl.oauthbearer.method" ALL Kind::Choice(&["default", "oidc"]), "",
        "librdkafka's: `oidc` fetches tokens from `sasl.oauthbearer.token.endpoint.url`, which is the default if that option is set.";
    "sasl.oauthbearer.token.endpoint.url" ALL Kind::Text, "",
        "The token endpoint: an `https:` URL, an `http:` URL on this machine only, or `file:` for a file that holds the token.";
    "sasl.oauthbearer.grant.type" ALL Kind::Choice(&["client_credentials", "jwt-bearer", "urn:ietf:params:oauth:grant-type:jwt-bearer"]), "",
        "The OAuth grant: client credentials (a secret, or a signed assertion in its place) or an assertion alone (RFC 7523).";
    "sasl.oauthbearer.client.credentials.client.id" ["sasl.oauthbearer.client.id"] ALL Kind::Text, "",
        "The client id at the token issuer.";
    "sasl.oauthbearer.client.credentials.client.secret" ["sasl.oauthbearer.client.secret"] ALL Kind::Secret, "",
        "The client secret at the token issuer.";
    "sasl.oauthbearer.scope" ALL Kind::Text, "",
        "The scope to request.";
    "sasl.oauthbearer.token.provider" ["oauth.cb", "sasl.oauth.token.provider"] ALL Kind::Text, "",
        "A Python function, plain or `async`, that returns tokens, or `module:function`, which other processes can import. See `samsarrow.TokenProvider`.";
    "sasl.oauthbearer.extensions" ALL Kind::Text, "",
        "SASL extensions sent with the token (KIP-342): `name=value`, separated by commas.";
    "sasl.oauthbearer.config" ALL Kind::Secret, "",
        "librdkafka's, for unsecured tokens: `principal=admin scope=read lifeSeconds=3600 extension_name=value`.";
    "enable.sasl.oauthbearer.unsecure.jwt" ALL Kind::Bool, "false",
        "Whether the client makes unsigned tokens itself, which only test brokers accept.";
    "sasl.oauthbearer.header.urlencode" ALL Kind::Bool, "false",
        "Whether client id and secret are URL-encoded before they are sent, as RFC 6749 says and some issuers require.";
    "sasl.oauthbearer.scope.claim.name" ALL Kind::Text, "scope",
        "The token's claim for the scope.";
    "sasl.oauthbearer.sub.claim.name" ALL Kind::Text, "sub",
        "The token's claim for the principal.";
    "sasl.oauthbearer.assertion.algorithm" ALL Kind::Choice(&["RS256", "ES256"]), "RS256",
        "The signature algorithm of assertions.";
    "sasl.oauthbearer.assertion.private.key.file" ALL Kind::Path, "",
        "A PEM file with the key that signs assertions.";
    "sasl.oauthbearer.assertion.private.key.pem" ALL Kind::Secret, "",
        "That key as PEM text.";
    "sasl.oauthbearer.assertion.private.key.passphrase" ALL Kind::Secret, "",
        "The passphrase of that key.";
    "sasl.oauthbearer.assertion.file" ALL Kind::Path, "",
        "A file with an assertion that is signed and renewed outside of this client.";
    "sasl.oauthbearer.assertion.template.file" ["sasl.oauthbearer.assertion.jwt.template.file"] ALL Kind::Path, "",
        "A JSON file with the `header` and `payload` of assertions.";
    "sasl.oauthbearer.assertion.claim.aud" ALL Kind::Text, "",
        "The audience claim of assertions.";
    "sasl.oauthbearer.assertion.claim.iss" ALL Kind::Text, "",
        "The issuer claim of assertions.";
    "sasl.oauthbearer.assertion.claim.sub" ALL Kind::Text, "",
        "The subject claim of assertions.";
    "sasl.oauthbearer.assertion.claim.exp.seconds" ALL Kind::Seconds(0, 86400), "300",
        "How long assertions are valid.";
    "sasl.oauthbearer.assertion.claim.nbf.seconds" ALL Kind::Seconds(0, 3600), "60",
        "How far in the past assertions begin to be valid, to allow for clock skew.";
    "sasl.oauthbearer.assertion.claim.jti.include" ["sasl.oauthbearer.assertion.jti.include"] ALL Kind::Bool, "false",
        "Whether each assertion has a unique id.";
    "https.ca.location" ["sasl.oauthbearer.https.ca.location"] ALL Kind::Path, "",
        "The certificate authorities to trust for the token endpoint: a PEM file or a folder of them. If not set, those of `ssl.truststore.location`, else the system's.";
    "https.ca.pem" ["sasl.oauthbearer.https.ca.pem"] ALL Kind::Text, "",
        "Those authorities as PEM text.";
    "request.timeout.ms" ["socket.timeout.ms"] ALL Kind::Millis(1, MAX), "30000",
        "How long to wait for the response to a request. After that the connection is closed and the request retried.";
    "default.api.timeout.ms" CA Kind::Millis(1, MAX), "60000",
        "The timeout of calls without the argument `timeout`.";
    "socket.connection.setup.timeout.ms" ALL Kind::Millis(1, MAX), "10000",
        "How long to wait for a connection, per address; doubles with each failure.";
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
        "How often metadata is refreshed even if nothing seems to have changed.";
    "metadata.max.idle.ms" ALL Kind::Millis(1, MAX), "300000",
        "A topic that was not used for this time is dropped from the metadata.";
    "metadata.recovery.strategy" ALL Kind::Choice(&["rebootstrap", "none"]), "rebootstrap",
        "What to do when the known brokers do not respond: `rebootstrap` tries the bootstrap servers as well, and drops the known brokers if that continues (KIP-899); `none` keeps trying only the known ones.";
    "metadata.recovery.rebootstrap.trigger.ms" ALL Kind::Millis(0, MAX), "300000",
        "How long metadata refreshes may fail before the known brokers are dropped (KIP-1102).";
    "metadata.cluster.check.enable" ALL Kind::Bool, "true",
        "Sends the cluster and the broker that a connection is meant for, so that brokers since Kafka 4.4 reject one that was routed to another broker (KIP-1242). The client then fetches the metadata again, at first from the bootstrap servers if no checked connection is open. Without effect on older brokers, and with `metadata.recovery.strategy=none`. Set it to false if one address stands for several brokers.";
    "receive.buffer.bytes" ["socket.receive.buffer.bytes"] ALL Kind::Int(-1, MAX), "-1",
        "The socket's receive buffer; -1 leaves it to the operating system.";
    "send.buffer.bytes" ["socket.send.buffer.bytes"] ALL Kind::Int(-1, MAX), "-1",
        "The socket's send buffer; -1 leaves it to the operating system.";
    "receive.message.max.bytes" ALL Kind::Int(1000, MAX), "268435456",
        "The largest response that is accepted; a larger one breaks the connection. `fetch.max.bytes` counts as 90% of it at most.";
    "enable.metrics.push" ALL Kind::Bool, "",
        "Whether to push client metrics to brokers that subscribe to them (KIP-714). As in Java, producers and consumers push unless this is `false`, admin clients only if it is `true`. Brokers before Kafka 3.7, and those without a plugin for it, never subscribe.";
    "metrics.num.samples" ALL Kind::Int(1, 100), "2",
        "The number of time windows over which rates, averages and extremes are computed.";
    "metrics.sample.window.ms" ALL Kind::Millis(1, MAX), "30000",
        "The length of each window.";
    "metrics.recording.level" ALL Kind::Choice(&["INFO", "DEBUG", "TRACE"]), "INFO",
        "With `DEBUG` or `TRACE`, a consumer's end-to-end latency is measured per row instead of per batch.";

    "api.version.request" ALL Kind::Bool, "true",
        "Whether to request the supported API versions from brokers. If not, `broker.version.fallback` determines them.";
    "broker.version.fallback" ALL Kind::Text, "",
        "The Kafka version to assume for brokers that cannot report their API versions, for example `0.9.0`. If not set, the version of such a broker (Kafka 0.8 and 0.9) is detected from its responses.";

    "group.id" C Kind::Text, "",
        "The group whose offsets are committed and fetched.";
    "group.instance.id" C Kind::Text, "",
        "The id of a static member (KIP-345): a consumer that returns under it within `session.timeout.ms` keeps its partitions without a rebalance. With `group.protocol=consumer`, one that was killed waits for the end of its session on the broker before it joins again.";
    "group.protocol" C Kind::Choice(&["classic", "consumer"]), "classic",
        "The rebalance protocol: in `classic` a member assigns partitions, in `consumer` the coordinator does (KIP-848, Kafka 4.0 and later).";
    "group.remote.assignor" C Kind::Text, "",
        "The coordinator's assignor to use with `group.protocol=consumer`: `uniform` or `range`; if not set, the coordinator chooses.";
    "partition.assignment.strategy" C Kind::List, "range,cooperative-sticky",
        "Assignors in order of preference, for `group.protocol=classic`: `range`, `roundrobin`, `sticky`, `cooperative-sticky`; Java's class names are accepted too.";
    "session.timeout.ms" C Kind::Millis(1, MAX), "45000",
        "How long the coordinator waits for a heartbeat before it considers a member dead. With `group.protocol=consumer` it is set on the broker.";
    "heartbeat.interval.ms" C Kind::Millis(1, MAX), "3000",
        "How often a member sends a heartbeat to the coordinator, in the background. With `group.protocol=consumer` it is set on the broker.";
    "max.poll.interval.ms" C Kind::Millis(1, MAX), "300000",
        "A member that does not call `poll` for this long leaves the group, and others take its partitions; the next `poll` joins again. Also how long a rebalance waits for members.";
    "enable.auto.commit" C Kind::Bool, "true",
        "Whether `poll`, rebalances and `close` commit what the program has processed: a `poll` means that the rows of earlier polls are, `close` that all rows are. Without `group.id` nothing is committed.";
    "auto.commit.interval.ms" C Kind::Millis(0, MAX), "5000",
        "How often `poll` commits with `enable.auto.commit`.";
    "enable.auto.offset.store" C Kind::Bool, "true",
        "Whether the next `poll` marks rows as processed. If not, automatic commits cover only the offsets passed to `store_offsets`.";
    "exclude.internal.topics" C Kind::Bool, "true",
        "Whether pattern subscriptions exclude Kafka's internal topics.";
    "auto.offset.reset" C Kind::Text, "latest",
        "Where to start without a committed offset, or if that offset no longer exists: `latest` at the end, `earliest` at the beginning, `none` not at all (an error; librdkafka's `smallest`, `beginning`, `largest`, `end` and `error` are accepted, too), `by_duration:PT24H` at the first record not older than an ISO 8601 duration (KIP-1106). With `latest`, records are skipped that are written to a new partition before the consumer notices it: `by_duration:PT1H` reads them.";
    "isolation.level" C Kind::Choice(&["read_uncommitted", "read_committed"]), "read_uncommitted",
        "Whether records of open and aborted transactions are read.";
    "fetch.min.bytes" C Kind::Int(0, MAX), "1",
        "The minimum amount of data for which a broker responds to a fetch before `fetch.max.wait.ms` has passed.";
    "fetch.max.wait.ms" ["fetch.wait.max.ms"] C Kind::Millis(0, MAX), "500",
        "The longest that a broker waits for `fetch.min.bytes`.";
    "fetch.max.bytes" C Kind::Int(0, MAX), "52428800",
        "The maximum size of a fetch response; a single larger batch still arrives (KIP-74).";
    "max.partition.fetch.bytes" ["fetch.message.max.bytes"] C Kind::Int(1, MAX), "16777216",
        "The maximum size of one partition's records in a fetch response; a single larger batch still arrives (KIP-74). (The Java default is 1 MiB; responses are decoded as they arrive, so a large one takes no more memory at a time.)";
    "queued.max.bytes" C Kind::Int(1, i64::MAX), "67108864",
        "The maximum memory that fetched records take while they wait for `poll`, over all partitions, once decompressed and decoded.";
    "max.poll.records" C Kind::Int(1, MAX), "65536",
        "The maximum number of rows in one batch from `poll`. (The Java default is 500; a batch here is columns, not objects.) 2000 for share consumers, whose rows are locked from the fetch on.";
    "check.crcs" C Kind::Bool, "true",
        "Whether the CRC of every batch is checked.";
    "max.decompressed.bytes" C Kind::Int(1, MAX), "268435456",
        "The maximum size of one batch after decompression; more is an error.";
    "max.decompressed.ratio" C Kind::Int(0, MAX), "2000",
        "The maximum compression ratio of a batch that expands to more than 64 MiB; more is an error, 0 allows any. gzip, lz4 and snappy cannot reach the default.";
    "layout" C Kind::Choice(&["binary", "view"]), "binary",
        "The Arrow type of keys and values: `binary` copies them, `view` (`binary_view`) points into the fetched bytes. pyarrow's `filter`, `take` and `sort` do not support views.";
    "include.headers" C Kind::Bool, "false",
        "Whether batches have the column `headers`.";
    "include.leader.epoch" C Kind::Bool, "false",
        "Whether batches have the column `leader_epoch`.";
    "allow.auto.create.topics" C Kind::Bool, "false",
        "Whether a consumer that subscribes to a missing topic, or is assigned its partitions, may create it, if the broker allows that. Look-ups such as `partitions_for` and `end_offsets` never do. (The Java default is true.)";

    "acks" ["request.required.acks"] P Kind::Choice(&["all", "-1", "0", "1"]), "all",
        "The acknowledgements that a record needs to count as delivered: from all in-sync replicas (`all`), none (`0`), or the leader (`1`).";
    "enable.idempotence" P Kind::Bool, "true",
        "Whether retries can neither duplicate nor reorder records (KIP-98). If not set, it is off where `acks` is not `all`, and with brokers before Kafka 0.11 (with a warning).";
    "transactional.id" P Kind::Text, "",
        "The id of a transactional producer (KIP-98): a later producer with the same id fences it. Implies `enable.idempotence` and `acks=all`.";
    "transaction.timeout.ms" P Kind::Millis(1, MAX), "60000",
        "How long a transaction may stay open before the coordinator aborts it; at most the broker's `transaction.max.timeout.ms`.";
    "linger.ms" ["queue.buffering.max.ms"] P Kind::Millis(0, MAX), "5",
        "How long a record waits at most for others to join its batch. If not set, a record is sent at once while its broker has no request in flight, and waits behind a request, or in a stream of many records. A value that is set applies to every batch, as in the Java client.";
    "batch.size" P Kind::Int(0, MAX), "1000000",
        "The maximum size of a batch of records from `send`, in bytes before compression; at most `max.request.size`. Memory is allocated as records arrive. (The Java default is 16384, which is also the default here with `acks=0`, because brokers then do not report batches that are too large.)";
    "buffer.memory" P Kind::Int(1, i64::MAX), "33554432",
        "How many bytes may wait to be sent before `send` blocks.";
    "max.block.ms" P Kind::Millis(0, MAX), "60000",
        "How long `send` blocks for buffer memory or for a topic's metadata.";
    "max.request.size" ["message.max.bytes"] P Kind::Int(1, MAX), "1048576",
        "The largest record and the largest request, in bytes.";
    "max.in.flight.requests.per.connection" ["max.in.flight"] P Kind::Int(1, 1000), "5",
        "The maximum number of unanswered requests on one connection; at most 5 with idempotence.";
    "compression.type" ["compression.codec"] P Kind::Choice(&["none", "gzip", "snappy", "lz4", "zstd"]), "none",
        "The codec of batches.";
    "compression.gzip.level" P Kind::Int(-1, 9), "-1",
        "1 to 9; -1 is the codec's own default.";
    "compression.zstd.level" P Kind::Int(-131072, 22), "3",
        "-131072 to 22.";
    "message.format.version" P Kind::Text, "",
        "The newest message format to write, by a version of Kafka that had it: `0.9.0` (also `v0`: no timestamps), `0.10.2` (`v1`), `0.11.0` (`v2`: headers, zstd, idempotence, transactions). If not set, the newest that the broker supports.";
    "partitioner" P Kind::Choice(&["murmur2", "murmur2_random", "round_robin", "consistent", "consistent_random", "fnv1a", "fnv1a_random"]), "murmur2",
        "How records are assigned to partitions if `partition` is not passed. `murmur2` is the Java client's: keys by their hash, records without a key to one partition after another, a batch each. `round_robin`: every record to the next partition, regardless of its key. `consistent` and `consistent_random` (CRC-32), `fnv1a` and `fnv1a_random` are librdkafka's: without `_random`, records without a key share one partition. `murmur2_random` is another name of `murmur2`. In Python also a function, see `Producer`.";
    "partitioner.ignore.keys" P Kind::Bool, "false",
        "Whether to ignore keys: every record is partitioned as if it had none (KIP-794).";
    "partitioner.adaptive.partitioning.enable" P Kind::Bool, "true",
        "Whether records without a key prefer partitions with less data waiting to be sent (KIP-794).";
    "partitioner.availability.timeout.ms" P Kind::Millis(0, MAX), "0",
        "Records without a key avoid the partitions of a broker that has accepted nothing for this long while data waits for it (KIP-794); 0 disables this.";
    "partitioner.rack.aware" P Kind::Bool, "false",
        "Whether records without a key go to partitions whose leader is in the rack of `client.rack`, if one of them is available (KIP-1123). Records with a key and `round_robin` ignore it.";
    "retries" ["message.send.max.retries"] P Kind::Int(0, MAX), "2147483647",
        "How often a batch is retried, within `delivery.timeout.ms`.";
    "delivery.timeout.ms" ["message.timeout.ms"] P Kind::Millis(1, MAX), "120000",
        "How long a record may take from `send` to its delivery before it fails.";
}

/// Options of Java's client that name Java classes or JVM features, and options of brokers.
pub(super) const UNSUPPORTED: &[&str] = &[
    "sasl.login.class",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class",
    "security.providers",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
];
