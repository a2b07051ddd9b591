"""What clients take as keywords, for type checkers and editors: `**options: Unpack[ConsumerOptions]`.

By `make generate` from the table of options. In a mapping the names have dots: `{"group.id": "g"}`. None is the
default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from os import PathLike
    from ssl import SSLContext

    from samsarrow.group import Assignor
    from samsarrow.metrics.events import OnEvent
    from samsarrow.partitioner import Partitioner
    from samsarrow.tokens import TokenProvider


class CommonOptions(TypedDict, total=False):
    """Keywords of every client."""

    ssl_context: SSLContext | None
    """Whom to trust, who we are, which versions of TLS: instead of the options `ssl.*`."""
    on_event: OnEvent | None
    """Called for what happens seldom: connections, throttling, rebalances, offsets reset, fencing."""
    bootstrap_servers: str | Sequence[str] | None
    """Brokers to start from, `host:port` separated by commas. Required, unless an admin client has
    `bootstrap.controllers`. One that responds is enough.
    """
    metadata_broker_list: str | Sequence[str] | None
    """`bootstrap.servers`."""
    bootstrap_resolve_timeout_ms: int | timedelta | None
    """How long the names in `bootstrap.servers` may remain unresolvable from the first call on (KIP-909, Kafka 4.4).
    Until then calls repeat the lookup, also beyond one call; after it this client raises `BootstrapResolutionError`
    from every call. 0: each call repeats the lookup until its own timeout. (In Java, 0 resolves the names in the
    constructor, and fails at once; here no constructor does.)
    """
    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"] | None
    """Tries every address of a name in turn. With `resolve_canonical_bootstrap_servers_only` each address of a
    bootstrap server counts as a server of its own (by number, which certificates and Kerberos principals of brokers
    seldom have: not for those).
    """
    client_id: str | None
    """The client's name in broker logs and quotas."""
    config_providers: str | Sequence[str] | None
    """Sources for option values (KIP-297): any of `env`, `file` and `directory`. With them, `${env:NAME}` stands for an
    environment variable, `${file:/path:key}` for a value in a properties file, `${directory:/path:name}` for the text
    of a file, in any option. Do not accept options from users who may not read what this process can read
    (CVE-2024-31141).
    """
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | None
    """Whether connections use TLS, and whether clients log in (SASL)."""
    ssl_truststore_location: str | PathLike[str] | None
    """The certificate authorities to trust: a file (PEM, PKCS12 or JKS, detected by its first bytes), a folder of PEM
    files, or `probe` for the system's. If not set, the system's are trusted.
    """
    ssl_ca_location: str | PathLike[str] | None
    """`ssl.truststore.location`."""
    ssl_cafile: str | PathLike[str] | None
    """`ssl.truststore.location`."""
    ssl_truststore_certificates: str | None
    """The same certificates as PEM text."""
    ssl_ca_pem: str | None
    """`ssl.truststore.certificates`."""
    ssl_cadata: str | None
    """`ssl.truststore.certificates`."""
    ssl_truststore_password: str | None
    """The password of `ssl.truststore.location`."""
    ssl_truststore_type: Literal["JKS", "PKCS12", "PEM"] | None
    """The type of that store. It is detected by its first bytes; a type that contradicts them is an error, except
    PKCS12 given as JKS, which Java accepts too.
    """
    ssl_keystore_location: str | PathLike[str] | None
    """The client's certificate and private key in one file (PEM, PKCS12 or JKS), for brokers that require client
    certificates.
    """
    ssl_keystore_certificate_chain: str | None
    """The client's certificate chain as PEM text."""
    ssl_certificate_pem: str | None
    """`ssl.keystore.certificate.chain`."""
    ssl_keystore_key: str | None
    """The client's private key as PEM text (PKCS8, optionally encrypted)."""
    ssl_key_pem: str | None
    """`ssl.keystore.key`."""
    ssl_keystore_password: str | None
    """The password of `ssl.keystore.location`."""
    ssl_keystore_type: Literal["JKS", "PKCS12", "PEM"] | None
    """The type of that store, as `ssl.truststore.type`."""
    ssl_certificate_location: str | PathLike[str] | None
    """A PEM file with the client's certificate chain."""
    ssl_certfile: str | PathLike[str] | None
    """`ssl.certificate.location`."""
    ssl_key_location: str | PathLike[str] | None
    """A PEM file with the client's private key."""
    ssl_keyfile: str | PathLike[str] | None
    """`ssl.key.location`."""
    ssl_key_password: str | None
    """The password of an encrypted private key."""
    ssl_password: str | None
    """`ssl.key.password`."""
    ssl_endpoint_identification_algorithm: str | None
    """With `https`, a broker's certificate must name the host that the client connects to. Empty or `none` disables the
    check: anyone with a certificate from the same authority can then impersonate a broker.
    """
    ssl_check_hostname: bool | None
    """kafka-python's name for the same."""
    enable_ssl_certificate_verification: bool | None
    """`false` accepts any certificate, which protects against nothing; each client that does so logs a warning."""
    ssl_enabled_protocols: str | Sequence[str] | None
    """The TLS versions to allow."""
    ssl_cipher_suites: str | Sequence[str] | None
    """Cipher suites, by IANA or OpenSSL name. If not set, all of TLS 1.3 and those of TLS 1.2 with forward secrecy and
    authenticated encryption.
    """
    ssl_ciphers: str | Sequence[str] | None
    """`ssl.cipher.suites`."""
    ssl_curves_list: str | Sequence[str] | None
    """Key exchange groups, for example `X25519:P-256`. If not set, the post-quantum X25519MLKEM768 is offered as well.
    """
    ssl_crl_location: str | PathLike[str] | None
    """A PEM file with certificate revocation lists."""
    ssl_crlfile: str | PathLike[str] | None
    """`ssl.crl.location`."""
    sasl_mechanism: Literal["GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"] | None
    """The login mechanism. The client never falls back to another."""
    sasl_mechanisms: Literal["GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"] | None
    """`sasl.mechanism`."""
    sasl_username: str | None
    """The user's name, for PLAIN and SCRAM."""
    sasl_plain_username: str | None
    """`sasl.username`."""
    sasl_password: str | None
    """The user's password, for PLAIN and SCRAM."""
    sasl_plain_password: str | None
    """`sasl.password`."""
    sasl_jaas_config: str | None
    """Java's form of user name, password and other login settings. The entry is parsed, never loaded as a class. A
    setting in it may not be set by another option as well.
    """
    sasl_login_callback_handler_class: str | None
    """Java's. Kafka's own handlers and that of AWS MSK IAM map to options of this client; any other is an error."""
    sasl_client_callback_handler_class: str | None
    """The same."""
    sasl_kerberos_service_name: str | None
    """The Kerberos service name of the brokers."""
    sasl_kerberos_domain_name: str | None
    """The host in the brokers' Kerberos principals, if it differs from the host that the client connects to."""
    sasl_kerberos_principal: str | None
    """The client's Kerberos principal."""
    sasl_kerberos_name: str | None
    """`sasl.kerberos.principal`."""
    sasl_kerberos_keytab: str | PathLike[str] | None
    """The keytab of that principal. If not set, the user's ticket cache is used."""
    sasl_kerberos_kinit_cmd: str | None
    """Java's; ignored. The Kerberos library fetches tickets."""
    sasl_kerberos_ticket_renew_window_factor: float | None
    """The share of a ticket's lifetime after which it is renewed."""
    sasl_kerberos_ticket_renew_jitter: float | None
    """Random jitter added to that time, as a share of the lifetime."""
    sasl_kerberos_min_time_before_relogin: int | timedelta | None
    """The minimum time between two renewals."""
    sasl_login_refresh_window_factor: float | None
    """The share of a token's lifetime after which it is refreshed."""
    sasl_login_refresh_window_jitter: float | None
    """Random jitter added to that time, as a share of the lifetime."""
    sasl_login_refresh_min_period_seconds: int | timedelta | None
    """The minimum time between two refreshes."""
    sasl_login_refresh_buffer_seconds: int | timedelta | None
    """How long before its expiry a token is refreshed."""
    sasl_login_connect_timeout_ms: int | timedelta | None
    """The timeout for connecting to the token endpoint."""
    sasl_login_read_timeout_ms: int | timedelta | None
    """The timeout for a response of the token endpoint."""
    sasl_login_retry_backoff_ms: int | timedelta | None
    """The wait before a failed token request is retried; doubles with each failure."""
    sasl_login_retry_backoff_max_ms: int | timedelta | None
    """The longest such wait."""
    sasl_oauthbearer_method: Literal["default", "oidc"] | None
    """librdkafka's: `oidc` fetches tokens from `sasl.oauthbearer.token.endpoint.url`, which is the default if that
    option is set.
    """
    sasl_oauthbearer_token_endpoint_url: str | None
    """The token endpoint: an `https:` URL, an `http:` URL on this machine only, or `file:` for a file that holds the
    token.
    """
    sasl_oauthbearer_grant_type: (
        Literal["client_credentials", "jwt-bearer", "urn:ietf:params:oauth:grant-type:jwt-bearer"] | None
    )
    """The OAuth grant: client credentials (a secret, or a signed assertion in its place) or an assertion alone (RFC
    7523).
    """
    sasl_oauthbearer_client_credentials_client_id: str | None
    """The client id at the token issuer."""
    sasl_oauthbearer_client_id: str | None
    """`sasl.oauthbearer.client.credentials.client.id`."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """The client secret at the token issuer."""
    sasl_oauthbearer_client_secret: str | None
    """`sasl.oauthbearer.client.credentials.client.secret`."""
    sasl_oauthbearer_scope: str | None
    """The scope to request."""
    sasl_oauthbearer_token_provider: TokenProvider | None
    """A Python function, plain or `async`, that returns tokens, or `module:function`, which other processes can import.
    See `samsarrow.TokenProvider`.
    """
    oauth_cb: TokenProvider | None
    """`sasl.oauthbearer.token.provider`."""
    sasl_oauth_token_provider: TokenProvider | None
    """`sasl.oauthbearer.token.provider`."""
    sasl_oauthbearer_extensions: str | None
    """SASL extensions sent with the token (KIP-342): `name=value`, separated by commas."""
    sasl_oauthbearer_config: str | None
    """librdkafka's, for unsecured tokens: `principal=admin scope=read lifeSeconds=3600 extension_name=value`."""
    enable_sasl_oauthbearer_unsecure_jwt: bool | None
    """Whether the client makes unsigned tokens itself, which only test brokers accept."""
    sasl_oauthbearer_header_urlencode: bool | None
    """Whether client id and secret are URL-encoded before they are sent, as RFC 6749 says and some issuers require."""
    sasl_oauthbearer_scope_claim_name: str | None
    """The token's claim for the scope."""
    sasl_oauthbearer_sub_claim_name: str | None
    """The token's claim for the principal."""
    sasl_oauthbearer_assertion_algorithm: Literal["RS256", "ES256"] | None
    """The signature algorithm of assertions."""
    sasl_oauthbearer_assertion_private_key_file: str | PathLike[str] | None
    """A PEM file with the key that signs assertions."""
    sasl_oauthbearer_assertion_private_key_pem: str | None
    """That key as PEM text."""
    sasl_oauthbearer_assertion_private_key_passphrase: str | None
    """The passphrase of that key."""
    sasl_oauthbearer_assertion_file: str | PathLike[str] | None
    """A file with an assertion that is signed and renewed outside of this client."""
    sasl_oauthbearer_assertion_template_file: str | PathLike[str] | None
    """A JSON file with the `header` and `payload` of assertions."""
    sasl_oauthbearer_assertion_jwt_template_file: str | PathLike[str] | None
    """`sasl.oauthbearer.assertion.template.file`."""
    sasl_oauthbearer_assertion_claim_aud: str | None
    """The audience claim of assertions."""
    sasl_oauthbearer_assertion_claim_iss: str | None
    """The issuer claim of assertions."""
    sasl_oauthbearer_assertion_claim_sub: str | None
    """The subject claim of assertions."""
    sasl_oauthbearer_assertion_claim_exp_seconds: int | timedelta | None
    """How long assertions are valid."""
    sasl_oauthbearer_assertion_claim_nbf_seconds: int | timedelta | None
    """How far in the past assertions begin to be valid, to allow for clock skew."""
    sasl_oauthbearer_assertion_claim_jti_include: bool | None
    """Whether each assertion has a unique id."""
    sasl_oauthbearer_assertion_jti_include: bool | None
    """`sasl.oauthbearer.assertion.claim.jti.include`."""
    https_ca_location: str | PathLike[str] | None
    """The certificate authorities to trust for the token endpoint: a PEM file or a folder of them. If not set, those of
    `ssl.truststore.location`, else the system's.
    """
    sasl_oauthbearer_https_ca_location: str | PathLike[str] | None
    """`https.ca.location`."""
    https_ca_pem: str | None
    """Those authorities as PEM text."""
    sasl_oauthbearer_https_ca_pem: str | None
    """`https.ca.pem`."""
    request_timeout_ms: int | timedelta | None
    """How long to wait for the response to a request. After that the connection is closed and the request retried."""
    socket_timeout_ms: int | timedelta | None
    """`request.timeout.ms`."""
    socket_connection_setup_timeout_ms: int | timedelta | None
    """How long to wait for a connection, per address; doubles with each failure."""
    socket_connection_setup_timeout_max_ms: int | timedelta | None
    """The longest such time."""
    connections_max_idle_ms: int | timedelta | None
    """An idle connection is closed after this time; 0 keeps it."""
    reconnect_backoff_ms: int | timedelta | None
    """The wait before a broker that could not be reached is tried again; doubles with each failure."""
    reconnect_backoff_max_ms: int | timedelta | None
    """The longest such wait."""
    retry_backoff_ms: int | timedelta | None
    """The wait before a failed request is tried again; doubles with each failure."""
    retry_backoff_max_ms: int | timedelta | None
    """The longest such wait."""
    metadata_max_age_ms: int | timedelta | None
    """How often metadata is refreshed even if nothing seems to have changed."""
    topic_metadata_refresh_interval_ms: int | timedelta | None
    """`metadata.max.age.ms`."""
    metadata_max_idle_ms: int | timedelta | None
    """A topic that was not used for this time is dropped from the metadata."""
    metadata_recovery_strategy: Literal["rebootstrap", "none"] | None
    """What to do when the known brokers do not respond: `rebootstrap` tries the bootstrap servers as well, and drops
    the known brokers if that continues (KIP-899); `none` keeps trying only the known ones.
    """
    metadata_recovery_rebootstrap_trigger_ms: int | timedelta | None
    """How long metadata refreshes may fail before the known brokers are dropped (KIP-1102)."""
    metadata_cluster_check_enable: bool | None
    """Sends the cluster and the broker that a connection is meant for, so that brokers since Kafka 4.4 reject one that
    was routed to another broker (KIP-1242). The client then fetches the metadata again, at first from the bootstrap
    servers if no checked connection is open. Without effect on older brokers, and with
    `metadata.recovery.strategy=none`. Set it to false if one address stands for several brokers.
    """
    receive_buffer_bytes: int | None
    """The socket's receive buffer; -1 leaves it to the operating system."""
    socket_receive_buffer_bytes: int | None
    """`receive.buffer.bytes`."""
    send_buffer_bytes: int | None
    """The socket's send buffer; -1 leaves it to the operating system."""
    socket_send_buffer_bytes: int | None
    """`send.buffer.bytes`."""
    receive_message_max_bytes: int | None
    """The largest response that is accepted; a larger one breaks the connection. `fetch.max.bytes` counts as 90% of it
    at most.
    """
    enable_metrics_push: bool | None
    """Whether to push client metrics to brokers that subscribe to them (KIP-714). As in Java, producers and consumers
    push unless this is `false`, admin clients only if it is `true`. Brokers before Kafka 3.7, and those without a
    plugin for it, never subscribe.
    """
    metrics_num_samples: int | None
    """The number of time windows over which rates, averages and extremes are computed."""
    metrics_sample_window_ms: int | timedelta | None
    """The length of each window."""
    metrics_recording_level: Literal["INFO", "DEBUG", "TRACE"] | None
    """With `DEBUG` or `TRACE`, a consumer's end-to-end latency is measured per row instead of per batch."""
    api_version_request: bool | None
    """Whether to request the supported API versions from brokers. If not, `broker.version.fallback` determines them."""
    broker_version_fallback: str | None
    """The Kafka version to assume for brokers that cannot report their API versions, for example `0.9.0`. If not set,
    the version of such a broker (Kafka 0.8 and 0.9) is detected from its responses.
    """


