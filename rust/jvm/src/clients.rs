//! Clients, and the state that clients with equal options share. The shared connections stay open for some time after
//! the last task.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use samsarrow_client::config::ClientKind;
use samsarrow_client::consumer::Consumer;
use samsarrow_client::error::Result as ClientResult;
use samsarrow_client::schema_registry::Registry;
use samsarrow_client::types::TopicPartition;
use samsarrow_spark::local_options::LocalOptions;
use samsarrow_spark::options::Reading;
use samsarrow_spark::tokens::Token;
use samsarrow_spark::{Driver, ReadOptions};
use samsarrow_wire::sync::lock;
use serde_json::Value;
use tokio::sync::{OnceCell, watch};
use zeroize::Zeroizing;

use crate::consumer_pool::ConsumerPool;
use crate::failure::{Failure, Result};
use crate::idle_pool::MAX_IDLE_TIME;
use crate::log_queue;
use crate::producers::Producers;
use crate::runtime::runtime;
use crate::value_decoding::WriterCaches;

type RawOptions = BTreeMap<String, String>;

/// Closes the consumer that has been idle longest among the consumers of all clients. Returns false if no consumer is
/// idle.
pub(crate) fn evict_oldest() -> bool {
    let known = lock(&SHARED);
    let oldest = known.iter().filter_map(|(shared, _)| Some((shared.pool.oldest()?, shared)));
    oldest.min_by_key(|(since, _)| *since).is_some_and(|(_, shared)| shared.pool.evict_oldest())
}

/// Client that one Java caller holds. It has its own driver. All other state is shared with the clients that have equal
/// options.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    driver: Arc<tokio::sync::Mutex<Driver>>,
    /// Signal that cancels requests in flight when the client is released.
    released: watch::Sender<bool>,
}

/// Driver request in flight. It makes progress only while a caller waits for the response, and runs on the caller's
/// thread.
pub struct PendingRequest(Option<Pin<Box<dyn Future<Output = Result<String>> + Send>>>);

/// State that clients with equal options share.
pub struct Shared {
    raw_options: Arc<RawOptions>,
    options: std::sync::OnceLock<ReadOptions>,
    pub(crate) pool: ConsumerPool,
    pub(crate) producers: Producers,
    pub(crate) writer_caches: WriterCaches,
    registry: std::sync::OnceLock<Option<Registry>>,
    /// Client that fetches log start and end offsets. The end includes open transactions.
    log_client: OnceCell<Consumer>,
}

impl fmt::Debug for Shared {
    /// Leaves out the options, because they may contain passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("pool", &self.pool).finish_non_exhaustive()
    }
}

static SHARED: Mutex<Vec<(Arc<Shared>, Instant)>> = Mutex::new(Vec::new());

impl Client {
    /// Creates a client from `{"options":{...},"folders":[...],"token":{...}|null,"log":"INFO"}`: the user's options, and
    /// the folders, the token and the log level of this process. The options are not checked yet.
    ///
    /// # Errors
    /// Fails if the JSON is malformed.
    pub fn new(json: &str) -> Result<Client> {
        // The error does not contain the options, because they may contain passwords.
        let json: Value = serde_json::from_str(json).unwrap_or_default();
        if let Some(level) = json.get("log").and_then(Value::as_str) {
            log_queue::set_level(level);
        }
        let options = parse_options(json).ok_or_else(|| Failure::state("the jar passed malformed options"))?;
        let options = Arc::new(options);
        let mut known = lock(&SHARED);
        let now = Instant::now();
        known.retain(|(shared, used)| Arc::strong_count(shared) > 1 || now.duration_since(*used) < MAX_IDLE_TIME);
        let shared = match known.iter_mut().find(|(shared, _)| *shared.raw_options == *options) {
            Some((shared, used)) => {
                *used = now;
                Arc::clone(shared)
            }
            None => {
                let shared = Arc::new(Shared::new(Arc::clone(&options)));
                known.push((Arc::clone(&shared), now));
                shared
            }
        };
        let driver = Driver::new(options, Arc::clone(&shared.producers.markers));
        Ok(Client { shared, driver: Arc::new(tokio::sync::Mutex::new(driver)), released: watch::Sender::new(false) })
    }

    /// Starts a driver request. Request and response are JSON.
    pub fn plan(&self, request: String) -> PendingRequest {
        // This copy of the request is zeroed, because the request may contain a token.
        let request = Zeroizing::new(request);
        let (driver, mut released) = (Arc::clone(&self.driver), self.released.subscribe());
        PendingRequest(Some(Box::pin(async move {
            let response = async { Ok(driver.lock().await.handle(&request).await?) };
            tokio::select! {
                response = response => response,
                _ = released.wait_for(|released| *released) => Err(Failure::state("the client was closed before the brokers responded")),
            }
        })))
    }

