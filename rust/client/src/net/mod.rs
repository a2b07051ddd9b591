//! Connections to brokers: requests are sent in order, and responses are matched by correlation id.
//!
//! Each socket has a writing task and a reading task. The first failure poisons the connection: all waiting callers get
//! the same error, and the owner opens a new connection.

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
mod socket;
mod streaming_body;
mod throttle;
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
use tokio::time::Instant;

use crate::api_versions::ApiVersions;
use crate::error::{Error, Result};
use crate::metrics::ConnectionMeter;

use connect::Target;
pub(crate) use connect::resolve;
pub use in_flight::FrameBody;
use in_flight::{InFlight, Outgoing, Shared};
use read::read_all;
use reauth::Reauthentication;
pub(crate) use shared_config::Destination;
pub use shared_config::Setup;
pub use timeouts::{CallerDeadline, RequestTimeout};
use transport::Writer;

/// A connection with negotiated API versions.
pub struct Connection {
    shared: Arc<Shared>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    next_id: AtomicI32,
    request_timeout: RequestTimeout,
    versions: ApiVersions,
    setup: Arc<Setup>,
    /// Maximum duration of a renewed login.
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
        self.shared.poison(Error::connection(self.shared.address.clone(), "the connection was closed"));
    }
}

impl Connection {
    /// Connects and starts the two tasks, without negotiating API versions.
    async fn connect(target: &Target<'_>) -> Result<Connection> {
        let (address, setup, options) = (target.address, target.setup, &target.setup.options);
        let (reader, writer) = target.open().await?;
        let in_flight = InFlight {
            pending: VecDeque::new(),
            last_used: Instant::now(),
            throttled_until: None,
            used: false,
            reauth: Reauthentication::default(),
            held: VecDeque::new(),
        };
        let shared = Arc::new(Shared {
            address: address.to_owned(),
            client_id: options.client_id.clone(),
            in_flight: Mutex::new(in_flight),
            request_queued: Notify::new(),
            logging_in: AtomicBool::new(setup.security.login.is_some()),
            mutes_after_response: AtomicBool::new(true),
            drained: Notify::new(),
            broken: Mutex::default(),
            end_logged: AtomicBool::new(false),
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
            request_timeout: RequestTimeout(options.request_timeout),
            versions: ApiVersions::default(),
            setup: Arc::clone(setup),
            login_limit: options.request_timeout.min(options.connection_setup_timeout),
            tasks,
        })
    }

    /// Returns the broker's address as `host:port`.
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    pub(super) fn client_id(&self) -> &str {
        &self.shared.client_id
    }

    fn host(&self) -> &str {
        self.address().rsplit_once(':').map_or(self.address(), |(host, _)| host)
    }

    /// Returns the negotiated API versions.
    pub fn versions(&self) -> &ApiVersions {
        &self.versions
    }

    /// Returns the error that broke the connection, if any.
    pub fn broken(&self) -> Option<Error> {
        self.shared.error()
    }

    /// Returns true if the broker disconnected before it responded to a request other than those of the handshake.
    pub(crate) fn closed_before_first_response(&self) -> bool {
        !self.shared.in_flight().used && matches!(self.broken(), Some(Error::Connection { .. }))
    }

    /// Starts recording metrics.
    pub(crate) fn count_with(&self, meter: ConnectionMeter) {
        let meter = self.shared.meter.get_or_init(|| meter);
        // The connection may have failed before the meter was set.
        if let Some(error) = self.broken() {
            meter.ended(self.address(), &error);
        }
    }

    /// Breaks the connection. All waiting callers receive `error`.
    pub fn poison(&self, error: Error) {
        self.shared.poison(error);
        for task in &self.tasks {
            task.abort();
        }
    }

    /// Returns the number of requests in flight or held back.
    pub fn load(&self) -> usize {
        let in_flight = self.shared.in_flight();
        in_flight.pending.len() + in_flight.held.len()
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