class ConsumerOptions(CommonOptions, total=False):
    """Keywords of `Consumer`."""

    client_rack: str | None
    """The client's rack. Consumers send it in Fetch requests, so that brokers can name a closer replica (KIP-392);
    producers use it with `partitioner.rack.aware`.
    """
    default_api_timeout_ms: int | timedelta | None
    """The timeout of calls without the argument `timeout`."""
    group_id: str | None
    """The group whose offsets are committed and fetched."""
    group_instance_id: str | None
    """The id of a static member (KIP-345): a consumer that returns under it within `session.timeout.ms` keeps its
    partitions without a rebalance. With `group.protocol=consumer`, one that was killed waits for the end of its session
    on the broker before it joins again.
    """
    group_protocol: Literal["classic", "consumer"] | None
    """The rebalance protocol: in `classic` a member assigns partitions, in `consumer` the coordinator does (KIP-848,
    Kafka 4.0 and later).
    """
    group_remote_assignor: str | None
    """The coordinator's assignor to use with `group.protocol=consumer`: `uniform` or `range`; if not set, the
    coordinator chooses.
    """
    partition_assignment_strategy: str | Sequence[str | Assignor] | None
    """Assignors in order of preference, for `group.protocol=classic`: `range`, `roundrobin`, `sticky`,
    `cooperative-sticky`; Java's class names are accepted too.
    """
    session_timeout_ms: int | timedelta | None
    """How long the coordinator waits for a heartbeat before it considers a member dead. With `group.protocol=consumer`
    it is set on the broker.
    """
    heartbeat_interval_ms: int | timedelta | None
    """How often a member sends a heartbeat to the coordinator, in the background. With `group.protocol=consumer` it is
    set on the broker.
    """
    max_poll_interval_ms: int | timedelta | None
    """A member that does not call `poll` for this long leaves the group, and others take its partitions; the next
    `poll` joins again. Also how long a rebalance waits for members.
    """
    enable_auto_commit: bool | None
    """Whether `poll`, rebalances and `close` commit what the program has processed: a `poll` means that the rows of
    earlier polls are, `close` that all rows are. Without `group.id` nothing is committed.
    """
    auto_commit_interval_ms: int | timedelta | None
    """How often `poll` commits with `enable.auto.commit`."""
    enable_auto_offset_store: bool | None
    """Whether the next `poll` marks rows as processed. If not, automatic commits cover only the offsets passed to
    `store_offsets`.
    """
    exclude_internal_topics: bool | None
    """Whether pattern subscriptions exclude Kafka's internal topics."""
    auto_offset_reset: str | None
    """Where to start without a committed offset, or if that offset no longer exists: `latest` at the end, `earliest` at
    the beginning, `none` not at all (an error; librdkafka's `smallest`, `beginning`, `largest`, `end` and `error` are
    accepted, too), `by_duration:PT24H` at the first record not older than an ISO 8601 duration (KIP-1106). With
    `latest`, records are skipped that are written to a new partition before the consumer notices it: `by_duration:PT1H`
    reads them.
    """
    isolation_level: Literal["read_uncommitted", "read_committed"] | None
    """Whether records of open and aborted transactions are read."""
    fetch_min_bytes: int | None
    """The minimum amount of data for which a broker responds to a fetch before `fetch.max.wait.ms` has passed."""
    fetch_max_wait_ms: int | timedelta | None
    """The longest that a broker waits for `fetch.min.bytes`."""
    fetch_wait_max_ms: int | timedelta | None
    """`fetch.max.wait.ms`."""
    fetch_max_bytes: int | None
    """The maximum size of a fetch response; a single larger batch still arrives (KIP-74)."""
    max_partition_fetch_bytes: int | None
    """The maximum size of one partition's records in a fetch response; a single larger batch still arrives (KIP-74).
    (The Java default is 1 MiB; responses are decoded as they arrive, so a large one takes no more memory at a time.)
    """
    fetch_message_max_bytes: int | None
    """`max.partition.fetch.bytes`."""
    queued_max_bytes: int | None
    """The maximum memory that fetched records take while they wait for `poll`, over all partitions, once decompressed
    and decoded.
    """
    max_poll_records: int | None
    """The maximum number of rows in one batch from `poll`. (The Java default is 500; a batch here is columns, not
    objects.) 2000 for share consumers, whose rows are locked from the fetch on.
    """
    check_crcs: bool | None
    """Whether the CRC of every batch is checked."""
    max_decompressed_bytes: int | None
    """The maximum size of one batch after decompression; more is an error."""
    max_decompressed_ratio: int | None
    """The maximum compression ratio of a batch that expands to more than 64 MiB; more is an error, 0 allows any. gzip,
    lz4 and snappy cannot reach the default.
    """
    layout: Literal["binary", "view"] | None
    """The Arrow type of keys and values: `binary` copies them, `view` (`binary_view`) points into the fetched bytes.
    pyarrow's `filter`, `take` and `sort` do not support views.
    """
    include_headers: bool | None
    """Whether batches have the column `headers`."""
    include_leader_epoch: bool | None
    """Whether batches have the column `leader_epoch`."""
    allow_auto_create_topics: bool | None
    """Whether a consumer that subscribes to a missing topic, or is assigned its partitions, may create it, if the
    broker allows that. Look-ups such as `partitions_for` and `end_offsets` never do. (The Java default is true.)
    """


