//! What was fetched, for ever; what is not there, for a while; what is being fetched, once.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::{Error, Result};

/// Ids that are not there, and are remembered: bytes that are no frames may name any.
const MOST_MISSING: usize = 10_000;

type Outcome<V> = Option<Result<V>>;

#[derive(Debug)]
enum Entry<V> {
    Known(V),
    Missing(Error, Instant),
    Flying(watch::Receiver<Outcome<V>>),
}

/// Values by what names them. Clones share it.
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
    /// The value; `fetch` has it fetched where nobody does so yet. That goes on if the caller stops waiting, because
    /// others may wait for it. That it is not there holds for `kept`; any other error for this call and those that wait
    /// with it.
    ///
    /// # Errors
    /// Those of `fetch`.
    pub(super) async fn get<F>(&self, key: K, kept: Duration, fetch: impl FnOnce() -> F) -> Result<V>
    where
        F: Future<Output = Result<V>> + Send + 'static,
    {
        let mut flight = match self.look(key, kept, fetch) {
            Ok(done) => return done,
            Err(flight) => flight,
        };
        let landed = flight.wait_for(Option::is_some).await;
        let landed = landed.ok().and_then(|outcome| outcome.clone());
        landed.unwrap_or_else(|| Err(Error::closed("the schema registry's client")))
    }

    /// The value, or the flight that brings it.
    fn look<F>(
        &self,
        key: K,
        kept: Duration,
        fetch: impl FnOnce() -> F,
    ) -> std::result::Result<Result<V>, watch::Receiver<Outcome<V>>>
    where
        F: Future<Output = Result<V>> + Send + 'static,
    {
        let mut entries = lock(&self.entries);
        match entries.get(&key) {
            Some(Entry::Known(value)) => return Ok(Ok(value.clone())),
            Some(Entry::Missing(error, until)) if Instant::now() < *until => return Ok(Err(error.clone())),
            // One whose task was given up brings nothing.
            Some(Entry::Flying(flight)) if flight.has_changed().is_ok() => return Err(flight.clone()),
            _ => (),
        }
        let (land, flight) = watch::channel(None);
        entries.insert(key.clone(), Entry::Flying(flight.clone()));
        drop(entries);
        let (shared, work) = (Arc::clone(&self.entries), fetch());
        tokio::spawn(async move {
            let outcome = work.await;
            let mut entries = lock(&shared);
            match &outcome {
                Ok(value) => {
                    entries.insert(key, Entry::Known(value.clone()));
                }
                Err(error @ Error::SchemaNotFound(_)) if !kept.is_zero() => {
                    make_room(&mut entries);
                    entries.insert(key, Entry::Missing(error.clone(), Instant::now() + kept));
                }
                Err(_) => {
                    entries.remove(&key);
                }
            }
            drop(entries);
            land.send_replace(Some(outcome));
        });
        Err(flight)
    }

    /// Puts in what another answer had.
    pub(super) fn put(&self, key: K, value: V) {
        lock(&self.entries).insert(key, Entry::Known(value));
    }

    /// Has what was not there asked for again.
    pub(super) fn forget_missing(&self) {
        lock(&self.entries).retain(|_, entry| !matches!(entry, Entry::Missing(..)));
    }
}

fn make_room<K: Eq + Hash, V>(entries: &mut HashMap<K, Entry<V>>) {
    let missing = |entries: &HashMap<K, Entry<V>>| entries.values().filter(|e| matches!(e, Entry::Missing(..))).count();
    if entries.len() < MOST_MISSING || missing(entries) < MOST_MISSING {
        return;
    }
    let now = Instant::now();
    entries.retain(|_, entry| !matches!(entry, Entry::Missing(_, until) if *until <= now));
    if missing(entries) >= MOST_MISSING {
        entries.retain(|_, entry| !matches!(entry, Entry::Missing(..)));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
