//! Use of byte rates, and the throttle times of clients that exceed them (KIP-124, KIP-219).

use std::time::Duration;

use samsarrow_wire::sync::lock;
use tokio::time::Instant;

use super::State;
use super::configs::{QuotaEntity, Quotas};
use crate::collections::HashMap;

/// Time over which Kafka averages a rate: the ten complete windows of a second that `quota.window.num` keeps.
const WINDOW: f64 = 10.0;
/// Principal of clients that have not logged in.
const ANONYMOUS: &str = "ANONYMOUS";

/// Quota on bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ByteRate {
    /// Bytes of Produce requests.
    Produced,
    /// Bytes of Fetch responses.
    Consumed,
}

impl ByteRate {
    fn key(self) -> &'static str {
        match self {
            Self::Produced => "producer_byte_rate",
            Self::Consumed => "consumer_byte_rate",
        }
    }
}

/// Clients that share a rate at a node: the user and the client id, each if the quota is for one of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Sharers {
    node: i32,
    rate: ByteRate,
    user: Option<String>,
    client_id: Option<String>,
}

/// Bytes that clients have sent or received, as the time that they take at their rate.
#[derive(Debug)]
pub(crate) struct Usage {
    /// Seconds by which the use exceeds the average rate; at least −`WINDOW`.
    excess: f64,
    at: Instant,
}

impl Usage {
    fn new(now: Instant) -> Self {
        Self { excess: -WINDOW, at: now }
    }

    /// Returns the excess in seconds after a transfer of bytes.
    fn after(&self, bytes: usize, rate: f64, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.excess - elapsed).max(-WINDOW) + bytes as f64 / rate
    }
}

pub(crate) type Usages = HashMap<Sharers, Usage>;

/// Returns the rate that applies to a client, and whether it belongs to the user and to the client id. Quotas of users
/// come before those of client ids, and those of a name before defaults.
fn applicable(quotas: &Quotas, rate: ByteRate, user: &str, client_id: &str) -> Option<(f64, bool, bool)> {
    let client = |name: Option<&str>| ("client-id".to_owned(), name.map(str::to_owned));
    let of_user = |name: Option<&str>| ("user".to_owned(), name.map(str::to_owned));
    let both = [Some(user), None].into_iter().flat_map(|user| {
        let with_client = [Some(client_id), None].map(|id| (vec![client(id), of_user(user)], true, true));
        with_client.into_iter().chain([(vec![of_user(user)], true, false)])
    });
    let all = both.chain([Some(client_id), None].map(|id| (vec![client(id)], false, true)));
    all.into_iter().find_map(|(entity, by_user, by_client)| {
        let value = quotas.get(&entity)?.get(rate.key()).copied()?;
        Some((value.max(f64::MIN_POSITIVE), by_user, by_client))
    })
}

impl State {
    /// Sets or removes a quota of an entity.
    pub(crate) fn set_quota(&self, mut entity: QuotaEntity, key: &str, value: Option<f64>) {
        entity.sort();
        let mut quotas = lock(&self.quotas);
        let values = quotas.entry(entity.clone()).or_default();
        match value {
            Some(value) => drop(values.insert(key.to_owned(), value)),
            None => drop(values.remove(key)),
        }
        if values.is_empty() {
            quotas.remove(&entity);
        }
    }

    fn sharers(&self, node: i32, rate: ByteRate, principal: Option<&str>, client_id: &str) -> Option<(f64, Sharers)> {
        let user = principal.unwrap_or(ANONYMOUS);
        let (value, by_user, by_client) = applicable(&lock(&self.quotas), rate, user, client_id)?;
        let sharers = Sharers {
            node,
            rate,
            user: by_user.then(|| user.to_owned()),
            client_id: by_client.then(|| client_id.to_owned()),
        };
        Some((value, sharers))
    }

    /// Returns the largest transfer within the rate of a client; `None` without a quota.
    pub(crate) fn max_transfer(
        &self,
        node: i32,
        rate: ByteRate,
        principal: Option<&str>,
        client_id: &str,
    ) -> Option<usize> {
        self.sharers(node, rate, principal, client_id).map(|(value, _)| (value * WINDOW) as usize)
    }

    /// Records a transfer, and returns the time for which the client is throttled. A transfer of fetched bytes that
    /// exceeds the rate is not recorded, because the response is sent without records.
    pub(crate) fn record_transfer(
        &self,
        node: i32,
        rate: ByteRate,
        (principal, client_id): (Option<&str>, &str),
        bytes: usize,
    ) -> Duration {
        let Some((value, sharers)) = self.sharers(node, rate, principal, client_id) else { return Duration::ZERO };
        let now = Instant::now();
        let mut usages = lock(&self.quota_usages);
        let usage = usages.entry(sharers).or_insert_with(|| Usage::new(now));
        let unused = usage.after(0, value, now) <= -WINDOW;
        let excess = usage.after(bytes, value, now);
        // The first batch of a response may exceed the whole window, and would otherwise never be returned.
        if excess > 0.0 && rate == ByteRate::Consumed && !unused {
            return Duration::try_from_secs_f64(excess).unwrap_or(Duration::MAX);
        }
        *usage = Usage { excess, at: now };
        match rate {
            ByteRate::Consumed => Duration::ZERO,
            ByteRate::Produced => Duration::try_from_secs_f64(excess.max(0.0)).unwrap_or(Duration::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn quotas_of_users_and_of_names_come_first() {
        let entity = |parts: &[(&str, Option<&str>)]| {
            parts.iter().map(|(kind, name)| ((*kind).to_owned(), name.map(str::to_owned))).collect::<Vec<_>>()
        };
        let mut quotas = Quotas::new();
        let mut add = |parts: &[(&str, Option<&str>)], value: f64| {
            quotas.insert(entity(parts), BTreeMap::from([("producer_byte_rate".to_owned(), value)]));
            let rate = |rate| applicable(&quotas, rate, "u", "c");
            assert_eq!(rate(ByteRate::Consumed), None);
            rate(ByteRate::Produced)
        };
        assert_eq!(add(&[("client-id", None)], 1.0), Some((1.0, false, true)));
        assert_eq!(add(&[("client-id", Some("c"))], 2.0), Some((2.0, false, true)));
        assert_eq!(add(&[("client-id", Some("other"))], 3.0), Some((2.0, false, true)));
        assert_eq!(add(&[("user", None)], 4.0), Some((4.0, true, false)));
        assert_eq!(add(&[("client-id", None), ("user", None)], 5.0), Some((5.0, true, true)));
        assert_eq!(add(&[("user", Some("u"))], 6.0), Some((6.0, true, false)));
        assert_eq!(add(&[("client-id", Some("c")), ("user", Some("u"))], 7.0), Some((7.0, true, true)));
    }

    #[test]
    fn excess_shrinks_with_time() {
        let start = Instant::now();
        let mut usage = Usage::new(start);
        assert_eq!(usage.after(1000, 100.0, start), 0.0);
        usage.excess = usage.after(1500, 100.0, start);
        assert_eq!(usage.excess, 5.0);
        assert_eq!(usage.after(0, 100.0, start + Duration::from_secs(3)), 2.0);
        assert_eq!(usage.after(100, 100.0, start + Duration::from_secs(60)), 1.0 - WINDOW);
    }
}
