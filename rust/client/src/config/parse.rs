//! From given values to checked ones.

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_arrow::layout::Layout;
use samsarrow_wire::compression::Codec;
use samsarrow_wire::messages::ApiKey;
use samsarrow_wire::releases::Release;

use super::table::{Kind, NOT_YET, NOT_YET_FAMILIES, OPTIONS, OptionSpec};
use super::{
    ClientKind, CommonOptions, ConsumerOptions, GroupOptions, GroupProtocol, IsolationLevel, MASK, OffsetReset,
    Options, Partitioner, ProducerOptions, Recovery, is_secret,
};
use super::{duration, format, nearest};
use crate::connection::OldBrokers;
use crate::error::{Error, Result};

/// A value as the user gave it.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValue {
    /// Text.
    Str(String),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Bool(bool),
}

impl std::fmt::Display for OptionValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Str(text) => write!(f, "{text:?}"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::Bool(flag) => write!(f, "{flag}"),
        }
    }
}

impl Kind {
    /// For texts: what may be given.
    pub(super) fn describe(self) -> String {
        let bounds = |min, max| match max {
            m if m >= i64::from(i32::MAX) => format!("at least {min}"),
            max => format!("from {min} to {max}"),
        };
        match self {
            Kind::Text => "text".into(),
            Kind::List => "text, separated by commas".into(),
            Kind::Bool => "true or false".into(),
            Kind::Int(min, max) => format!("whole number, {}", bounds(min, max)),
            Kind::Millis(min, max) => format!("milliseconds, {}", bounds(min, max)),
            Kind::Choice(words) => words.join(", "),
        }
    }

    /// The value in its one written form, or None if it is not of this kind.
    fn accept(self, value: &OptionValue) -> Option<String> {
        match (self, value) {
            (Kind::Text | Kind::List, OptionValue::Str(text)) => Some(text.clone()),
            (Kind::Bool, OptionValue::Bool(flag)) => Some(flag.to_string()),
            (Kind::Bool, OptionValue::Str(text)) => {
                let text = text.trim().to_ascii_lowercase();
                matches!(text.as_str(), "true" | "false").then_some(text)
            }
            (Kind::Int(min, max) | Kind::Millis(min, max), value) => {
                let number = match value {
                    OptionValue::Int(number) => *number,
                    OptionValue::Str(text) => text.trim().parse().ok()?,
                    OptionValue::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => *number as i64,
                    _ => return None,
                };
                (min..=max).contains(&number).then(|| number.to_string())
            }
            (Kind::Choice(words), value) => {
                let text = match value {
                    OptionValue::Str(text) => text.trim().to_owned(),
                    OptionValue::Int(number) => number.to_string(),
                    _ => return None,
                };
                words.iter().find(|word| word.eq_ignore_ascii_case(&text)).map(|word| (*word).to_owned())
            }
            _ => None,
        }
    }
}

