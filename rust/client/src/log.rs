//! Forwards tracing events to the application's own logger.

use std::fmt::Write as _;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Tracing subscriber that passes each event to `write`: its level, its target module, and a text with the fields as
/// `name=value`.
#[derive(Debug)]
pub struct LogSubscriber<W> {
    max_level: Level,
    write: W,
}

impl<W: Fn(Level, &'static str, String) + Send + Sync + 'static> LogSubscriber<W> {
    /// Creates a subscriber for events of this level and of more severe levels.
    pub fn new(max_level: Level, write: W) -> LogSubscriber<W> {
        LogSubscriber { max_level, write }
    }

    /// Installs this subscriber as the global default. Does nothing if the process already has a global subscriber.
    pub fn start(self) {
        let _ = tracing::subscriber::set_global_default(self);
    }
}

impl<W: Fn(Level, &'static str, String) + Send + Sync + 'static> Subscriber for LogSubscriber<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("samsarrow") && *metadata.level() <= self.max_level
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
        (self.write)(*metadata.level(), metadata.target(), text.finish());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Message of an event, and its fields as text.
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn event_text_contains_fields() {
        let events = Arc::new(Mutex::new(Vec::new()));
        let stored = Arc::clone(&events);
        let write = move |level, target, text| stored.lock().unwrap().push((level, target, text));
        tracing::subscriber::with_default(LogSubscriber::new(Level::INFO, write), || {
            tracing::warn!(topic = "t", left = 3, "going on");
            tracing::info!("done");
            tracing::debug!("not wanted");
            tracing::error!(target: "elsewhere", "not ours");
        });
        let target = "samsarrow_client::log::tests";
        let expected =
            [(Level::WARN, target, "going on (topic=t, left=3)".to_owned()), (Level::INFO, target, "done".to_owned())];
        assert_eq!(*events.lock().unwrap(), expected);
    }
}
