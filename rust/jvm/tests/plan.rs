//! Tests of driver requests to brokers that accept connections but never respond.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::net::TcpListener;
use std::time::{Duration, Instant};

use samsarrow_jvm::clients::Client;

const SLICE: Duration = Duration::from_millis(50);
/// Maximum time of a driver request, far less than the 60 s that a single attempt may take.
const SOON: Duration = Duration::from_secs(20);

/// Returns a listener that never accepts, and a client of this listener. The client's connections wait in the backlog.
fn silent() -> (TcpListener, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let servers = listener.local_addr().unwrap();
    let options = format!(r#""kafka.bootstrap.servers":"{servers}","subscribe":"t""#);
    let client = Client::new(&format!(r#"{{"options":{{{options}}},"folders":[],"token":null}}"#)).unwrap();
    (listener, client)
}

fn request() -> String {
    r#"{"ask":"initial","keeps":true}"#.to_owned()
}

#[test]
fn unanswered_request_times_out_and_is_cancelled() {
    let (_listener, client) = silent();
    let begun = Instant::now();
    let mut request = client.plan(request());
    assert_eq!(request.response(SLICE).unwrap(), None);
    assert_eq!(request.response(SLICE).unwrap(), None);
    request.cancel().unwrap();
    let failure = request.response(SLICE).unwrap_err();
    assert_eq!(failure.text, "this request was already answered or cancelled");
    client.release().unwrap();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn release_cancels_requests_of_other_threads() {
    let (_listener, client) = silent();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut request = client.plan(request());
            loop {
                match request.response(SLICE) {
                    Ok(None) => {}
                    result => return result,
                }
            }
        });
        std::thread::sleep(3 * SLICE);
        client.release().unwrap();
        let failure = waiting.join().unwrap().unwrap_err();
        assert_eq!((failure.kind, &*failure.text), ("state", "the client was closed before the brokers responded"));
    });
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}
