//! The network of a thread: its addresses, connections, faults and trace.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock;
use crate::pipe::Pipe;
use crate::stream::TcpStream;
use crate::trace::Trace;

/// Time since the Unix epoch at which every run starts: 14 November 2023.
pub(crate) const EPOCH: Duration = Duration::from_secs(1_700_000_000);

/// First port that is assigned to a socket bound to port 0.
const FIRST_PORT: u16 = 20_000;

thread_local! {
    static CURRENT: RefCell<Option<Network>> = const { RefCell::new(None) };
}

/// Returns the network of this thread.
pub(crate) fn current() -> Option<Network> {
    CURRENT.with_borrow(Clone::clone)
}

/// Result of a connection attempt to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reachability {
    /// A listener accepts the connection; without a listener, the connection is rejected.
    Open,
    /// The connection is rejected.
    Rejected,
    /// Packets are lost, so the attempt does not end.
    Lost,
}

/// Range from which the latency of every write is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Latency {
    /// Minimum.
    pub min: Duration,
    /// Maximum.
    pub max: Duration,
}

/// Connections that a listener has not accepted yet.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) streams: VecDeque<(TcpStream, SocketAddr)>,
    pub(crate) acceptor: Option<Waker>,
}

#[derive(Debug)]
struct Connection {
    server: SocketAddr,
    pipes: [Arc<Pipe>; 2],
}

#[derive(Debug)]
struct State {
    random: fastrand::Rng,
    started: Instant,
    latency: Latency,
    /// True if bytes of a stalled connection arrive after their sender has closed it.
    delivers_late: bool,
    /// Sockets that are bound, each with its backlog if it listens.
    bound: BTreeMap<SocketAddr, Option<Backlog>>,
    unreachable: BTreeMap<SocketAddr, (Reachability, Instant)>,
    connections: BTreeMap<u64, Connection>,
    opened: u64,
    next_port: u16,
    trace: Trace,
    defect: Option<String>,
    reached: BTreeSet<String>,
}

/// A simulated network. Clones are handles to the same network.
#[derive(Debug, Clone)]
pub struct Network(Arc<Mutex<State>>);

/// Keeps a network installed until it is dropped.
#[derive(Debug)]
pub struct Entered(());

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(Option::take);
    }
}

impl Network {
    /// Creates a network. Must be called within a tokio runtime. With `record`, keeps the events as text.
    pub fn new(seed: u64, latency: Latency, record: bool) -> Self {
        Self(Arc::new(Mutex::new(State {
            random: fastrand::Rng::with_seed(seed),
            started: Instant::now(),
            latency,
            delivers_late: true,
            bound: BTreeMap::new(),
            unreachable: BTreeMap::new(),
            connections: BTreeMap::new(),
            opened: 0,
            next_port: FIRST_PORT,
            trace: Trace::new(record),
            defect: None,
            reached: BTreeSet::new(),
        })))
    }

    /// Installs the network for the sockets that this thread creates.
    #[must_use]
    pub fn enter(&self) -> Entered {
        CURRENT.with_borrow_mut(|current| *current = Some(self.clone()));
        Entered(())
    }

    /// Changes the latency of later writes.
    pub fn set_latency(&self, latency: Latency) {
        lock(&self.0).latency = latency;
    }

    /// Switches on a known defect of clients, by name.
    pub fn switch_on(&self, defect: &str) {
        lock(&self.0).defect = Some(defect.to_owned());
    }

    pub(crate) fn has_defect(&self, name: &str) -> bool {
        lock(&self.0).defect.as_deref() == Some(name)
    }

    pub(crate) fn reached(&self, name: String) {
        lock(&self.0).reached.insert(name);
    }

    /// Takes the states and errors that clients have reached.
    pub fn take_reached(&self) -> BTreeSet<String> {
        std::mem::take(&mut lock(&self.0).reached)
    }

    /// Discards the bytes of a stalled connection when their sender closes it. By default they arrive later, as with
    /// packets that an operating system sends again.
    pub fn discard_late_bytes(&self) {
        lock(&self.0).delivers_late = false;
    }

    /// Sets the result of connection attempts to `address` for a time.
    pub fn set_reachability(&self, address: SocketAddr, reachability: Reachability, time: Duration) {
        lock(&self.0).unreachable.insert(address, (reachability, Instant::now() + time));
    }

    /// Resets one connection, chosen by the seed. Returns false if there is none.
    pub fn reset_one(&self) -> bool {
        let found = {
            let mut state = lock(&self.0);
            state.remove_dead();
            let ids: Vec<u64> = state.connections.keys().copied().collect();
            let id = state.random.choice(&ids).copied();
            id.and_then(|id| state.connections.remove(&id))
        };
        let Some(connection) = found else { return false };
        connection.pipes.iter().for_each(|pipe| pipe.reset());
        true
    }

    /// Delays the bytes of all open connections to `address` for a time. With `forward` or `backward` unset, the bytes
    /// to or from that address are not delayed, as on a half-open connection.
    pub fn stall(&self, address: SocketAddr, forward: bool, backward: bool, time: Duration) {
        let until = Instant::now() + time;
        let stalled: Vec<Arc<Pipe>> = {
            let mut state = lock(&self.0);
            state.remove_dead();
            let connections = state.connections.values().filter(|connection| connection.server == address);
            connections
                .flat_map(|connection| {
                    let [to, from] = &connection.pipes;
                    [forward.then(|| to.clone()), backward.then(|| from.clone())]
                })
                .flatten()
                .collect()
        };
        stalled.iter().for_each(|pipe| pipe.stall(until));
    }

