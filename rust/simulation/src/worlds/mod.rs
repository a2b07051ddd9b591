//! Worlds: topics, clients and the guarantees that hold for them.

mod deliveries;
mod fetch;
mod groups;
mod produce;
mod records;
mod shares;
mod topics;
mod transactions;

use std::io;
use std::time::Duration;

use samsarrow_broker::{
    Broker, BrokerOptions, Mechanism, Protocol, Release, SecurityOptions, ShareOptions, TransactionOptions, Users,
};
use samsarrow_simnet::Network;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

use crate::context::Context;
use crate::events::Parts;
use crate::options::USER;

/// Kind of clients in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum World {
    /// Producers, plain and idempotent.
    Produce,
    /// Consumers with assigned partitions, whose logs are truncated.
    Fetch,
    /// Members of consumer groups, classic and KIP-848.
    Groups,
    /// Members of a share group, implicit and explicit.
    Shares,
    /// Members that copy rows in transactions.
    Transactions,
    /// Members and producers of a topic that is deleted, created and grown.
    Topics,
    /// The clients of `produce`, `groups` or `transactions` during a rolling upgrade of the brokers.
    Upgrade,
    /// The clients of `produce`, `fetch` or `groups`, which log in and whose logins are sometimes rejected.
    Logins,
    /// The clients of `produce`, `fetch`, `groups` or `transactions`, which are throttled because of quotas.
    Quotas,
}

/// Errors that brokers return for Produce.
const LEADER: &[ErrorCode] =
    &[ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::REQUEST_TIMED_OUT, ErrorCode::KAFKA_STORAGE_ERROR];
/// Errors that brokers return for reads of a partition.
const READ: &[ErrorCode] = &[ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::KAFKA_STORAGE_ERROR];
/// Errors that brokers return for requests of a share session.
const SHARE: &[ErrorCode] = &[ErrorCode::SHARE_SESSION_NOT_FOUND, ErrorCode::INVALID_SHARE_SESSION_EPOCH];
/// Errors that brokers return for any request to a coordinator.
const COORDINATOR: &[ErrorCode] =
    &[ErrorCode::NOT_COORDINATOR, ErrorCode::COORDINATOR_NOT_AVAILABLE, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS];
/// Errors that the controller returns.
const CONTROLLER: &[ErrorCode] = &[ErrorCode::NOT_CONTROLLER, ErrorCode::REQUEST_TIMED_OUT];

impl World {
    /// All worlds.
    pub const ALL: [World; 9] = [
        World::Produce,
        World::Fetch,
        World::Groups,
        World::Shares,
        World::Transactions,
        World::Topics,
        World::Upgrade,
        World::Logins,
        World::Quotas,
    ];