class ProducerOptions(CommonOptions, total=False):
    """Keywords of `Producer`."""

    client_rack: str | None
    """The client's rack. Consumers send it in Fetch requests, so that brokers can name a closer replica (KIP-392);
    producers use it with `partitioner.rack.aware`.
    """
    acks: Literal["all", "-1", "0", "1", 0, 1, -1] | None
    """The acknowledgements that a record needs to count as delivered: from all in-sync replicas (`all`), none (`0`), or
    the leader (`1`).
    """
    request_required_acks: Literal["all", "-1", "0", "1", 0, 1, -1] | None
    """`acks`."""
    enable_idempotence: bool | None
    """Whether retries can neither duplicate nor reorder records (KIP-98). If not set, it is off where `acks` is not
    `all`, and with brokers before Kafka 0.11 (with a warning).
    """
    transactional_id: str | None
    """The id of a transactional producer (KIP-98): a later producer with the same id fences it. Implies
    `enable.idempotence` and `acks=all`.
    """
    transaction_timeout_ms: int | timedelta | None
    """How long a transaction may stay open before the coordinator aborts it; at most the broker's
    `transaction.max.timeout.ms`.
    """
    linger_ms: int | timedelta | None
    """How long a record waits at most for others to join its batch. If not set, a record is sent at once while its
    broker has no request in flight, and waits behind a request, or in a stream of many records. A value that is set
    applies to every batch, as in the Java client.
    """
    queue_buffering_max_ms: int | timedelta | None
    """`linger.ms`."""
    batch_size: int | None
    """The maximum size of a batch of records from `send`, in bytes before compression; at most `max.request.size`.
    Memory is allocated as records arrive. (The Java default is 16384, which is also the default here with `acks=0`,
    because brokers then do not report batches that are too large.)
    """
    buffer_memory: int | None
    """How many bytes may wait to be sent before `send` blocks."""
    max_block_ms: int | timedelta | None
    """How long `send` blocks for buffer memory or for a topic's metadata."""
    max_request_size: int | None
    """The largest record and the largest request, in bytes."""
    message_max_bytes: int | None
    """`max.request.size`."""
    max_in_flight_requests_per_connection: int | None
    """The maximum number of unanswered requests on one connection; at most 5 with idempotence."""
    max_in_flight: int | None
    """`max.in.flight.requests.per.connection`."""
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None
    """The codec of batches."""
    compression_codec: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None
    """`compression.type`."""
    compression_gzip_level: int | None
    """1 to 9; -1 is the codec's own default."""
    compression_zstd_level: int | None
    """-131072 to 22."""
    message_format_version: str | None
    """The newest message format to write, by a version of Kafka that had it: `0.9.0` (also `v0`: no timestamps),
    `0.10.2` (`v1`), `0.11.0` (`v2`: headers, zstd, idempotence, transactions). If not set, the newest that the broker
    supports.
    """
    partitioner: (
        Literal["murmur2", "murmur2_random", "round_robin", "consistent", "consistent_random", "fnv1a", "fnv1a_random"]
        | Partitioner
        | None
    )
    """How records are assigned to partitions if `partition` is not passed. `murmur2` is the Java client's: keys by
    their hash, records without a key to one partition after another, a batch each. `round_robin`: every record to the
    next partition, regardless of its key. `consistent` and `consistent_random` (CRC-32), `fnv1a` and `fnv1a_random` are
    librdkafka's: without `_random`, records without a key share one partition. `murmur2_random` is another name of
    `murmur2`. In Python also a function, see `Producer`.
    """
    partitioner_ignore_keys: bool | None
    """Whether to ignore keys: every record is partitioned as if it had none (KIP-794)."""
    partitioner_adaptive_partitioning_enable: bool | None
    """Whether records without a key prefer partitions with less data waiting to be sent (KIP-794)."""
    partitioner_availability_timeout_ms: int | timedelta | None
    """Records without a key avoid the partitions of a broker that has accepted nothing for this long while data waits
    for it (KIP-794); 0 disables this.
    """
    partitioner_rack_aware: bool | None
    """Whether records without a key go to partitions whose leader is in the rack of `client.rack`, if one of them is
    available (KIP-1123). Records with a key and `round_robin` ignore it.
    """
    retries: int | None
    """How often a batch is retried, within `delivery.timeout.ms`."""
    message_send_max_retries: int | None
    """`retries`."""
    delivery_timeout_ms: int | timedelta | None
    """How long a record may take from `send` to its delivery before it fails."""
    message_timeout_ms: int | timedelta | None
    """`delivery.timeout.ms`."""


class AdminOptions(CommonOptions, total=False):
    """Keywords of `Admin`."""

    bootstrap_controllers: str | Sequence[str] | None
    """Controllers to start from instead of `bootstrap.servers` (KIP-919, Kafka 3.7): for settings, ACLs, features,
    reassignments and the quorum, also when no broker runs. Requests that controllers do not support raise
    `UnsupportedEndpointTypeError`.
    """
    default_api_timeout_ms: int | timedelta | None
    """The timeout of calls without the argument `timeout`."""