    /// Adds an event to the trace, for example a result that a client returned.
    pub fn trace(&self, event: &str) {
        let mut state = lock(&self.0);
        let at = state.started.elapsed();
        state.trace.add(event.as_bytes(), || format!("{:>9.3} {event}", at.as_secs_f64()));
    }

    /// Returns the hash of all bytes written and all events traced, with their times.
    pub fn trace_hash(&self) -> u64 {
        lock(&self.0).trace.hash()
    }

    /// Takes the recorded events.
    pub fn take_trace(&self) -> Vec<String> {
        lock(&self.0).trace.lines()
    }

    pub(crate) fn unix_time(&self) -> Duration {
        EPOCH + lock(&self.0).started.elapsed()
    }

    pub(crate) fn delivers_late(&self) -> bool {
        lock(&self.0).delivers_late
    }

    pub(crate) fn latency(&self) -> Duration {
        let mut state = lock(&self.0);
        let Latency { min, max } = state.latency;
        let spread = u64::try_from(max.saturating_sub(min).as_millis()).unwrap_or(0);
        // Most packets are fast, and a few take the longest time.
        let part = if state.random.u8(..) < 8 { spread } else { state.random.u64(..=spread / 4) };
        min + Duration::from_millis(part)
    }

    /// Returns a number of bytes to read of `available` bytes: usually all, sometimes fewer.
    pub(crate) fn cut(&self, available: usize) -> usize {
        let mut state = lock(&self.0);
        if available > 1 && state.random.u8(..) < 16 { state.random.usize(1..available) } else { available }
    }

    pub(crate) fn trace_write(&self, connection: u64, forward: bool, bytes: &[u8]) {
        let mut state = lock(&self.0);
        let at = state.started.elapsed();
        let head = [connection * 2 + u64::from(forward), at.as_micros() as u64];
        let head: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
        state.trace.add(&head, String::new);
        state.trace.add(bytes, || {
            let arrow = if forward { "->" } else { "<-" };
            let text: String = bytes
                .iter()
                .take(400)
                .map(|byte| char::from(*byte))
                .map(|c| if c.is_ascii_graphic() { c.to_string() } else { format!("\\{:02x}", u32::from(c)) })
                .collect();
            format!("{:>9.3} connection {connection} {arrow} {} bytes {text}", at.as_secs_f64(), bytes.len())
        });
    }

    /// Binds an address; port 0 selects a free port.
    pub(crate) fn bind(&self, mut address: SocketAddr) -> io::Result<SocketAddr> {
        let mut state = lock(&self.0);
        while address.port() == 0 {
            state.next_port += 1;
            let candidate = SocketAddr::new(address.ip(), state.next_port);
            if !state.bound.contains_key(&candidate) {
                address = candidate;
            }
        }
        if state.bound.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        state.bound.insert(address, None);
        Ok(address)
    }

    pub(crate) fn listen(&self, address: SocketAddr) {
        lock(&self.0).bound.insert(address, Some(Backlog::default()));
    }

    pub(crate) fn unbind(&self, address: SocketAddr) {
        let backlog = lock(&self.0).bound.remove(&address);
        // Streams that were not accepted are dropped without the lock, because they close their pipes.
        drop(backlog);
    }

    /// Calls `then` with the backlog of a listener.
    pub(crate) fn with_backlog<T>(&self, address: SocketAddr, then: impl FnOnce(&mut Backlog) -> T) -> Option<T> {
        lock(&self.0).bound.get_mut(&address).and_then(Option::as_mut).map(then)
    }

    /// Returns the result of a connection attempt now.
    pub(crate) fn reachability(&self, address: SocketAddr) -> Reachability {
        let state = lock(&self.0);
        let now = Instant::now();
        match state.unreachable.get(&address) {
            Some((reachability, until)) if *until > now => *reachability,
            _ if matches!(state.bound.get(&address), Some(Some(_))) => Reachability::Open,
            _ => Reachability::Rejected,
        }
    }

    /// Creates both ends of a connection and adds one to the backlog of the listener.
    pub(crate) fn open(&self, server: SocketAddr) -> io::Result<TcpStream> {
        let id = {
            let mut state = lock(&self.0);
            state.opened += 1;
            state.opened
        };
        let client = SocketAddr::new(server.ip(), u16::try_from(id % 20_000).unwrap_or(0) + 40_000);
        let (to, from) = (Pipe::new(self.clone(), id, true), Pipe::new(self.clone(), id, false));
        let near = TcpStream::new(Arc::clone(&from), Arc::clone(&to), client, server);
        let far = TcpStream::new(Arc::clone(&to), Arc::clone(&from), server, client);
        // Without a listener, the stream is dropped after the lock was released, because it closes its pipes.
        let mut far = Some(far);
        let accepted = self.with_backlog(server, |backlog| {
            backlog.streams.extend(far.take().map(|far| (far, client)));
            backlog.acceptor.take()
        });
        let Some(acceptor) = accepted else { return Err(io::ErrorKind::ConnectionRefused.into()) };
        lock(&self.0).connections.insert(id, Connection { server, pipes: [to, from] });
        if let Some(acceptor) = acceptor {
            acceptor.wake();
        }
        Ok(near)
    }
}

impl State {
    fn remove_dead(&mut self) {
        self.connections.retain(|_, connection| !connection.pipes.iter().all(|pipe| pipe.is_dead()));
    }
}
