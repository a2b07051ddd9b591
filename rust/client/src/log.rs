//! Loggers of the client, their levels, and the subscriber that forwards events to the application's own logging.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// Targets of events in modules that belong to another logger.
pub(crate) const GROUP: &str = "samsarrow_client::group";
pub(crate) const SECURITY: &str = "samsarrow_client::security";

/// Logger of an area of the client. The names are public (docs/logging.md), so they do not depend on module paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logger {
    Root,
    Admin,
    Broker,
    Consumer,
    Group,
    Metadata,
    Metrics,
    Net,
    Producer,
    Registry,
    Security,
    Spark,
    Transactions,
}

impl Logger {
    /// All loggers, in the order of their numbers.
    pub const ALL: [Logger; 13] = [
        Logger::Root,
        Logger::Admin,
        Logger::Broker,
        Logger::Consumer,
        Logger::Group,
        Logger::Metadata,
        Logger::Metrics,
        Logger::Net,
        Logger::Producer,
        Logger::Registry,
        Logger::Security,
        Logger::Spark,
        Logger::Transactions,
    ];

    /// Returns the name of the logger in Python.
    pub fn name(self) -> &'static str {
        match self {
            Logger::Root => "samsarrow",
            Logger::Admin => "samsarrow.admin",
            Logger::Broker => "samsarrow.broker",
            Logger::Consumer => "samsarrow.consumer",
            Logger::Group => "samsarrow.group",
            Logger::Metadata => "samsarrow.metadata",
            Logger::Metrics => "samsarrow.metrics",
            Logger::Net => "samsarrow.net",
            Logger::Producer => "samsarrow.producer",
            Logger::Registry => "samsarrow.registry",
            Logger::Security => "samsarrow.security",
            Logger::Spark => "samsarrow.spark",
            Logger::Transactions => "samsarrow.transactions",
        }
    }

    /// Returns the logger of an event with this target, which is a module path; `None` for other crates.
    fn of_target(target: &str) -> Option<Logger> {
        let (name, path) = target.split_once("::").unwrap_or((target, ""));
        match name {
            "samsarrow_client" => Some(Self::of_module(path)),
            "samsarrow_broker" => Some(Logger::Broker),
            "samsarrow_spark" => Some(Logger::Spark),
            "samsarrow_py" if path.starts_with("metrics") => Some(Logger::Metrics),
            name if name.starts_with("samsarrow") => Some(Logger::Root),
            _ => None,
        }
    }

    /// Returns the logger of a module of this crate.
    fn of_module(path: &str) -> Logger {
        let (module, rest) = path.split_once("::").unwrap_or((path, ""));
        match module {
            "admin" => Logger::Admin,
            "cluster" if rest.starts_with("broker") => Logger::Net,
            "cluster" if rest.starts_with("telemetry") => Logger::Metrics,
            "cluster" => Logger::Metadata,
            "consumer" | "fetcher" | "offsets" => Logger::Consumer,
            "group" => Logger::Group,
            "metrics" => Logger::Metrics,
            "net" if rest.starts_with("session") => Logger::Security,
            "net" | "retry" => Logger::Net,
            "producer" if rest.starts_with("transactions") => Logger::Transactions,
            "producer" => Logger::Producer,
            "schema_registry" => Logger::Registry,
            "security" => Logger::Security,
            _ => Logger::Root,
        }
    }
}

/// Returns the number of a level: the larger it is, the more events are enabled. 0 disables all events.
fn number(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// Enabled level of each logger. Events read it without a lock: a disabled event takes 3 to 6 ns, or 45 ns while another
/// logger has a more verbose level.
#[derive(Debug)]
pub struct Levels {
    /// Most verbose level of all loggers.
    max: AtomicU8,
    by_logger: [AtomicU8; Logger::ALL.len()],
}

impl Levels {
    /// Creates levels that disable all events.
    pub const fn new() -> Self {
        Self { max: AtomicU8::new(0), by_logger: [const { AtomicU8::new(0) }; Logger::ALL.len()] }
    }

    /// Sets the level of every logger; `None` disables all its events. Loggers without an entry keep their level.
    pub fn set(&self, levels: &[Option<Level>]) {
        for (known, level) in self.by_logger.iter().zip(levels) {
            known.store(level.map_or(0, number), Ordering::Relaxed);
        }
        let max = self.by_logger.iter().map(|level| level.load(Ordering::Relaxed)).max();
        self.max.store(max.unwrap_or(0), Ordering::Relaxed);
    }

    fn enables(&self, level: Level, target: &str) -> bool {
        let level = number(level);
        level <= self.max.load(Ordering::Relaxed)
            && Logger::of_target(target)
                .and_then(|logger| self.by_logger.get(logger as usize))
                .is_some_and(|enabled| level <= enabled.load(Ordering::Relaxed))
    }
}

impl Default for Levels {
    fn default() -> Self {
        Self::new()
    }
}

/// Log line: a sentence followed by its fields, and the fields on their own for structured logging.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// The message, and the fields as `(name=value, …)`.
    pub text: String,
    /// Names and values of the fields.
    pub fields: Vec<(&'static str, String)>,
}

/// Tracing subscriber that passes each enabled event to `write`.
#[derive(Debug)]
pub struct LogSubscriber<W> {
    levels: &'static Levels,
    write: W,
}

impl<W: Fn(Level, Logger, Line) + Send + Sync + 'static> LogSubscriber<W> {
    /// Creates a subscriber for the events that `levels` enables. The levels may change later.
    pub fn new(levels: &'static Levels, write: W) -> LogSubscriber<W> {
        LogSubscriber { levels, write }
    }

    /// Installs this subscriber as the global default. Does nothing if the process already has a global subscriber.
    pub fn start(self) {
        let _ = tracing::subscriber::set_global_default(self);
    }
}

