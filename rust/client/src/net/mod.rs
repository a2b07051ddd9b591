//! One socket to one broker: requests go out in order, answers are matched by correlation id.
//!
//! Two tasks serve a socket, one writing and one reading. The first failure poisons the connection: everyone who waits
//! gets the same error, and anyone who owns it makes a new one.

mod connect;
mod handshake;
mod in_flight;
mod probe;
mod queue;
mod raw_sasl;
mod read;
mod read_frame;
mod reauth;
mod request;
mod sasl_io;
mod session;
mod shared_config;
mod streaming_body;
mod timeouts;
mod tls_session;
mod tls_stream;
mod transport;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Buf;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::api_versions::ApiVersions;
use crate::error::{Error, Result};
use crate::metrics::ConnectionMeter;

use connect::Target;
pub(crate) use connect::resolve;
pub use in_flight::FrameBody;
use in_flight::{Outgoing, Shared, Waiting};
use read::read_all;
use reauth::Gate;
pub use shared_config::Setup;
pub use timeouts::{Patience, RequestTimeout};
use transport::Writer;

/// The longest that a broker is left alone because it asks for it: a mistake of a broker's must not stop a client for
/// weeks. Kafka's own quotas ask for seconds.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A connection that has agreed on versions.
pub struct Connection {
    shared: Arc<Shared>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    next_id: AtomicI32,
    client_id: String,
    request_timeout: RequestTimeout,
    versions: ApiVersions,
    setup: Arc<Setup>,
    /// For a login that is repeated.
    login_limit: Duration,
    tasks: [JoinHandle<()>; 2],
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("address", &self.shared.address).finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        self.shared.poison(Error::connection(self.shared.address.clone(), "the connection was given up"));
    }
}

impl Connection {
    /// Connects; what the broker speaks is not known yet.
    async fn connected(target: &Target<'_>) -> Result<Connection> {
        let (address, setup, options) = (target.address, target.setup, &target.setup.options);
        let (reader, writer) = target.open().await?;
        let waiting = Waiting {
            pending: VecDeque::new(),
            last_used: Instant::now(),
            paused_until: None,
            answered: false,
            gate: Gate::default(),
            held: VecDeque::new(),
        };
        let shared = Arc::new(Shared {
            address: address.to_owned(),
            waiting: Mutex::new(waiting),
            asked: Notify::new(),
            login: AtomicBool::new(setup.security.login.is_some()),
            drained: Notify::new(),
            broken: Mutex::default(),
            meter: OnceLock::new(),
        });
        let (outgoing, queue) = mpsc::unbounded_channel();
        let limit = options.max_response_bytes;
        let tasks = [
            tokio::spawn(write_all(writer, queue, Arc::clone(&shared))),
            tokio::spawn(read_all(reader, Arc::clone(&shared), limit, options.connections_max_idle)),
        ];
        Ok(Connection {
            shared,
            outgoing,
            next_id: AtomicI32::new(0),
            client_id: options.client_id.clone(),
            request_timeout: RequestTimeout(options.request_timeout),
            versions: ApiVersions::default(),
            setup: Arc::clone(setup),
            login_limit: options.request_timeout.min(options.connection_setup_timeout),
            tasks,
        })
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    fn host(&self) -> &str {
        self.address().rsplit_once(':').map_or(self.address(), |(host, _)| host)
    }

    /// What the broker speaks.
    pub fn versions(&self) -> &ApiVersions {
        &self.versions
    }

    /// Why the connection is of no more use, if it is not.
    pub fn broken(&self) -> Option<Error> {
        self.shared.error()
    }

    /// Whether the broker has answered nothing but which versions it speaks, and has hung up.
    pub(crate) fn was_cut_short(&self) -> bool {
        !self.shared.waiting().answered && matches!(self.broken(), Some(Error::Connection { .. }))
    }

    /// From now on it counts what it does.
    pub(crate) fn count_with(&self, meter: ConnectionMeter) {
        let meter = self.shared.meter.get_or_init(|| meter);
        // It may have broken meanwhile.
        if let Some(error) = self.broken() {
            meter.ended(self.address(), &error);
        }
    }

    /// Gives the connection up: anyone who waits on it gets `error`.
    pub fn poison(&self, error: Error) {
        self.shared.poison(error);
        for task in &self.tasks {
            task.abort();
        }
    }

    /// How many requests wait for their answers.
    pub fn load(&self) -> usize {
        let waiting = self.shared.waiting();
        waiting.pending.len() + waiting.held.len()
    }

    /// The broker asks in an answer to be left alone for this many milliseconds (KIP-219).
    pub fn throttled(&self, api: &'static str, throttle_time_ms: i32) {
        if let Some(meter) = self.shared.meter.get() {
            let pause = Duration::from_millis(u64::try_from(throttle_time_ms).unwrap_or(0)).min(LONGEST_PAUSE);
            meter.throttled(api, self.address(), pause);
        }
        let Some(pause) = u64::try_from(throttle_time_ms).ok().filter(|ms| *ms > 0) else { return };
        let until = Instant::now() + Duration::from_millis(pause).min(LONGEST_PAUSE);
        tracing::debug!(address = self.address(), throttle_time_ms, "the broker asks for a pause");
        let mut waiting = self.shared.waiting();
        waiting.paused_until = waiting.paused_until.max(Some(until));
    }

    /// Waits until the broker may be asked again. One that is asked earlier does not read what is sent (KIP-219), and
    /// requests would run out of time there.
    ///
    /// # Errors
    /// A timeout if that is longer than the caller can wait.
    pub async fn unpaused(&self, patience: Patience) -> Result<()> {
        loop {
            let until = self.shared.waiting().paused_until;
            let Some(until) = until.filter(|until| *until > Instant::now()) else { return Ok(()) };
            if until > patience.until() {
                let what = format!("the pause that {} asks for because of a quota", self.address());
                return Err(Error::timeout(what, patience.whole()));
            }
            sleep_until(until).await;
        }
    }
}

async fn write_all(mut writer: Writer, mut queue: mpsc::UnboundedReceiver<Outgoing>, shared: Arc<Shared>) {
    while let Some(Outgoing { mut frame, written }) = queue.recv().await {
        let size = frame.remaining();
        if let Err(e) = writer.write_all(&mut frame).await {
            shared.poison(Error::io(&shared.address, "the connection broke while sending", &e));
            return;
        }
        if let Some(meter) = shared.meter.get() {
            meter.sent(size);
        }
        if let Some(written) = written {
            let _ = written.send(());
        }
    }
}
