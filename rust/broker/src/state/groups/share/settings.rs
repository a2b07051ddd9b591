//! Settings of share groups: the broker's options, and the group configs that override them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::options::{GroupOptions, ShareOptions};
use crate::state::State;
use crate::state::configs::GROUP;

const LOCK_DURATION: &str = "share.record.lock.duration.ms";
const DELIVERY_LIMIT: &str = "share.delivery.count.limit";
const RECORD_LOCKS: &str = "share.partition.max.record.locks";
const RENEW: &str = "share.renew.acknowledge.enable";
const ISOLATION: &str = "share.isolation.level";
const RESET: &str = "share.auto.offset.reset";
const SESSION_TIMEOUT: &str = "share.session.timeout.ms";
const HEARTBEAT_INTERVAL: &str = "share.heartbeat.interval.ms";

/// Effective settings of a share group.
#[derive(Debug, Clone)]
pub(crate) struct ShareSettings {
    pub(crate) lock: Duration,
    pub(crate) delivery_limit: i16,
    pub(crate) record_locks: i64,
    /// True if members may renew their locks (KIP-1222).
    pub(crate) renew: bool,
    /// True if aborted records are not delivered.
    pub(crate) committed_only: bool,
    /// True if a new group starts at the first record, false if it starts at the end.
    pub(crate) from_start: bool,
    pub(crate) session_timeout: Duration,
    pub(crate) heartbeat_interval: Duration,
}

impl ShareSettings {
    fn new(options: &ShareOptions, groups: &GroupOptions, configs: &BTreeMap<String, String>) -> Self {
        let number = |name: &str| configs.get(name).and_then(|value| value.parse::<i64>().ok());
        let millis = |name: &str, default: Duration| {
            number(name).and_then(|value| u64::try_from(value).ok()).map_or(default, Duration::from_millis)
        };
        let is = |name: &str, value: &str| configs.get(name).is_some_and(|set| set == value);
        ShareSettings {
            lock: millis(LOCK_DURATION, options.lock),
            delivery_limit: number(DELIVERY_LIMIT)
                .and_then(|value| i16::try_from(value).ok())
                .unwrap_or(options.delivery_limit),
            record_locks: number(RECORD_LOCKS).unwrap_or(options.record_locks.into()),
            renew: !is(RENEW, "false"),
            committed_only: is(ISOLATION, "read_committed"),
            from_start: is(RESET, "earliest"),
            session_timeout: millis(SESSION_TIMEOUT, groups.consumer_session_timeout),
            heartbeat_interval: millis(HEARTBEAT_INTERVAL, groups.consumer_heartbeat_interval),
        }
    }
}

impl State {
    /// Returns the effective settings of a share group.
    pub(crate) fn share_settings(&self, group: &str) -> ShareSettings {
        let configs = self.explicit_configs(&(GROUP, group.to_owned()));
        ShareSettings::new(&self.options.shares, &self.options.groups, &configs)
    }
}