impl<W: Fn(Level, Logger, Line) + Send + Sync + 'static> Subscriber for LogSubscriber<W> {
    /// Levels change at run time. To cache the outcome for each event, `tracing` would need its lock for each change,
    /// which a thread that does not exist in the child of a fork may hold. So each event checks the level itself.
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match !metadata.is_span() && Logger::of_target(metadata.target()).is_some() {
            true => Interest::sometimes(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !metadata.is_span() && self.levels.enables(*metadata.level(), metadata.target())
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let Some(logger) = Logger::of_target(metadata.target()) else { return };
        let mut line = Line::default();
        event.record(&mut LineVisitor(&mut line));
        for (i, (name, value)) in line.fields.iter().enumerate() {
            let separator = if i == 0 { " (" } else { ", " };
            let _ = write!(line.text, "{separator}{name}={value}");
        }
        if !line.fields.is_empty() {
            line.text.push(')');
        }
        (self.write)(*metadata.level(), logger, line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct LineVisitor<'a>(&'a mut Line);

impl LineVisitor<'_> {
    fn field(&mut self, name: &'static str, value: std::fmt::Arguments<'_>) {
        if name == "message" {
            let _ = self.0.text.write_fmt(value);
        } else {
            self.0.fields.push((name, value.to_string()));
        }
    }
}

impl Visit for LineVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field.name(), format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.field(field.name(), format_args!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use super::*;

    type Lines = Arc<Mutex<Vec<(Level, Logger, Line)>>>;

    /// Runs `work` with a subscriber, and returns the lines.
    fn lines(levels: &'static Levels, work: impl FnOnce()) -> Vec<(Level, Logger, Line)> {
        let lines = Lines::default();
        let stored = Arc::clone(&lines);
        let write = move |level, logger, line| stored.lock().unwrap().push((level, logger, line));
        tracing::subscriber::with_default(LogSubscriber::new(levels, write), work);
        std::mem::take(&mut *lines.lock().unwrap())
    }

    #[test]
    fn lines_contain_fields() {
        static LEVELS: Levels = Levels::new();
        LEVELS.set(&[Some(Level::INFO); 13]);
        let written = lines(&LEVELS, || {
            tracing::warn!(topic = "t", left = 3, "going on with {}", 7);
            tracing::info!("done");
            tracing::debug!("disabled");
            tracing::error!(target: "elsewhere", "of another crate");
        });
        let fields = vec![("topic", "t".to_owned()), ("left", "3".to_owned())];
        let first = Line { text: "going on with 7 (topic=t, left=3)".to_owned(), fields };
        let second = Line { text: "done".to_owned(), fields: Vec::new() };
        assert_eq!(written, [(Level::WARN, Logger::Root, first), (Level::INFO, Logger::Root, second)]);
    }

    #[test]
    fn levels_of_loggers_change_at_run_time() {
        static LEVELS: Levels = Levels::new();
        let mut levels = [Some(Level::WARN); 13];
        let work = || {
            tracing::debug!(target: SECURITY, "a login");
            tracing::debug!(target: "samsarrow_client::net::read", "a response");
            tracing::warn!(target: "samsarrow_client::net::read", "a failure");
        };
        let count = || lines(&LEVELS, work).len();
        assert_eq!(count(), 0);
        LEVELS.set(&levels);
        assert_eq!(count(), 1);
        levels[Logger::Security as usize] = Some(Level::DEBUG);
        LEVELS.set(&levels);
        assert_eq!(count(), 2);
        levels[Logger::Net as usize] = None;
        LEVELS.set(&levels);
        assert_eq!(count(), 1);
    }

    #[test]
    fn loggers_are_numbered_in_order() {
        for (i, logger) in Logger::ALL.into_iter().enumerate() {
            assert_eq!(logger as usize, i);
        }
        let logger = |target| Logger::of_target(target).map(Logger::name);
        assert_eq!(logger("samsarrow_client::cluster::broker_selection"), Some("samsarrow.net"));
        assert_eq!(logger("samsarrow_client::cluster::refresh"), Some("samsarrow.metadata"));
        assert_eq!(logger("samsarrow_client::producer::queue"), Some("samsarrow.producer"));
        assert_eq!(logger("samsarrow_client::producer::transactions::state"), Some("samsarrow.transactions"));
        assert_eq!(logger("samsarrow_broker::node"), Some("samsarrow.broker"));
        assert_eq!(logger("hyper::proto"), None);
    }

    /// The limit is a hundred times the cost on an idle machine, so that a busy one does not fail.
    #[test]
    fn disabled_events_format_nothing() {
        static LEVELS: Levels = Levels::new();
        LEVELS.set(&[Some(Level::WARN); 13]);
        let formatted = std::cell::Cell::new(0);
        let value = || {
            formatted.set(formatted.get() + 1);
            "expensive"
        };
        const COUNT: u32 = 1_000_000;
        let mut per_event = std::time::Duration::ZERO;
        let written = lines(&LEVELS, || {
            let start = Instant::now();
            for i in 0..COUNT {
                tracing::trace!(target: "samsarrow_client::net::read", i, value = value(), "a response");
            }
            per_event = start.elapsed() / COUNT;
        });
        assert_eq!((formatted.get(), written.len()), (0, 0));
        println!("a disabled event takes {} ns", per_event.as_nanos());
        assert!(per_event.as_nanos() < 2000, "{per_event:?}");
    }
}
