//! Requests of the driver's to brokers that accept connections and never answer.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::net::TcpListener;
use std::time::{Duration, Instant};

use samsarrow_jvm::clients::Client;

const SLICE: Duration = Duration::from_millis(50);
/// Far less than the 60 s that one try of a question may take.
const SOON: Duration = Duration::from_secs(20);

/// Connections wait in the backlog of the listener.
fn silent() -> (TcpListener, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let servers = listener.local_addr().unwrap();
    let options = format!(r#""kafka.bootstrap.servers":"{servers}","subscribe":"t""#);
    let client = Client::new(&format!(r#"{{"options":{{{options}}},"folders":[],"token":null}}"#)).unwrap();
    (listener, client)
}

fn question() -> String {
    r#"{"ask":"initial","keeps":true}"#.to_owned()
}

#[test]
fn a_request_without_an_answer_is_waited_for_in_slices_and_dropped() {
    let (_listener, client) = silent();
    let begun = Instant::now();
    let mut request = client.plan(question());
    assert_eq!(request.answer(SLICE).unwrap(), None);
    assert_eq!(request.answer(SLICE).unwrap(), None);
    request.cancel().unwrap();
    let failure = request.answer(SLICE).unwrap_err();
    assert_eq!(failure.text, "this request was answered or cancelled already");
    client.release().unwrap();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn a_released_client_ends_a_request_of_another_thread() {
    let (_listener, client) = silent();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut request = client.plan(question());
            loop {
                match request.answer(SLICE) {
                    Ok(None) => {}
                    answered => return answered,
                }
            }
        });
        std::thread::sleep(3 * SLICE);
        client.release().unwrap();
        let failure = waiting.join().unwrap().unwrap_err();
        assert_eq!((failure.kind, &*failure.text), ("state", "the client was closed before the brokers answered"));
    });
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}