    /// Returns the state that readers and writers use.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Cancels requests in flight and closes the driver's connections. The connections of tasks stay open for some
    /// time.
    ///
    /// # Errors
    /// Fails if the runtime cannot be started.
    pub fn release(&self) -> Result<()> {
        if let Some((_, used)) = lock(&SHARED).iter_mut().find(|(shared, _)| Arc::ptr_eq(shared, &self.shared)) {
            *used = Instant::now();
        }
        self.released.send_replace(true);
        runtime()?.block_on(async { self.driver.lock().await.close().await });
        Ok(())
    }
}

impl PendingRequest {
    /// Waits up to `wait` for the response. Returns `None` if it has not arrived.
    ///
    /// # Errors
    /// Fails if [`Driver::handle`] fails, if the client was released, or if the response was already returned.
    pub fn response(&mut self, wait: Duration) -> Result<Option<String>> {
        let pending =
            self.0.as_mut().ok_or_else(|| Failure::state("this request was already answered or cancelled"))?;
        let Ok(response) = runtime()?.block_on(async { tokio::time::timeout(wait, pending).await }) else {
            return Ok(None);
        };
        self.0 = None;
        response.map(Some)
    }

    /// Cancels the request.
    ///
    /// # Errors
    /// Fails if the runtime cannot be started.
    pub fn cancel(&mut self) -> Result<()> {
        let _inside = runtime()?.enter();
        self.0 = None;
        Ok(())
    }
}

impl fmt::Debug for PendingRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingRequest").field("answered", &self.0.is_none()).finish()
    }
}

impl Shared {
    fn new(raw_options: Arc<RawOptions>) -> Self {
        let (pool, producers) = (ConsumerPool::default(), Producers::default());
        let (options, registry) = (std::sync::OnceLock::new(), std::sync::OnceLock::new());
        Self {
            raw_options,
            options,
            pool,
            producers,
            writer_caches: WriterCaches::default(),
            registry,
            log_client: OnceCell::new(),
        }
    }

    /// Returns the options of the user, with the folders and token of this process.
    pub(crate) fn raw_options(&self) -> &RawOptions {
        &self.raw_options
    }

    /// Returns the options, parsed as options of a read.
    ///
    /// # Errors
    /// Fails if an option is invalid.
    pub fn options(&self) -> Result<&ReadOptions> {
        if let Some(options) = self.options.get() {
            return Ok(options);
        }
        let options = ReadOptions::parse(&self.raw_options, Reading::Any)?;
        Ok(self.options.get_or_init(|| options))
    }

    /// Returns the client of the schema registry with the writer schemas, if a registry is configured.
    ///
    /// # Errors
    /// Fails if a URL, a credential or a certificate is invalid.
    pub(crate) fn registry(&self) -> Result<Option<&Registry>> {
        if let Some(registry) = self.registry.get() {
            return Ok(registry.as_ref());
        }
        let registry = self.options()?.registry()?;
        Ok(self.registry.get_or_init(|| registry).as_ref())
    }

    /// Returns the log start offset and the end offset of a partition.
    pub(crate) async fn log(&self, tp: &TopicPartition) -> Result<(i64, i64)> {
        let options = self.options()?;
        let create = async || {
            let uncommitted = [("isolation.level", "read_uncommitted".to_owned())];
            let options = options.client(ClientKind::Consumer, &uncommitted)?;
            Ok::<_, samsarrow_spark::Error>(Consumer::new(&options)?)
        };
        let log_client = self.log_client.get_or_try_init(create).await?;
        let (timeout, tps) = (log_client.default_timeout(), std::slice::from_ref(tp));
        let first = log_client.beginning_offsets(tps, timeout).await?;
        let end = log_client.end_offsets(tps, timeout).await?;
        Ok((single_offset(first)?, single_offset(end)?))
    }
}

fn single_offset(offsets: Vec<(TopicPartition, i64)>) -> ClientResult<i64> {
    let missing = || samsarrow_client::error::Error::corrupt("a broker returned no offset of a partition");
    offsets.first().map(|(_, offset)| *offset).ok_or_else(missing)
}

fn parse_options(mut json: Value) -> Option<RawOptions> {
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        _ => None,
    };
    let mut take = |name: &str| json.get_mut(name).map(Value::take);
    let (options, folders, token) = (take("options")?, take("folders")?, take("token")?);
    let (Value::Object(options), Value::Array(folders)) = (options, folders) else { return None };
    let options: Option<RawOptions> = options.into_iter().map(|(name, value)| Some((name, text(value)?))).collect();
    let folders: Option<Vec<_>> = folders.into_iter().map(|folder| text(folder).map(Into::into)).collect();
    let token = match token {
        Value::Null => None,
        token => Some(Token::from_json(&token)?),
    };
    Some(LocalOptions { folders: folders?, token }.apply(options?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_passwords() {
        let client = Client::new(
            r#"{"options":{"kafka.sasl.password":"hunter2","kafka.bootstrap.servers":"b:9"},"folders":[],"token":null}"#,
        );
        let shown = format!("{:?}", client.unwrap());
        assert!(shown.contains("Driver") && shown.contains("Shared") && !shown.contains("hunter2"), "{shown}");
    }
}