/// Checked values by name.
struct Values(BTreeMap<&'static str, String>);

impl Options {
    /// Checks what a user gave for a client of `kind`. Dotted and snake_case names reach the same option.
    ///
    /// # Errors
    /// [`Error::Configuration`] for an unknown name (with the nearest), a value that cannot be, a name given twice, an
    /// option of another client, or one that this version does not have.
    pub fn parse(kind: ClientKind, pairs: impl IntoIterator<Item = (String, OptionValue)>) -> Result<Options> {
        let mut values = BTreeMap::new();
        let mut api_versions = BTreeMap::new();
        for (given, value) in pairs {
            let dotted = given.replace('_', ".");
            if let Some(api) = dotted.strip_prefix("api.version.").filter(|name| *name != "request") {
                let (name, version) = api_version(&given, api, &value)?;
                if api_versions.insert(name, version).is_some() {
                    return Err(twice(&given));
                }
                continue;
            }
            let spec = find(kind, &given, &dotted)?;
            let accepted = spec.kind.accept(&value).ok_or_else(|| {
                Error::configuration(format!("option {} must be {}, not {value}", spec.name, spec.kind.describe()))
            })?;
            if values.insert(spec.name, accepted).is_some() {
                return Err(twice(spec.name));
            }
        }
        Values(values).into_options(kind, api_versions)
    }
}

fn twice(name: &str) -> Error {
    Error::configuration(format!(
        "option {name} is given twice, under two spellings or in the mapping and as a keyword"
    ))
}

fn api_version(given: &str, api: &str, value: &OptionValue) -> Result<(&'static str, i16)> {
    let wanted: String = api.split('.').collect();
    let key = ApiKey::ALL.iter().find(|key| key.name().eq_ignore_ascii_case(&wanted));
    let key =
        key.ok_or_else(|| Error::configuration(format!("option {given} names no API that this client speaks")))?;
    let version = Kind::Int(0, i64::from(i16::MAX)).accept(value).and_then(|text| text.parse().ok());
    let version =
        version.ok_or_else(|| Error::configuration(format!("option {given} must be a version number, not {value}")))?;
    Ok((key.name(), version))
}

fn find(kind: ClientKind, given: &str, dotted: &str) -> Result<&'static OptionSpec> {
    let matches = |name: &str| name == given || name == dotted || name.replace('_', ".") == dotted;
    let spec = OPTIONS.iter().find(|spec| matches(spec.name) || spec.aliases.iter().any(|alias| matches(alias)));
    if let Some(spec) = spec {
        if spec.clients.contains(&kind) {
            return Ok(spec);
        }
        let owners: Vec<_> = spec.clients.iter().map(|c| format!("{c:?}").to_lowercase()).collect();
        let text = format!("option {} belongs to a {}, not to this client ({kind:?})", spec.name, owners.join(" or "));
        return Err(Error::configuration(text));
    }
    if NOT_YET.contains(&dotted) || NOT_YET_FAMILIES.iter().any(|f| dotted.starts_with(f)) {
        return Err(Error::configuration(format!("option {given} is not available in this version of samsarrow")));
    }
    let candidates = OPTIONS.iter().filter(|spec| spec.clients.contains(&kind)).map(|spec| spec.name);
    let nearest = nearest(dotted, candidates).unwrap_or_default();
    Err(Error::configuration(format!("option {given} is unknown; the nearest is {nearest}")))
}

impl Values {
    /// The given value or the default.
    fn text(&self, name: &str) -> &str {
        let default = || OPTIONS.iter().find(|spec| spec.name == name).map_or("", |spec| spec.default);
        self.0.get(name).map_or_else(default, String::as_str)
    }

    fn number<T: TryFrom<i64> + Default>(&self, name: &str) -> T {
        self.text(name).parse::<i64>().ok().and_then(|n| T::try_from(n).ok()).unwrap_or_default()
    }

    fn millis(&self, name: &str) -> Duration {
        Duration::from_millis(self.number(name))
    }