    /// Returns the name, as the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Fetch => "fetch",
            Self::Groups => "groups",
            Self::Shares => "shares",
            Self::Transactions => "transactions",
            Self::Topics => "topics",
            Self::Upgrade => "upgrade",
            Self::Logins => "logins",
            Self::Quotas => "quotas",
        }
    }

    /// Returns the world whose clients run in this world.
    pub(crate) fn program(self, random: &mut fastrand::Rng) -> World {
        match self {
            Self::Upgrade => random.choice([Self::Produce, Self::Groups, Self::Transactions]).unwrap_or(Self::Groups),
            Self::Logins => random.choice([Self::Produce, Self::Fetch, Self::Groups]).unwrap_or(Self::Groups),
            Self::Quotas => {
                let programs = [Self::Produce, Self::Fetch, Self::Groups, Self::Transactions];
                random.choice(programs).unwrap_or(Self::Groups)
            }
            other => other,
        }
    }

    /// Draws the time after which clients log in again, in a world with logins.
    pub(crate) fn add_logins(self, parts: &mut Parts, random: &mut fastrand::Rng) {
        if self == Self::Logins {
            parts.session_lifetime = Some(Duration::from_secs(if random.bool() { random.u64(2..60) } else { 0 }));
            parts.apis.extend([(ApiKey::SaslHandshake, &[] as &[ErrorCode]), (ApiKey::SaslAuthenticate, &[])]);
        }
    }

    /// Draws the releases before and after a rolling upgrade.
    pub(crate) fn releases(self, program: World, random: &mut fastrand::Rng) -> Option<(Release, Release)> {
        // Idempotence begins with 0.11, and the fencing of offsets in transactions with 2.5 (KIP-447).
        let first = Release::named(if program == Self::Transactions { "2.5" } else { "0.11.0" })?;
        let known: Vec<Release> = Release::ALL.iter().copied().filter(|release| *release >= first).collect();
        let old = (self == Self::Upgrade).then(|| random.usize(..known.len() - 1))?;
        Some((*known.get(old)?, *known.get(random.usize(old + 1..known.len()))?))
    }

    /// Draws the parts that events refer to.
    pub(crate) fn parts(self, random: &mut fastrand::Rng) -> Parts {
        let topics: &[&str] = match self {
            Self::Produce | Self::Fetch | Self::Topics => &["t"],
            Self::Groups | Self::Upgrade | Self::Logins | Self::Quotas => &["a", "b"],
            Self::Shares => &["q"],
            Self::Transactions => &["in", "out"],
        };
        let partitions = random.i32(1..4);
        let mut parts = Parts { nodes: random.i32(3..6), ..Parts::default() };
        parts.partitions =
            topics.iter().flat_map(|topic| (0..partitions).map(|index| ((*topic).to_owned(), index))).collect();
        parts.apis = vec![(ApiKey::Produce, LEADER), (ApiKey::Metadata, &[ErrorCode::LEADER_NOT_AVAILABLE])];
        parts.apis.push((ApiKey::ApiVersions, &[]));
        if matches!(self, Self::Produce | Self::Transactions) {
            parts.apis.push((ApiKey::InitProducerId, COORDINATOR));
        }
        if self == Self::Shares {
            parts.groups = vec!["g".to_owned()];
            parts.apis.extend([
                (ApiKey::FindCoordinator, &[ErrorCode::COORDINATOR_NOT_AVAILABLE] as &[ErrorCode]),
                (ApiKey::ShareGroupHeartbeat, COORDINATOR),
                (ApiKey::ShareFetch, SHARE),
                (ApiKey::ShareAcknowledge, SHARE),
            ]);
        } else if self != Self::Produce {
            parts.apis.extend([
                (ApiKey::Fetch, READ),
                (ApiKey::ListOffsets, READ),
                (ApiKey::OffsetForLeaderEpoch, READ),
            ]);
        }
        parts.truncates = self == Self::Fetch;
        if matches!(self, Self::Groups | Self::Transactions | Self::Topics) {
            parts.groups = vec!["g".to_owned()];
            parts.apis.extend([
                (ApiKey::FindCoordinator, &[ErrorCode::COORDINATOR_NOT_AVAILABLE] as &[ErrorCode]),
                (ApiKey::OffsetFetch, COORDINATOR),
                (ApiKey::JoinGroup, COORDINATOR),
                (ApiKey::SyncGroup, COORDINATOR),
                (ApiKey::Heartbeat, COORDINATOR),
                (ApiKey::LeaveGroup, COORDINATOR),
                (ApiKey::ConsumerGroupHeartbeat, COORDINATOR),
                (ApiKey::OffsetCommit, COORDINATOR),
            ]);
        }
        if self == Self::Topics {
            parts.apis.extend([
                (ApiKey::CreateTopics, CONTROLLER),
                (ApiKey::DeleteTopics, CONTROLLER),
                (ApiKey::CreatePartitions, CONTROLLER),
            ]);
        }
        if self == Self::Transactions {
            parts.transactional_ids = vec!["copy-0".to_owned(), "copy-1".to_owned()];
            parts.apis.extend([
                (ApiKey::AddPartitionsToTxn, COORDINATOR),
                (ApiKey::AddOffsetsToTxn, COORDINATOR),
                (ApiKey::TxnOffsetCommit, COORDINATOR),
                (ApiKey::EndTxn, COORDINATOR),
            ]);
        }
        parts
    }

    /// Returns the size of the largest batch that brokers accept. In some runs, batches of several records are rejected
    /// and split. The generator is a copy, so that other draws do not depend on this one.
    fn message_max_bytes(self, mut random: fastrand::Rng) -> usize {
        let splits = matches!(self, Self::Produce | Self::Transactions) && random.u8(..) < 64;
        if splits { 120 } else { BrokerOptions::default().message_max_bytes }
    }

    /// Returns the maximum number of deliveries of a record in a share group. The generator is a copy, so that other
    /// draws do not depend on this one.
    pub(crate) fn delivery_limit(mut random: fastrand::Rng) -> i16 {
        if random.bool() { shares::UNLIMITED } else { 5 }
    }

    /// Starts the broker of a run.
    pub(crate) async fn start_broker(
        self,
        network: &Network,
        parts: &Parts,
        random: &mut fastrand::Rng,
    ) -> io::Result<Broker> {
        let mut topics: Vec<(String, i32)> = Vec::new();
        for (topic, _) in &parts.partitions {
            match topics.iter_mut().find(|(name, _)| name == topic) {
                Some((_, count)) => *count += 1,
                None => topics.push((topic.clone(), 1)),
            }
        }
        let mut transactions = TransactionOptions { version: random.i16(0..3), ..TransactionOptions::default() };
        // An upgrade does not raise the levels of features.
        if parts.releases.is_some() {
            transactions.version = 0;
        }
        // Before transaction version 2, a late EndTxn ends the next transaction, which only the broker can prevent
        // (KIP-890).
        if self == Self::Transactions && transactions.version < 2 {
            network.discard_late_bytes();
        }
        Broker::start(BrokerOptions {
            brokers: usize::try_from(parts.nodes).unwrap_or(1),
            topics,
            auto_create_topics: false,
            message_max_bytes: self.message_max_bytes(random.clone()),
            fetch_sessions: if random.bool() { 100 } else { 0 },
            transactions,
            security: parts.session_lifetime.map_or_else(SecurityOptions::default, |lifetime| SecurityOptions {
                protocol: Protocol::SaslPlaintext,
                users: Users::from_iter([USER]),
                mechanisms: vec![Mechanism::Plain],
                session_lifetime: Some(lifetime).filter(|lifetime| !lifetime.is_zero()),
                ..SecurityOptions::default()
            }),
            kafka: parts.releases.map(|(old, _)| old),
            shares: ShareOptions {
                lock: Duration::from_secs(10),
                delivery_limit: parts.delivery_limit,
                ..ShareOptions::default()
            },
            ..BrokerOptions::default()
        })
        .await
    }

    /// Runs the programs of the world until they have completed, and checks the results.
    pub(crate) async fn run(self, context: Context, random: fastrand::Rng) {
        match self {
            Self::Produce => produce::run(context, random).await,
            Self::Fetch => fetch::run(context, random).await,
            Self::Groups | Self::Upgrade | Self::Logins | Self::Quotas => groups::run(context, random).await,
            Self::Shares => {
                let limit = context.delivery_limit;
                shares::run(context, random, limit).await;
            }
            Self::Transactions => transactions::run(context, random).await,
            Self::Topics => topics::run(context, random).await,
        }
    }
}
