//! Clients by their options: connections are shared by all tasks with the same ones, and outlive each of them for a while.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use samsarrow_client::config::ClientKind;
use samsarrow_client::consumer::Consumer;
use samsarrow_client::error::Result as ClientResult;
use samsarrow_client::schema_registry::Registry;
use samsarrow_client::types::TopicPartition;
use samsarrow_spark::here::Here;
use samsarrow_spark::options::Reading;
use samsarrow_spark::tokens::Token;
use samsarrow_spark::{Driver, ReadOptions};
use serde_json::Value;
use tokio::sync::{OnceCell, watch};
use zeroize::Zeroizing;

use crate::decoded::Learned;
use crate::failure::{Failure, Result};
use crate::idle::IDLE;
use crate::pool::Pool;
use crate::producers::Producers;
use crate::runtime::runtime;

type Given = BTreeMap<String, String>;

/// Closes the consumer that has been idle for longest, of all clients; whether there was one.
pub(crate) fn evict_oldest() -> bool {
    let known = lock(&SHARED);
    let oldest = known.iter().filter_map(|(shared, _)| Some((shared.pool.oldest()?, shared)));
    oldest.min_by_key(|(since, _)| *since).is_some_and(|(_, shared)| shared.pool.evict_oldest())
}

/// What one caller of Java's holds: the driver's part is its own, all else is shared.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    driver: Arc<tokio::sync::Mutex<Driver>>,
    /// Ends requests that are under way when the client is released.
    released: watch::Sender<bool>,
}

/// A question of the driver that is being answered, on the thread of a caller and only while that waits.
pub struct Request(Option<Pin<Box<dyn Future<Output = Result<String>> + Send>>>);

/// What clients with equal options share.
pub struct Shared {
    given: Arc<Given>,
    options: std::sync::OnceLock<ReadOptions>,
    pub(crate) pool: Pool,
    pub(crate) producers: Producers,
    pub(crate) learned: Learned,
    registry: std::sync::OnceLock<Option<Registry>>,
    /// Asks for ends of logs, whatever transactions are open.
    asker: OnceCell<Consumer>,
}

impl fmt::Debug for Shared {
    /// Without what was given, which may hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("pool", &self.pool).finish_non_exhaustive()
    }
}

static SHARED: Mutex<Vec<(Arc<Shared>, Instant)>> = Mutex::new(Vec::new());

impl Client {
    /// From `{"options":{...},"folders":[...],"token":{...}|null}`: what was given, and what this process adds. Nothing is
    /// checked yet.
    ///
    /// # Errors
    /// It is no such object.
    pub fn new(json: &str) -> Result<Client> {
        // What was given may hold passwords: it is not shown.
        let told = serde_json::from_str(json).unwrap_or_default();
        let given = read(told).ok_or_else(|| Failure::state("the jar gives options that cannot be read"))?;
        let given = Arc::new(given);
        let mut known = lock(&SHARED);
        let now = Instant::now();
        known.retain(|(shared, used)| Arc::strong_count(shared) > 1 || now.duration_since(*used) < IDLE);
        let shared = match known.iter_mut().find(|(shared, _)| *shared.given == *given) {
            Some((shared, used)) => {
                *used = now;
                Arc::clone(shared)
            }
            None => {
                let shared = Arc::new(Shared::new(Arc::clone(&given)));
                known.push((Arc::clone(&shared), now));
                shared
            }
        };
        let driver = Driver::new(given, Arc::clone(&shared.producers.notes));
        Ok(Client { shared, driver: Arc::new(tokio::sync::Mutex::new(driver)), released: watch::Sender::new(false) })
    }

    /// Returns a request for the answer to a question of the driver's, both as JSON.
    pub fn plan(&self, question: String) -> Request {
        // It may hold a token: this copy is wiped.
        let question = Zeroizing::new(question);
        let (driver, mut released) = (Arc::clone(&self.driver), self.released.subscribe());
        Request(Some(Box::pin(async move {
            let answer = async { Ok(driver.lock().await.answer(&question).await?) };
            tokio::select! {
                answer = answer => answer,
                _ = released.wait_for(|released| *released) => Err(Failure::state("the client was closed before the brokers answered")),
            }
        })))
    }