    fn flag(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    fn into_options(self, kind: ClientKind, api_versions: BTreeMap<&'static str, i16>) -> Result<Options> {
        if self.text("security.protocol") != "PLAINTEXT" {
            return Err(Error::configuration(format!(
                "option security.protocol={} is not available in this version of samsarrow: only PLAINTEXT is",
                self.text("security.protocol")
            )));
        }
        let produce = api_versions.get(ApiKey::Produce.name()).copied();
        let (producer, consumer) = (self.producer(produce)?, self.consumer()?);
        let effective = self.effective(kind, &api_versions);
        let mut common = self.common(kind, api_versions)?;
        if producer.magic < 2 {
            common.newest_api_versions.insert(ApiKey::Produce.name(), format::LAST_WITH_MESSAGES);
        }
        Ok(Options { common, producer, consumer, effective })
    }

    fn effective(&self, kind: ClientKind, api_versions: &BTreeMap<&'static str, i16>) -> Vec<(String, String)> {
        let mine = OPTIONS.iter().filter(|spec| spec.clients.contains(&kind));
        let shown = |name: &str| if is_secret(name) { MASK.to_owned() } else { self.text(name).to_owned() };
        let chosen = api_versions.iter().map(|(api, version)| (format!("api.version.{api}"), version.to_string()));
        mine.map(|spec| (spec.name.to_owned(), shown(spec.name))).chain(chosen).collect()
    }

    fn common(&self, kind: ClientKind, api_versions: BTreeMap<&'static str, i16>) -> Result<CommonOptions> {
        let list = self.text("bootstrap.servers");
        let servers: Vec<String> =
            list.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect();
        if servers.is_empty() {
            return Err(Error::configuration("option bootstrap.servers must be given, for example localhost:9092"));
        }
        for server in &servers {
            let port =
                server.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
            if !matches!(port, Some(Ok(1..))) {
                let text = format!("option bootstrap.servers: {server:?} is not host:port, for example localhost:9092");
                return Err(Error::configuration(text));
            }
        }
        let idle = self.millis("connections.max.idle.ms");
        Ok(CommonOptions {
            bootstrap_servers: servers,
            expand_bootstrap_servers: self.text("client.dns.lookup") == "resolve_canonical_bootstrap_servers_only",
            client_id: self.text("client.id").to_owned(),
            request_timeout: self.millis("request.timeout.ms"),
            default_api_timeout: self.millis("default.api.timeout.ms"),
            connection_setup_timeout: self.millis("socket.connection.setup.timeout.ms"),
            connection_setup_timeout_max: self.millis("socket.connection.setup.timeout.max.ms"),
            connections_max_idle: (!idle.is_zero()).then_some(idle),
            reconnect_backoff: self.millis("reconnect.backoff.ms"),
            reconnect_backoff_max: self.millis("reconnect.backoff.max.ms"),
            retry_backoff: self.millis("retry.backoff.ms"),
            retry_backoff_max: self.millis("retry.backoff.max.ms"),
            metadata_max_age: self.millis("metadata.max.age.ms"),
            metadata_max_idle: self.millis("metadata.max.idle.ms"),
            metadata_recovery: match self.text("metadata.recovery.strategy") {
                "none" => Recovery::None,
                _ => Recovery::Rebootstrap,
            },
            metadata_recovery_trigger: self.millis("metadata.recovery.rebootstrap.trigger.ms"),
            receive_buffer: Some(self.number::<u32>("receive.buffer.bytes")).filter(|size| *size > 0),
            send_buffer: Some(self.number::<u32>("send.buffer.bytes")).filter(|size| *size > 0),
            max_response_bytes: self.number("receive.message.max.bytes"),
            allow_auto_create_topics: kind != ClientKind::Admin && self.flag("allow.auto.create.topics"),
            assumed_release: self.assumed_release()?,
            fallback_release: self.fallback_release()?,
            old_brokers: OldBrokers::default(),
            api_versions,
            newest_api_versions: BTreeMap::new(),
        })
    }

    fn fallback_release(&self) -> Result<Option<Release>> {
        let Some(given) = self.given("broker.version.fallback") else { return Ok(None) };
        let unknown = || {
            let known = Release::ALL.iter().map(Release::to_string).collect::<Vec<_>>().join(", ");
            Error::configuration(format!("option broker.version.fallback={given} names none of Kafka {known}"))
        };
        Release::named(&given).map(Some).ok_or_else(unknown)
    }

    fn assumed_release(&self) -> Result<Option<Release>> {
        if self.flag("api.version.request") {
            return Ok(None);
        }
        let fallback = self.fallback_release()?;
        fallback.map(Some).ok_or_else(|| {
            Error::configuration(
                "api.version.request=false needs broker.version.fallback: the version of Kafka that the brokers have, for \
                 example 0.9.0",
            )
        })
    }

    /// `produce`: the version of that API, if one was chosen.
    fn producer(&self, produce: Option<i16>) -> Result<ProducerOptions> {
        let acks: i16 = match self.text("acks") {
            "0" => 0,
            "1" => 1,
            _ => -1,
        };
        let transactional_id = self.given("transactional.id");
        if transactional_id.is_some() {
            self.check_transactional(acks)?;
        }
        // Transactions are nothing without it.
        let asked_for = self.0.contains_key("enable.idempotence") || transactional_id.is_some();
        let mut idempotence = self.flag("enable.idempotence");
        if idempotence && acks != -1 {
            if asked_for {
                return Err(Error::configuration(format!(
                    "enable.idempotence=true needs acks=all, not acks={acks}: change one of them"
                )));
            }
            idempotence = false;
        }
        let magic = format::magic(self.text("message.format.version"), produce)?;
        if magic < 2 && idempotence {
            if asked_for {
                let option = if transactional_id.is_some() { "transactional.id" } else { "enable.idempotence=true" };
                return Err(Error::configuration(format!(
                    "{option} needs message format v2, and message.format.version or api.version.produce \
                     asks for v{magic}: change one of them"
                )));
            }
            idempotence = false;
        }
        let compression = match self.text("compression.type") {
            "gzip" => Codec::Gzip,
            "snappy" => Codec::Snappy,
            "lz4" => Codec::Lz4,
            "zstd" => Codec::Zstd,
            _ => Codec::None,
        };
        let compression_level = match compression {
            Codec::Gzip => Some(self.number("compression.gzip.level")).filter(|level| *level != -1),
            Codec::Zstd => Some(self.number("compression.zstd.level")),
            _ => None,
        };
        if compression == Codec::Gzip && compression_level == Some(0) {
            return Err(Error::configuration("option compression.gzip.level must be from 1 to 9, or -1, not 0"));
        }
        if magic < 2 && compression == Codec::Zstd {
            return Err(Error::configuration(format!(
                "compression.type=zstd needs message format v2, and message.format.version or api.version.produce asks \
                 for v{magic}: choose another codec"
            )));
        }
        let (linger, request) = (self.millis("linger.ms"), self.millis("request.timeout.ms"));
        let delivery_timeout = self.millis("delivery.timeout.ms");
        if self.0.contains_key("delivery.timeout.ms") && delivery_timeout < linger + request {
            return Err(Error::configuration(format!(
                "delivery.timeout.ms ({}) must be at least linger.ms ({}) + request.timeout.ms ({})",
                delivery_timeout.as_millis(),
                linger.as_millis(),
                request.as_millis()
            )));
        }
        Ok(ProducerOptions {
            acks,
            enable_idempotence: idempotence,
            require_idempotence: asked_for,
            transactional_id,
            transaction_timeout: self.millis("transaction.timeout.ms"),
            max_in_flight: self.number("max.in.flight.requests.per.connection"),
            linger,
            retries: self.number("retries"),
            delivery_timeout: delivery_timeout.max(linger + request),
            batch_size: self.number("batch.size"),
            max_request_size: self.number("max.request.size"),
            compression,
            compression_level,
            magic,
            max_block: self.millis("max.block.ms"),
            buffer_memory: self.number("buffer.memory"),
            partitioner: match self.text("partitioner") {
                "round_robin" => Partitioner::RoundRobin,
                "consistent" => Partitioner::Consistent,
                "consistent_random" => Partitioner::ConsistentRandom,
                "fnv1a" => Partitioner::Fnv1a,
                "fnv1a_random" => Partitioner::Fnv1aRandom,
                _ => Partitioner::Murmur2,
            },
            partitioner_ignore_keys: self.flag("partitioner.ignore.keys"),
            partitioner_adaptive: self.flag("partitioner.adaptive.partitioning.enable"),
            partitioner_patience: Some(self.millis("partitioner.availability.timeout.ms"))
                .filter(|patience| !patience.is_zero()),
        })
    }

    /// What cannot be together with `transactional.id`.
    fn check_transactional(&self, acks: i16) -> Result<()> {
        let contradiction = if acks != -1 {
            format!("acks={acks}")
        } else if !self.flag("enable.idempotence") {
            "enable.idempotence=false".to_owned()
        } else if self.number::<u32>("retries") == 0 {
            "retries=0".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::configuration(format!(
            "transactional.id needs acks=all, enable.idempotence=true and retries, not {contradiction}: change one of them"
        )))
    }

    fn given(&self, name: &str) -> Option<String> {
        Some(self.text(name).to_owned()).filter(|text| !text.is_empty())
    }

    fn group(&self) -> Result<GroupOptions> {
        let protocol = match self.text("group.protocol") {
            "consumer" => GroupProtocol::Consumer,
            _ => GroupProtocol::Classic,
        };
        if protocol == GroupProtocol::Consumer {
            // The coordinator decides these for all members (KIP-848): whoever sets them should know.
            for name in ["partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"] {
                if self.0.contains_key(name) {
                    return Err(Error::configuration(format!(
                        "option {name} means nothing with group.protocol=consumer, where the broker decides: leave it out"
                    )));
                }
            }
        } else if self.0.contains_key("group.remote.assignor") {
            return Err(Error::configuration(
                "option group.remote.assignor needs group.protocol=consumer; with classic set partition.assignment.strategy",
            ));
        }
        let (session, heartbeat) = (self.millis("session.timeout.ms"), self.millis("heartbeat.interval.ms"));
        if heartbeat >= session {
            return Err(Error::configuration(format!(
                "heartbeat.interval.ms ({}) must be less than session.timeout.ms ({})",
                heartbeat.as_millis(),
                session.as_millis()
            )));
        }
        let strategies = self.text("partition.assignment.strategy");
        let assignors: Vec<String> =
            strategies.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if assignors.is_empty() {
            return Err(Error::configuration("option partition.assignment.strategy must name an assignor"));
        }
        let id = self.given("group.id");
        Ok(GroupOptions {
            instance_id: self.given("group.instance.id"),
            protocol,
            remote_assignor: self.given("group.remote.assignor"),
            assignors,
            session_timeout: session,
            heartbeat_interval: heartbeat,
            max_poll_interval: self.millis("max.poll.interval.ms"),
            auto_commit: (id.is_some() && self.flag("enable.auto.commit"))
                .then(|| self.millis("auto.commit.interval.ms")),
            auto_store: self.flag("enable.auto.offset.store"),
            exclude_internal_topics: self.flag("exclude.internal.topics"),
            id,
        })
    }

    fn offset_reset(&self) -> Result<OffsetReset> {
        let text = self.text("auto.offset.reset").trim();
        match text.to_ascii_lowercase().as_str() {
            "earliest" => return Ok(OffsetReset::Earliest),
            "latest" => return Ok(OffsetReset::Latest),
            "none" => return Ok(OffsetReset::None),
            _ => {}
        }
        text.strip_prefix("by_duration:").and_then(duration::parse).map(OffsetReset::ByDuration).ok_or_else(|| {
            Error::configuration(format!(
                "option auto.offset.reset must be latest, earliest, none or by_duration: and an ISO 8601 duration \
                 (by_duration:PT24H), not {text:?}"
            ))
        })
    }

    fn consumer(&self) -> Result<ConsumerOptions> {
        Ok(ConsumerOptions {
            group: self.group()?,
            client_rack: self.text("client.rack").to_owned(),
            auto_offset_reset: self.offset_reset()?,
            isolation_level: match self.text("isolation.level") {
                "read_committed" => IsolationLevel::ReadCommitted,
                _ => IsolationLevel::ReadUncommitted,
            },
            fetch_min_bytes: self.number("fetch.min.bytes"),
            fetch_max_wait: self.millis("fetch.max.wait.ms"),
            fetch_max_bytes: self.number("fetch.max.bytes"),
            max_partition_fetch_bytes: self.number("max.partition.fetch.bytes"),
            queued_max_bytes: self.number("queued.max.bytes"),
            max_poll_records: self.number("max.poll.records"),
            check_crcs: self.flag("check.crcs"),
            max_decompressed_bytes: self.number("max.decompressed.bytes"),
            max_decompressed_ratio: self.number("max.decompressed.ratio"),
            layout: if self.text("layout") == "view" { Layout::View } else { Layout::Binary },
            include_headers: self.flag("include.headers"),
            include_leader_epoch: self.flag("include.leader.epoch"),
        })
    }
}

#[cfg(test)]
#[allow(clippy::type_complexity, reason = "a table of cases")]
mod tests {
    use super::*;

