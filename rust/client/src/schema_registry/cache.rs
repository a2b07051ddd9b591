//! Cache of schemas, of not-found results (for a limited time), and of pending requests.

use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use samsarrow_wire::sync::lock;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::collections::HashMap;
use crate::error::{Error, Result};

/// Maximum number of not-found results in the cache. It is limited because a payload without a registry header yields
/// an arbitrary id.
const MAX_MISSING: usize = 10_000;

type Outcome<V> = Option<Result<V>>;

#[derive(Debug)]
enum Entry<V> {
    Known(V),
    Missing(Error, Instant),
    InFlight(watch::Receiver<Outcome<V>>),
}

/// Cache of values by key. Clones share their entries.
#[derive(Debug)]
pub(super) struct Cache<K, V> {
    entries: Arc<Mutex<HashMap<K, Entry<V>>>>,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self { entries: Arc::default() }
    }
}

impl<K, V> Cache<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Returns the value of a key from the cache or from a pending request; otherwise fetches it.
    ///
    /// The request continues if the caller stops waiting, because others may wait for it. A not-found result is cached
    /// for `missing_ttl`. Other errors are returned to the callers that wait for the request, but are not cached.
    ///
    /// # Errors
    /// Fails if `fetch` fails.
    pub(super) async fn get<F>(&self, key: K, missing_ttl: Duration, fetch: impl FnOnce() -> F) -> Result<V>
    where
        F: Future<Output = Result<V>> + Send + 'static,
    {
        let mut pending = match self.get_or_start(key, missing_ttl, fetch) {
            Ok(done) => return done,
            Err(pending) => pending,
        };
        let outcome = pending.wait_for(Option::is_some).await;
        let outcome = outcome.ok().and_then(|outcome| outcome.clone());
        outcome.unwrap_or_else(|| Err(Error::closed("the schema registry's client")))
    }

    /// Returns the cached value or the receiver of a pending request. Starts a request if there is neither.
    fn get_or_start<F>(
        &self,
        key: K,
        missing_ttl: Duration,
        fetch: impl FnOnce() -> F,
    ) -> std::result::Result<Result<V>, watch::Receiver<Outcome<V>>>
    where
        F: Future<Output = Result<V>> + Send + 'static,
    {
        let mut entries = lock(&self.entries);
        match entries.get(&key) {
            Some(Entry::Known(value)) => return Ok(Ok(value.clone())),
            Some(Entry::Missing(error, until)) if Instant::now() < *until => return Ok(Err(error.clone())),
            // A pending request whose task was aborted is ignored.
            Some(Entry::InFlight(pending)) if pending.has_changed().is_ok() => return Err(pending.clone()),
            _ => (),
        }
        let (sender, pending) = watch::channel(None);
        entries.insert(key.clone(), Entry::InFlight(pending.clone()));
        drop(entries);
        let (shared, work) = (Arc::clone(&self.entries), fetch());
        tokio::spawn(async move {
            let outcome = work.await;
            let mut entries = lock(&shared);
            match &outcome {
                Ok(value) => {
                    entries.insert(key, Entry::Known(value.clone()));
                }
                Err(error @ Error::SchemaNotFound(_)) if !missing_ttl.is_zero() => {
                    evict_missing(&mut entries);
                    entries.insert(key, Entry::Missing(error.clone(), Instant::now() + missing_ttl));
                }
                Err(_) => {
                    entries.remove(&key);
                }
            }
            drop(entries);
            sender.send_replace(Some(outcome));
        });
        Err(pending)
    }

    /// Stores a value that another response contained.
    pub(super) fn put(&self, key: K, value: V) {
        lock(&self.entries).insert(key, Entry::Known(value));
    }

    /// Removes the cached not-found results, so that the next lookup sends a request again.
    pub(super) fn forget_missing(&self) {
        lock(&self.entries).retain(|_, entry| !matches!(entry, Entry::Missing(..)));
    }
}

fn evict_missing<K: Eq + Hash, V>(entries: &mut HashMap<K, Entry<V>>) {
    let missing = |entries: &HashMap<K, Entry<V>>| entries.values().filter(|e| matches!(e, Entry::Missing(..))).count();
    if entries.len() < MAX_MISSING || missing(entries) < MAX_MISSING {
        return;
    }
    let now = Instant::now();
    entries.retain(|_, entry| !matches!(entry, Entry::Missing(_, until) if *until <= now));
    if missing(entries) >= MAX_MISSING {
        entries.retain(|_, entry| !matches!(entry, Entry::Missing(..)));
    }
}
