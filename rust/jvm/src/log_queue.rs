//! Queue of log lines of level INFO and above, or of the level that Java sets. Java fetches the lines, because Rust never calls Java.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use samsarrow_client::log::{Levels, Line, LogSubscriber, Logger};
use samsarrow_wire::sync::lock;
use serde_json::{Value, json};
use tracing::Level;

/// Maximum number of queued lines.
const CAPACITY: usize = 1_000;

static LEVELS: Levels = Levels::new();
/// Lowest level of queued lines.
static LOWEST: Mutex<Level> = Mutex::new(Level::INFO);
static QUEUE: Mutex<LogQueue> = Mutex::new(LogQueue { lines: VecDeque::new(), dropped: 0 });
/// True if lines are queued. Java checks this with each batch of rows.
static HAS_LINES: AtomicBool = AtomicBool::new(false);

/// Queued lines, and the number of lines that were dropped.
#[derive(Debug)]
struct LogQueue {
    lines: VecDeque<Value>,
    dropped: u64,
}

impl LogQueue {
    fn put(&mut self, line: Value) {
        if self.lines.len() < CAPACITY {
            self.lines.push_back(line);
        } else {
            self.dropped += 1;
        }
    }

    fn take(&mut self) -> Vec<Value> {
        let mut lines: Vec<Value> = self.lines.drain(..).collect();
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            lines.push(json_line(Level::WARN, Logger::Root, &format!("{dropped} more lines were dropped")));
        }
        lines
    }
}

fn json_line(level: Level, logger: Logger, text: &str) -> Value {
    json!({"level": level.as_str(), "logger": logger.name(), "text": text})
}

fn enqueue(level: Level, logger: Logger, line: Line) {
    lock(&QUEUE).put(json_line(level, logger, &line.text));
    HAS_LINES.store(true, Ordering::Release);
}

/// Sets the lowest level of queued lines: `INFO`, `DEBUG` or `TRACE`. Ignores other names.
pub(crate) fn set_level(name: &str) {
    let Ok(level) = name.parse::<Level>() else { return };
    *lock(&LOWEST) = level;
    LEVELS.set(&[Some(level); Logger::ALL.len()]);
}

/// Installs a subscriber that queues log lines.
pub(crate) fn start() {
    LEVELS.set(&[Some(*lock(&LOWEST)); Logger::ALL.len()]);
    LogSubscriber::new(&LEVELS, enqueue).start();
}

/// Removes and returns the queued lines as `[{"level":"WARN","logger":...,"text":...},...]`. Returns an empty text if
/// no line is queued.
pub fn take() -> String {
    if !HAS_LINES.swap(false, Ordering::Acquire) {
        return String::new();
    }
    Value::from(lock(&QUEUE).take()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_queued_until_taken() {
        let line = Line { text: "going on (left=3)".to_owned(), ..Line::default() };
        enqueue(Level::WARN, Logger::Consumer, line);
        let expected = r#"[{"level":"WARN","logger":"samsarrow.consumer","text":"going on (left=3)"}]"#;
        assert_eq!(serde_json::from_str::<Value>(&take()).unwrap(), serde_json::from_str::<Value>(expected).unwrap());
        assert_eq!(take(), "");
    }

    #[test]
    fn excess_lines_are_counted() {
        let mut queue = LogQueue { lines: VecDeque::new(), dropped: 0 };
        for number in 0..CAPACITY + 5 {
            queue.put(Value::from(number));
        }
        let taken = queue.take();
        assert_eq!(taken.len(), CAPACITY + 1);
        assert_eq!(taken[CAPACITY - 1], Value::from(CAPACITY - 1));
        assert_eq!(taken[CAPACITY]["text"], "5 more lines were dropped");
        assert!(queue.take().is_empty());
    }
}