    fn parse(kind: ClientKind, pairs: &[(&str, OptionValue)]) -> Result<Options> {
        let servers = ("bootstrap.servers".to_owned(), OptionValue::Str("h:1".into()));
        let given = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        Options::parse(kind, std::iter::once(servers).chain(given))
    }

    fn text(value: &str) -> OptionValue {
        OptionValue::Str(value.into())
    }

    #[test]
    fn every_default_is_of_its_kind() {
        for spec in OPTIONS {
            let default = OptionValue::Str(spec.default.into());
            assert!(spec.default.is_empty() || spec.kind.accept(&default).is_some(), "{}", spec.name);
            assert_eq!(OPTIONS.iter().filter(|other| other.name == spec.name).count(), 1, "{}", spec.name);
            assert!(!NOT_YET.contains(&spec.name), "{}", spec.name);
        }
    }

    #[test]
    fn defaults_are_javas() {
        let options = parse(ClientKind::Producer, &[]).unwrap();
        assert_eq!(options.producer.acks, -1);
        assert!(options.producer.enable_idempotence);
        assert_eq!(options.producer.linger, Duration::from_millis(5));
        assert_eq!(options.common.request_timeout, Duration::from_secs(30));
        assert_eq!(options.consumer.auto_offset_reset, OffsetReset::Latest);
        assert_eq!(options.consumer.max_partition_fetch_bytes, 16 << 20);
    }

