//! The core's log lines, from level INFO on. They wait here until Java comes for them: Rust never calls Java.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Lines that may wait for Java.
const WAITING: usize = 1_000;

static LINES: Mutex<Lines> = Mutex::new(Lines { waiting: VecDeque::new(), dropped: 0 });
/// Whether there is anything to come for: that is asked for with each batch of rows.
static ANY: AtomicBool = AtomicBool::new(false);

/// Lines, and how many more there would be.
#[derive(Debug)]
struct Lines {
    waiting: VecDeque<Value>,
    dropped: u64,
}

impl Lines {
    fn put(&mut self, line: Value) {
        if self.waiting.len() < WAITING {
            self.waiting.push_back(line);
        } else {
            self.dropped += 1;
        }
    }

    fn take(&mut self) -> Vec<Value> {
        let mut lines: Vec<Value> = self.waiting.drain(..).collect();
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            lines.push(line(Level::WARN, module_path!(), &format!("{dropped} more lines were dropped")));
        }
        lines
    }
}

fn line(level: Level, target: &str, text: &str) -> Value {
    json!({"level": level.as_str(), "target": target, "text": text})
}

struct Keep;

impl Subscriber for Keep {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("samsarrow") && *metadata.level() <= Level::INFO
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
        lock().put(line(*metadata.level(), metadata.target(), &(text.message + &text.fields)));
        ANY.store(true, Ordering::Release);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message, and the fields behind it.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// Has lines kept from now on.
pub(crate) fn start() {
    // It fails where a subscriber is there already, which then has the lines.
    let _ = tracing::subscriber::set_global_default(Keep);
}

/// The lines that nobody came for yet, `[{"level":"WARN","target":...,"text":...},...]`; empty where there are none.
pub fn take() -> String {
    if !ANY.swap(false, Ordering::Acquire) {
        return String::new();
    }
    Value::from(lock().take()).to_string()
}

fn lock() -> MutexGuard<'static, Lines> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_with_their_fields() {
        tracing::subscriber::with_default(Keep, || {
            tracing::warn!(topic = "t", left = 3, "going on");
            tracing::debug!("not wanted");
        });
        let wanted =
            r#"[{"level":"WARN","target":"samsarrow_jvm::lines::tests","text":"going on topic=\"t\" left=3"}]"#;
        assert_eq!(serde_json::from_str::<Value>(&take()).unwrap(), serde_json::from_str::<Value>(wanted).unwrap());
        assert_eq!(take(), "");
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let mut lines = Lines { waiting: VecDeque::new(), dropped: 0 };
        for number in 0..WAITING + 5 {
            lines.put(Value::from(number));
        }
        let taken = lines.take();
        assert_eq!(taken.len(), WAITING + 1);
        assert_eq!(taken[WAITING - 1], Value::from(WAITING - 1));
        assert_eq!(taken[WAITING]["text"], "5 more lines were dropped");
        assert!(lines.take().is_empty());
    }
}
