//! Settings of share groups: the broker's options, and the group configs that override them.

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;

use crate::clock::now_ms;
use crate::log::search;
use crate::options::{GroupOptions, ShareOptions};
use crate::state::State;
use crate::state::configs::GROUP;
use crate::state::topic::PartitionState;
use crate::state::topic_creation::Rejection;

const LOCK_DURATION: &str = "share.record.lock.duration.ms";
const DELIVERY_LIMIT: &str = "share.delivery.count.limit";
const RECORD_LOCKS: &str = "share.partition.max.record.locks";
const RENEW: &str = "share.renew.acknowledge.enable";
const ISOLATION: &str = "share.isolation.level";
const RESET: &str = "share.auto.offset.reset";
const BY_DURATION: &str = "by_duration:";
const SESSION_TIMEOUT: &str = "share.session.timeout.ms";
const HEARTBEAT_INTERVAL: &str = "share.heartbeat.interval.ms";

/// Start of a share group in a partition without a start offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reset {
    Earliest,
    Latest,
    /// At the first record that is not older than this.
    ByDuration(Duration),
}

impl Reset {
    /// Reads a value of `share.auto.offset.reset`.
    fn parse(value: &str) -> Option<Self> {
        match value {
            "earliest" => Some(Reset::Earliest),
            "latest" => Some(Reset::Latest),
            _ => value.strip_prefix(BY_DURATION).and_then(iso_duration).map(Reset::ByDuration),
        }
    }

    /// Returns the offset at which a group starts in a partition.
    pub(super) fn offset(self, log: &PartitionState) -> i64 {
        match self {
            Reset::Earliest => log.log.start_offset(),
            Reset::Latest => log.log.next_offset(),
            Reset::ByDuration(age) => {
                let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
                let from = now_ms().saturating_sub(age);
                let found = log.log.batch_at_time(from);
                let found = found.and_then(|batch| search::at_or_after(batch, from, log.log.start_offset()));
                found.map_or(log.log.next_offset(), |record| record.offset)
            }
        }
    }
}

/// Reads a duration in the format of ISO 8601, such as `P1DT2H30M10S`.
fn iso_duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('P').filter(|rest| !rest.is_empty())?;
    let mut total = Duration::ZERO;
    let mut is_time = false;
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('T') {
            (rest, is_time) = (time, true);
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest.get(..end)?.parse().ok()?;
        let seconds = match (rest.get(end..=end)?, is_time) {
            ("D", false) => 24 * 60 * 60,
            ("H", true) => 60 * 60,
            ("M", true) => 60,
            ("S", true) => 1,
            _ => return None,
        };
        total = total.checked_add(Duration::from_secs(number.checked_mul(seconds)?))?;
        rest = rest.get(end + 1..)?;
    }
    Some(total)
}

/// Checks the value of a group config that affects share groups. Configs with other names are accepted.
pub(crate) fn check_config(name: &str, value: &str) -> Result<(), Rejection> {
    let is_valid = match name {
        RESET => Reset::parse(value).is_some(),
        RENEW => matches!(value, "true" | "false"),
        ISOLATION => matches!(value, "read_committed" | "read_uncommitted"),
        DELIVERY_LIMIT => value.parse::<i16>().is_ok_and(|number| number > 0),
        LOCK_DURATION | RECORD_LOCKS | SESSION_TIMEOUT | HEARTBEAT_INTERVAL => {
            value.parse::<i32>().is_ok_and(|number| number > 0)
        }
        _ => true,
    };
    match is_valid {
        true => Ok(()),
        false => Err((ErrorCode::INVALID_CONFIG, format!("Invalid value {value} for configuration {name}"))),
    }
}

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
    pub(crate) reset: Reset,
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
            reset: configs.get(RESET).and_then(|value| Reset::parse(value)).unwrap_or(Reset::Latest),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_durations() {
        let hour = Duration::from_secs(3600);
        for (text, expected) in [
            ("PT1H", Some(hour)),
            ("P1DT2H3M4S", Some(26 * hour + Duration::from_secs(184))),
            ("P", None),
            ("1H", None),
            ("PT", Some(Duration::ZERO)),
            ("P1H", None),
            ("PT1", None),
            ("PT99999999999999999999H", None),
        ] {
            assert_eq!(iso_duration(text), expected, "{text}");
        }
    }

    #[test]
    fn invalid_configs_are_rejected() {
        for (name, valid, invalid) in [
            (RESET, "by_duration:PT1H", "middle"),
            (ISOLATION, "read_committed", "committed"),
            (LOCK_DURATION, "1000", "0"),
            (DELIVERY_LIMIT, "5", "x"),
            (RENEW, "false", "no"),
        ] {
            assert!(check_config(name, valid).is_ok() && check_config(name, invalid).is_err(), "{name}");
        }
        assert!(check_config("consumer.session.timeout.ms", "x").is_ok());
    }
}