    /// What readers and writers go through.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Ends requests that are under way, and the driver's connections; those of tasks stay for a while.
    ///
    /// # Errors
    /// There are no threads to do it on.
    pub fn release(&self) -> Result<()> {
        if let Some((_, used)) = lock(&SHARED).iter_mut().find(|(shared, _)| Arc::ptr_eq(shared, &self.shared)) {
            *used = Instant::now();
        }
        self.released.send_replace(true);
        runtime()?.block_on(async { self.driver.lock().await.close().await });
        Ok(())
    }
}

impl Request {
    /// Waits for the answer, for `wait` at most; None where there is none yet.
    ///
    /// # Errors
    /// Those of [`Driver::answer`]; the client was released; or the answer was returned before.
    pub fn answer(&mut self, wait: Duration) -> Result<Option<String>> {
        let answering =
            self.0.as_mut().ok_or_else(|| Failure::state("this request was answered or cancelled already"))?;
        let Ok(answer) = runtime()?.block_on(async { tokio::time::timeout(wait, answering).await }) else {
            return Ok(None);
        };
        self.0 = None;
        answer.map(Some)
    }

    /// Drops what is under way.
    ///
    /// # Errors
    /// There are no threads to do it on.
    pub fn cancel(&mut self) -> Result<()> {
        let _inside = runtime()?.enter();
        self.0 = None;
        Ok(())
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("answered", &self.0.is_none()).finish()
    }
}

impl Shared {
    fn new(given: Arc<Given>) -> Self {
        let (pool, producers) = (Pool::default(), Producers::default());
        let (options, registry) = (std::sync::OnceLock::new(), std::sync::OnceLock::new());
        Self { given, options, pool, producers, learned: Learned::default(), registry, asker: OnceCell::new() }
    }

    /// The options as they were given.
    pub(crate) fn given(&self) -> &Given {
        &self.given
    }

    /// The options, checked for a read.
    ///
    /// # Errors
    /// One cannot be.
    pub fn options(&self) -> Result<&ReadOptions> {
        if let Some(options) = self.options.get() {
            return Ok(options);
        }
        let options = ReadOptions::parse(&self.given, Reading::Any)?;
        Ok(self.options.get_or_init(|| options))
    }

    /// The registry that says what keys and values were written with, where there is one.
    ///
    /// # Errors
    /// An address, the login or a certificate cannot be.
    pub(crate) fn registry(&self) -> Result<Option<&Registry>> {
        if let Some(registry) = self.registry.get() {
            return Ok(registry.as_ref());
        }
        let registry = self.options()?.registry()?;
        Ok(self.registry.get_or_init(|| registry).as_ref())
    }

    /// First offset and end of a partition's log.
    pub(crate) async fn log(&self, tp: &TopicPartition) -> Result<(i64, i64)> {
        let options = self.options()?;
        let make = async || {
            let uncommitted = [("isolation.level", "read_uncommitted".to_owned())];
            let options = options.client(ClientKind::Consumer, &uncommitted)?;
            Ok::<_, samsarrow_spark::Error>(Consumer::new(&options)?)
        };
        let asker = self.asker.get_or_try_init(make).await?;
        let (timeout, tps) = (asker.default_timeout(), std::slice::from_ref(tp));
        let first = asker.beginning_offsets(tps, timeout).await?;
        let end = asker.end_offsets(tps, timeout).await?;
        Ok((only(first)?, only(end)?))
    }
}

fn only(found: Vec<(TopicPartition, i64)>) -> ClientResult<i64> {
    let nothing = || samsarrow_client::error::Error::corrupt("a broker was asked for an offset and gave none");
    found.first().map(|(_, offset)| *offset).ok_or_else(nothing)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(mut told: Value) -> Option<Given> {
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        _ => None,
    };
    let mut take = |name: &str| told.get_mut(name).map(Value::take);
    let (options, folders, token) = (take("options")?, take("folders")?, take("token")?);
    let (Value::Object(options), Value::Array(folders)) = (options, folders) else { return None };
    let options: Option<Given> = options.into_iter().map(|(name, value)| Some((name, text(value)?))).collect();
    let folders: Option<Vec<_>> = folders.into_iter().map(|folder| text(folder).map(Into::into)).collect();
    let token = match token {
        Value::Null => None,
        token => Some(Token::read(&token)?),
    };
    Some(Here { folders: folders?, token }.options(options?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let client = Client::new(
            r#"{"options":{"kafka.sasl.password":"hunter2","kafka.bootstrap.servers":"b:9"},"folders":[],"token":null}"#,
        );
        let shown = format!("{:?}", client.unwrap());
        assert!(shown.contains("Driver") && shown.contains("Shared") && !shown.contains("hunter2"), "{shown}");
    }
}
