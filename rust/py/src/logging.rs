//! The core's log lines, as records of Python's `logging`, from level DEBUG on.
//!
//! A thread of its own writes them: the core's threads never wait for the GIL. If Python is too slow for them, lines are
//! dropped and counted rather than kept without bound.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{PoisonError, RwLock};

use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Lines that may wait for Python.
const WAITING: usize = 10_000;

static DROPPED: AtomicU64 = AtomicU64::new(0);
/// Of this process: replaced after a fork.
static LINES: RwLock<Option<SyncSender<Line>>> = RwLock::new(None);

struct Line {
    level: u8,
    target: &'static str,
    text: String,
}

struct Forward;

fn number(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

impl Subscriber for Forward {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("samsarrow") && *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let metadata = event.metadata();
        let line = Line { level: number(*metadata.level()), target: metadata.target(), text: text.finish() };
        // Not waited for: whoever holds the lock may be a thread that a fork left behind.
        let sent = LINES.try_read().is_ok_and(|lines| lines.as_ref().is_some_and(|lines| lines.try_send(line).is_ok()));
        if !sent {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message, then the fields as `name=value`.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn finish(self) -> String {
        if self.fields.is_empty() { self.message } else { format!("{} ({})", self.message, self.fields) }
    }

    fn field(&mut self, name: &str, value: std::fmt::Arguments<'_>) {
        if name == "message" {
            let _ = self.message.write_fmt(value);
            return;
        }
        let comma = if self.fields.is_empty() { "" } else { ", " };
        let _ = write!(self.fields, "{comma}{name}={value}");
    }
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field.name(), format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.field(field.name(), format_args!("{value:?}"));
    }
}

/// Starts forwarding; to be called once for each process, as its runtime starts.
pub(crate) fn start() {
    let (sender, receiver) = sync_channel(WAITING);
    let Ok(_) = std::thread::Builder::new().name("samsarrow-log".into()).spawn(move || forward(&receiver)) else {
        return;
    };
    *LINES.write().unwrap_or_else(PoisonError::into_inner) = Some(sender);
    // It fails in the child of a fork, which inherits it, and where a program has a subscriber of its own.
    let _ = tracing::subscriber::set_global_default(Forward);
}

fn forward(lines: &Receiver<Line>) {
    while let Ok(line) = lines.recv() {
        let told = Python::try_attach(|py| {
            // A handler that fails has told of it on stderr: `logging` raises nothing.
            let _ = tell(py, &line);
        });
        if told.is_none() {
            // The interpreter is ending.
            return;
        }
    }
}

fn tell(py: Python<'_>, line: &Line) -> PyResult<()> {
    let get = py.import("logging")?.getattr("getLogger")?;
    let dropped = DROPPED.swap(0, Ordering::Relaxed);
    if dropped > 0 {
        let text = format!("{dropped} log lines were dropped: they came faster than they could be written");
        get.call1(("samsarrow",))?.call_method1("warning", (text,))?;
    }
    let name = line.target.replacen("samsarrow_", "samsarrow.", 1).replace("::", ".");
    get.call1((name,))?.call_method1("log", (line.level, "%s", &line.text))?;
    Ok(())
}
