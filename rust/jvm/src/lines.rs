//! The core's log lines, from level INFO on. They wait here until Java comes for them: Rust never calls Java.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use samsarrow_client::log::LogSubscriber;
use serde_json::{Value, json};
use tracing::Level;

/// Lines that may wait for Java.
const WAITING: usize = 1_000;

static LINES: Mutex<Waiting> = Mutex::new(Waiting { lines: VecDeque::new(), dropped: 0 });
/// Whether there is anything to come for: that is asked for with each batch of rows.
static ANY: AtomicBool = AtomicBool::new(false);

/// Lines, and how many more there would be.
#[derive(Debug)]
struct Waiting {
    lines: VecDeque<Value>,
    dropped: u64,
}

impl Waiting {
    fn put(&mut self, line: Value) {
        if self.lines.len() < WAITING {
            self.lines.push_back(line);
        } else {
            self.dropped += 1;
        }
    }

    fn take(&mut self) -> Vec<Value> {
        let mut lines: Vec<Value> = self.lines.drain(..).collect();
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

fn keep(level: Level, target: &'static str, text: String) {
    lock().put(line(level, target, &text));
    ANY.store(true, Ordering::Release);
}

/// Has lines kept from now on.
pub(crate) fn start() {
    LogSubscriber::new(Level::INFO, keep).start();
}

/// The lines that nobody came for yet, `[{"level":"WARN","target":...,"text":...},...]`; empty where there are none.
pub fn take() -> String {
    if !ANY.swap(false, Ordering::Acquire) {
        return String::new();
    }
    Value::from(lock().take()).to_string()
}

fn lock() -> MutexGuard<'static, Waiting> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_until_they_are_taken() {
        keep(Level::WARN, "samsarrow_client::fetcher", "going on (left=3)".to_owned());
        let wanted = r#"[{"level":"WARN","target":"samsarrow_client::fetcher","text":"going on (left=3)"}]"#;
        assert_eq!(serde_json::from_str::<Value>(&take()).unwrap(), serde_json::from_str::<Value>(wanted).unwrap());
        assert_eq!(take(), "");
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let mut waiting = Waiting { lines: VecDeque::new(), dropped: 0 };
        for number in 0..WAITING + 5 {
            waiting.put(Value::from(number));
        }
        let taken = waiting.take();
        assert_eq!(taken.len(), WAITING + 1);
        assert_eq!(taken[WAITING - 1], Value::from(WAITING - 1));
        assert_eq!(taken[WAITING]["text"], "5 more lines were dropped");
        assert!(waiting.take().is_empty());
    }
}
