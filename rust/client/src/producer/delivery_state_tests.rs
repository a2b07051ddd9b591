//! Tests of the order of callbacks and of unread failures.

use super::*;
use crate::error::Error;
use crate::producer::Delivery;

#[test]
fn late_callback_runs_after_earlier_ones() {
    let state = Arc::new(BatchState::new(Arc::from("t"), 0, 0));
    let called = Arc::new(Mutex::new(Vec::new()));
    let record = |index: u32| {
        let called = Arc::clone(&called);
        CompletionHandler::Callback(Box::new(move |_| called.lock().unwrap().push(index)))
    };
    let (late, again) = (record(2), Arc::clone(&state));
    let first = Arc::clone(&called);
    let register = move |_| {
        first.lock().unwrap().push(0);
        again.on_done(2, late);
    };
    state.on_done(0, CompletionHandler::Callback(Box::new(register)));
    state.on_done(1, record(1));
    state.close(3);
    state.complete(0, 3, Err(Error::closed("the producer")), &mut PendingNotifications::default(), None);
    assert_eq!(*called.lock().unwrap(), [0, 1, 2]);
    assert!(state.all_done());
    state.on_done(1, record(3));
    assert_eq!(called.lock().unwrap().last(), Some(&3), "anyone who comes later is called at once");
}

#[derive(Default)]
struct RecordingListener(Mutex<Vec<Vec<u64>>>);

impl CompletionListener for RecordingListener {
    fn on_complete(&self, numbers: Vec<u64>) {
        self.0.lock().unwrap().push(numbers);
    }
}

#[test]
fn listener_is_called_once_per_response() {
    let batches = [0, 1].map(|partition| Arc::new(BatchState::new(Arc::from("t"), partition, 0)));
    let (listener, other) = (Arc::new(RecordingListener::default()), Arc::new(RecordingListener::default()));
    let delivery = |batch: &Arc<BatchState>, index| Delivery { state: Arc::clone(batch), index, timestamp: -1 };
    for (partition, batch) in (0..).zip(&batches) {
        for index in 0..3 {
            delivery(batch, index).add_listener(Arc::clone(&listener) as _, partition * 10 + u64::from(index));
        }
    }
    delivery(&batches[0], 2).add_listener(Arc::clone(&other) as _, 7);
    let appended = Appended { base_offset: 5, log_append_time: -1 };
    let mut notifications = PendingNotifications::default();
    for batch in &batches {
        batch.complete(0, 2, Ok(appended), &mut notifications, None);
    }
    assert!(listener.0.lock().unwrap().is_empty());
    drop(notifications);
    assert_eq!(*listener.0.lock().unwrap(), [vec![0, 1, 10, 11]]);
    batches[0].complete(2, 1, Ok(appended), &mut PendingNotifications::default(), None);
    assert_eq!(*listener.0.lock().unwrap(), [vec![0, 1, 10, 11], vec![2]]);
    assert_eq!(*other.0.lock().unwrap(), [vec![7]]);
    // An available result is reported immediately.
    delivery(&batches[0], 0).add_listener(Arc::clone(&other) as _, 8);
    assert_eq!(*other.0.lock().unwrap(), [vec![7], vec![8]]);
}

/// Returns the text of a report of unread failures.
fn reported(unread: &Unread) -> Option<String> {
    unread.take().and_then(|failures| failures.into_error("flush")).map(|error| error.to_string())
}

#[test]
fn dropped_reader_leaves_failures_unread() {
    let state = Arc::new(BatchState::new(Arc::from("t"), 0, 0));
    let unread = Arc::new(Unread::default());
    let (first, other) = (state.read_guard(0, 100), state.read_guard(90, 1));
    state.on_done(95, CompletionHandler::Callback(Box::new(drop)));
    state.on_done(0, CompletionHandler::Notification(Box::new(|| ())));
    state.close(100);
    state.complete(0, 100, Err(Error::closed("the producer")), &mut PendingNotifications::default(), Some(&unread));
    assert_eq!(reported(&unread), None, "all of them are waited for or were given to a callback");
    state.read(10, 5);
    drop(first);
    let text = reported(&unread).unwrap();
    assert!(text.starts_with("flush: 93 records were not delivered"), "{text}");
    drop(other);
    let text = reported(&unread).unwrap();
    assert!(text.starts_with("flush: 1 records were not delivered"), "{text}");
    drop(state.read_guard(0, 100));
    assert_eq!(reported(&unread), None, "reports name each record once");
}

#[test]
fn awaited_failures_are_not_unread() {
    let state = Arc::new(BatchState::new(Arc::from("t"), 0, 0));
    let unread = Arc::new(Unread::default());
    state.complete(0, 4, Err(Error::closed("the producer")), &mut PendingNotifications::default(), Some(&unread));
    let reader = state.read_guard(0, 4);
    assert_eq!(reported(&unread), None);
    state.read(0, 1);
    drop(reader);
    let text = reported(&unread).unwrap();
    assert!(text.starts_with("flush: 3 records were not delivered"), "{text}");
}