    #[test]
    fn dotted_snake_case_and_other_names_reach_one_option() {
        for name in ["fetch.max.wait.ms", "fetch_max_wait_ms", "fetch.wait.max.ms"] {
            let options = parse(ClientKind::Consumer, &[(name, OptionValue::Int(7))]).unwrap();
            assert_eq!(options.consumer.fetch_max_wait, Duration::from_millis(7));
        }
        let version = ("api_version_offset_commit", OptionValue::Int(0));
        let options = parse(ClientKind::Consumer, &[version]).unwrap();
        assert_eq!(options.common.api_versions.get("OffsetCommit"), Some(&0));
    }

    #[test]
    fn errors_name_the_option_and_what_it_takes() {
        let cases: &[(ClientKind, &[(&str, OptionValue)], &str)] = &[
            (
                ClientKind::Consumer,
                &[("fetch.min.bites", OptionValue::Int(1))],
                "option fetch.min.bites is unknown; the nearest is fetch.min.bytes",
            ),
            (
                ClientKind::Consumer,
                &[("fetch.min.bytes", text("many"))],
                "option fetch.min.bytes must be whole number, at least 0, not \"many\"",
            ),
            (ClientKind::Producer, &[("acks", OptionValue::Int(2))], "option acks must be all, -1, 0, 1, not 2"),
            (
                ClientKind::Producer,
                &[("linger.ms", OptionValue::Int(1)), ("linger_ms", OptionValue::Int(1))],
                "option linger.ms is given twice, under two spellings or in the mapping and as a keyword",
            ),
            (
                ClientKind::Producer,
                &[("group.id", text("g"))],
                "option group.id belongs to a consumer, not to this client (Producer)",
            ),
            (
                ClientKind::Producer,
                &[("interceptor.classes", text("x"))],
                "option interceptor.classes is not available in this version of samsarrow",
            ),
            (
                ClientKind::Consumer,
                &[("ssl_cafile", text("x"))],
                "option ssl_cafile is not available in this version of samsarrow",
            ),
            (
                ClientKind::Producer,
                &[("acks", OptionValue::Int(1)), ("enable.idempotence", OptionValue::Bool(true))],
                "enable.idempotence=true needs acks=all, not acks=1: change one of them",
            ),
            (
                ClientKind::Producer,
                &[("transactional.id", text("x")), ("acks", OptionValue::Int(1))],
                "transactional.id needs acks=all, enable.idempotence=true and retries, not acks=1: change one of them",
            ),
            (
                ClientKind::Admin,
                &[("api.version.lunch", OptionValue::Int(1))],
                "option api.version.lunch names no API that this client speaks",
            ),
        ];
        for (kind, pairs, wanted) in cases {
            assert_eq!(parse(*kind, pairs).unwrap_err().to_string(), *wanted);
        }
        for server in ["", " , ", "nowhere", ":9092", "h:0", "h:99999"] {
            let pairs = [("bootstrap.servers".to_owned(), text(server))];
            let error = Options::parse(ClientKind::Admin, pairs).unwrap_err().to_string();
            assert!(error.contains("bootstrap.servers"), "{error}");
        }
    }

    #[test]
    fn the_effective_options_can_be_printed_without_secrets() {
        let given = [("fetch_max_wait_ms", OptionValue::Int(7)), ("api.version.offset_commit", OptionValue::Int(1))];
        let printed = parse(ClientKind::Consumer, &given).unwrap().to_string();
        for line in ["fetch.max.wait.ms = 7", "check.crcs = true", "api.version.OffsetCommit = 1"] {
            assert!(printed.lines().any(|l| l == line), "{line} in {printed}");
        }
        assert!(!printed.contains("acks"), "options of other clients are no business of a consumer's");
        assert!(is_secret("sasl.password") && is_secret("ssl.key.password") && !is_secret("group.id"));
    }

    #[test]
    fn idempotence_gives_way_to_acks_unless_asked_for() {
        let options = parse(ClientKind::Producer, &[("acks", OptionValue::Int(1))]).unwrap();
        assert!(!options.producer.enable_idempotence);
    }
}
