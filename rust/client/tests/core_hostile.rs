//! Hostile peers. Every response must lead to an error in time, and never to a panic, a hang or a huge allocation.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use samsarrow_client::cluster::Cluster;
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::error::{Error, Result};
use samsarrow_wire::frame;
use samsarrow_wire::messages::api_versions::ApiVersion;
use samsarrow_wire::messages::metadata::MetadataResponseBroker;
use samsarrow_wire::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, FetchRequest, FindCoordinatorRequest, MetadataRequest,
    MetadataResponse,
};
use samsarrow_wire::releases::Release;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Action of a peer when it receives a request.
#[derive(Clone)]
enum Reply {
    /// Sends these bytes and keeps the connection open.
    Bytes(Vec<u8>),
    /// Sends these bytes and closes the connection.
    BytesAndClose(Vec<u8>),
    /// Sends a frame with a valid length and a wrong correlation id.
    WrongId,
    /// Sends a frame of this length with random contents.
    Noise(usize),
    /// Sends no response.
    Nothing,
}

const METADATA: i16 = 3;
const API_VERSIONS: i16 = 18;

async fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await.ok()?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).await.ok()?;
    Some(frame)
}

fn parts(request: &[u8]) -> (i16, i16, i32) {
    let short = |at: usize| i16::from_be_bytes(request[at..at + 2].try_into().unwrap());
    (short(0), short(2), i32::from_be_bytes(request[4..8].try_into().unwrap()))
}

async fn send_reply(stream: &mut TcpStream, reply: &Reply, id: i32) -> bool {
    let (bytes, stay) = match reply {
        Reply::Bytes(bytes) => (bytes.clone(), true),
        Reply::BytesAndClose(bytes) => (bytes.clone(), false),
        Reply::WrongId => ([12i32, id + 7, 0, 0].iter().flat_map(|n| n.to_be_bytes()).collect(), true),
        Reply::Noise(size) => {
            let mut frame = BytesMut::new();
            frame.extend_from_slice(&(*size as i32 + 4).to_be_bytes());
            frame.extend_from_slice(&id.to_be_bytes());
            frame.extend((0..*size).map(|i| (i * 151 % 251) as u8));
            (frame.to_vec(), true)
        }
        Reply::Nothing => return true,
    };
    stream.write_all(&bytes).await.is_ok() && stay
}

/// Starts a peer that reacts to every request in the same way.
async fn peer(reply: Reply) -> String {
    serve(move |_, _, _| reply.clone()).await
}

/// Starts a peer that reacts to a request according to its API key, version and correlation id.
async fn serve(reply_of: impl Fn(i16, i16, i32) -> Reply + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let reply_of = reply_of.clone();
            tokio::spawn(async move {
                while let Some(request) = read_request(&mut stream).await {
                    let (api, version, id) = parts(&request);
                    if !send_reply(&mut stream, &reply_of(api, version, id), id).await {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Returns an ApiVersions response that contains one API.
fn api_versions(version: i16, id: i32, api_key: i16, range: (i16, i16)) -> Reply {
    let offered = [(api_key, range), (API_VERSIONS, (0, 4))];
    let api =
        |(api_key, (min_version, max_version))| ApiVersion { api_key, min_version, max_version, ..Default::default() };
    let response = ApiVersionsResponse { api_keys: offered.map(api).to_vec(), ..Default::default() };
    Reply::Bytes(frame::encode_response::<ApiVersionsRequest>(&response, version, id).unwrap().to_vec())
}

fn options(servers: &str, more: &[(&str, &str)]) -> Options {
    let fast = [
        ("socket.connection.setup.timeout.ms", "400"),
        ("reconnect.backoff.max.ms", "50"),
        ("retry.backoff.ms", "20"),
        ("retry.backoff.max.ms", "50"),
    ];
    let defaults = fast.into_iter().filter(|(name, _)| !more.iter().any(|(other, _)| other == name));
    let all = defaults.chain(more.iter().copied()).chain([("bootstrap.servers", servers)]);
    Options::parse(ClientKind::Consumer, all.map(|(k, v)| (k.to_owned(), OptionValue::Str(v.to_owned())))).unwrap()
}

/// Returns a socket that does not listen, and its address. While the socket exists, no other test can get the port.
fn unused_address() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

/// Requests a topic and returns the error, which must be raised shortly after the timeout.
async fn failure(servers: &str, more: &[(&str, &str)]) -> Error {
    let cluster = Cluster::new(&options(servers, more)).unwrap();
    let (limit, start) = (Duration::from_millis(1500), Instant::now());
    let result: Result<_> = cluster.topics(&["t"], limit).await;
    assert!(start.elapsed() < limit + Duration::from_secs(10), "it took {:?}", start.elapsed());
    result.unwrap_err()
}

fn assert_message(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[tokio::test]
async fn errors_identify_hosts_that_are_not_kafka() {
    let cases: &[(&[u8], &str)] = &[
        (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "does not speak Kafka: it responds with HTTP"),
        (&[0x15, 3, 3, 0, 2, 2, 40], "security.protocol=SSL"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not a Kafka broker"),
        (&[0xff; 64], "invalid response length -1"),
        (&[0, 0, 0, 0], "invalid response length 0"),
        (&[0x7f, 0xff, 0xff, 0xff, 1, 2, 3], "receive.message.max.bytes"),
    ];
    for (bytes, hint) in cases {
        let address = peer(Reply::Bytes(bytes.to_vec())).await;
        let error = failure(&address, &[]).await;
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
        assert!(!error.retriable());
        assert_message(&error, &[&address, hint]);
    }
}

#[tokio::test]
async fn random_frame_contents_are_an_error() {
    for size in [0, 1, 5, 10, 64, 1000, 100_000] {
        let address = peer(Reply::Noise(size)).await;
        assert_message(&failure(&address, &[]).await, &[&address]);
    }
}

#[tokio::test]
async fn wrong_correlation_id_breaks_the_connection() {
    let address = peer(Reply::WrongId).await;
    assert_message(&failure(&address, &[]).await, &[&address, "correlation id 7 instead of 0"]);
}

#[tokio::test]
async fn closed_connections_and_truncated_frames_differ() {
    let closed = peer(Reply::BytesAndClose(vec![])).await;
    assert_message(&failure(&closed, &[]).await, &[&closed, "closed the connection", "metadata of topic t"]);
    let cut = peer(Reply::BytesAndClose(vec![0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3])).await;
    assert_message(&failure(&cut, &[]).await, &[&cut, "in the middle of a response"]);
}

#[tokio::test]
async fn unresponsive_and_slow_peers_time_out() {
    let unresponsive = peer(Reply::Nothing).await;
    let error = failure(&unresponsive, &[]).await;
    assert_eq!(error.name(), "KafkaTimeoutError");
    assert_message(&error, &[&unresponsive, "no response to ApiVersions within 400 ms", "longer than 1.5 s"]);

    // The handshake is valid, but then the peer does not respond.
    let stuck = serve(|api, version, id| match api {
        API_VERSIONS => api_versions(version, id, METADATA, (0, 13)),
        _ => Reply::Nothing,
    });
    let stuck = stuck.await;
    assert_message(&failure(&stuck, &[("request.timeout.ms", "200")]).await, &[&stuck, "last error: Metadata to "]);
}

#[tokio::test]
async fn connection_refused_and_unknown_host() {
    let (_socket, unused) = unused_address();
    let error = failure(&unused, &[]).await;
    assert_message(&error, &[&unused, "cannot connect", "refused"]);
    assert!(error.retriable());
    assert_message(
        &failure("no-such-host.invalid:9092", &[]).await,
        &["no-such-host.invalid:9092", "cannot be resolved"],
    );
}

#[tokio::test]
async fn error_without_common_version_names_api_and_ranges() {
    let future = serve(|_, version, id| api_versions(version, id, METADATA, (90, 99))).await;
    assert_message(&failure(&future, &[]).await, &["Metadata", &future, "v90 to v99", "v0 to v13"]);
    let poor = serve(|_, version, id| api_versions(version, id, 1, (0, 11))).await;
    assert_message(&failure(&poor, &[]).await, &["Metadata", &poor, "does not support"]);
    let chosen = serve(|_, version, id| api_versions(version, id, METADATA, (4, 9))).await;
    let error = failure(&chosen, &[("api.version.metadata", "12")]).await;
    assert_message(&error, &["Metadata v12", "api.version", "v4 to v9"]);
}

#[tokio::test]
async fn old_broker_gets_api_versions_v0() {
    // The peer supports only version 0. For other versions it responds with UNSUPPORTED_VERSION and, like brokers
    // before 2.4, without API keys.
    let old = serve(|api, version, id| match (api, version) {
        (API_VERSIONS, 0) => api_versions(0, id, METADATA, (0, 1)),
        (API_VERSIONS, _) => {
            let response = ApiVersionsResponse { error_code: 35, ..Default::default() };
            Reply::Bytes(frame::encode_response::<ApiVersionsRequest>(&response, 0, id).unwrap().to_vec())
        }
        (_, version) => {
            assert_eq!(version, 1);
            let broker = MetadataResponseBroker { node_id: 5, host: "h".into(), port: 1, ..Default::default() };
            let response = MetadataResponse { brokers: vec![broker], controller_id: 5, ..Default::default() };
            Reply::Bytes(frame::encode_response::<MetadataRequest>(&response, version, id).unwrap().to_vec())
        }
    });
    let cluster = Cluster::new(&options(&old.await, &[])).unwrap();
    cluster.refresh(Duration::from_secs(5)).await.unwrap();
    assert_eq!(cluster.metadata().brokers.get(&5).map(String::as_str), Some("h:1"));
}

type Frames = Vec<(i16, Vec<u8>)>;

/// Starts a broker that responds to an ApiVersions request with the frame (without length) for its version. Also
/// returns the requested versions.
async fn replay(frames: Frames) -> (String, Arc<Mutex<Vec<i16>>>) {
    let requested: Arc<Mutex<Vec<i16>>> = Arc::default();
    let seen = Arc::clone(&requested);
    let address = serve(move |api, version, id| {
        if api != API_VERSIONS {
            let response = MetadataResponse { controller_id: 1, ..Default::default() };
            return Reply::Bytes(frame::encode_response::<MetadataRequest>(&response, version, id).unwrap().to_vec());
        }
        seen.lock().unwrap().push(version);
        let frame = frames.iter().find(|(frame_version, _)| *frame_version == version).map(|(_, frame)| frame);
        let Some(frame) = frame else { return Reply::BytesAndClose(Vec::new()) };
        let length = i32::try_from(frame.len()).unwrap().to_be_bytes();
        Reply::Bytes([&length[..], &id.to_be_bytes(), &frame[4..]].concat())
    });
    (address.await, requested)
}

/// Returns an ApiVersions v0 response with the error UNSUPPORTED_VERSION and these version ranges of ApiVersions.
fn unsupported(advertised: &[(i16, i16)]) -> Vec<u8> {
    let api = |(min_version, max_version): &(i16, i16)| ApiVersion {
        api_key: API_VERSIONS,
        min_version: *min_version,
        max_version: *max_version,
        ..Default::default()
    };
    let response =
        ApiVersionsResponse { error_code: 35, api_keys: advertised.iter().map(api).collect(), ..Default::default() };
    frame::encode_response::<ApiVersionsRequest>(&response, 0, 0).unwrap()[4..].to_vec()
}

fn supported(version: i16) -> Vec<u8> {
    let Reply::Bytes(bytes) = api_versions(version, 0, METADATA, (0, 9)) else { unreachable!() };
    bytes[4..].to_vec()
}

#[tokio::test]
async fn api_versions_is_retried_in_the_advertised_version() {
    let cases: [(Frames, &[i16]); 5] = [
        // Kafka 2.4 to 3.8 responds with one API key, that of ApiVersions (KIP-511).
        (vec![(4, unsupported(&[(0, 3)])), (3, supported(3))], &[4, 3]),
        // Earlier Kafka versions respond without an API key.
        (vec![(4, unsupported(&[])), (0, supported(0))], &[4, 0]),
        // The advertised version is requested only once, even if it is not supported either.
        (vec![(4, unsupported(&[(0, 3)])), (3, unsupported(&[(0, 3)])), (0, supported(0))], &[4, 3, 0]),
        (vec![(4, unsupported(&[(0, 99)])), (0, supported(0))], &[4, 0]),
        // librdkafka's mock broker appends a field of a later version.
        (vec![(4, [unsupported(&[(0, 3)]), vec![0; 4]].concat()), (3, supported(3))], &[4, 3]),
    ];
    for (frames, expected) in cases {
        let (address, requested) = replay(frames).await;
        let cluster = Cluster::new(&options(&address, &[])).unwrap();
        cluster.refresh(Duration::from_secs(5)).await.unwrap();
        assert_eq!(*requested.lock().unwrap(), expected);
    }
    let (address, requested) = replay([4, 3, 2, 1, 0].map(|version| (version, unsupported(&[(0, 3)]))).to_vec()).await;
    let error = failure(&address, &[]).await;
    assert_message(&error, &[&address, "rejects ApiVersions v0", "UNSUPPORTED_VERSION"]);
    assert_eq!(requested.lock().unwrap()[..3], [4, 3, 0]);
}

#[tokio::test]
async fn api_versions_version_is_configurable() {
    let chosen = [("api.version.api_versions", "2")];
    let (address, requested) = replay(vec![(2, supported(2))]).await;
    Cluster::new(&options(&address, &chosen)).unwrap().refresh(Duration::from_secs(5)).await.unwrap();
    assert_eq!(*requested.lock().unwrap(), [2]);
    let (address, requested) = replay(vec![(2, unsupported(&[(0, 1)])), (1, supported(1))]).await;
    let error = failure(&address, &chosen).await;
    assert_message(&error, &[&address, "rejects ApiVersions v2"]);
    assert_eq!(error.name(), "UnsupportedVersionError");
    assert_eq!(*requested.lock().unwrap(), [2], "no other is tried");
}

#[tokio::test]
#[allow(clippy::print_stderr, reason = "reports skipped tests")]
async fn responses_of_real_brokers_are_decoded() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = std::env::var_os("SAMSARROW_CONFORMANCE").map_or(root.join("../shared/conformance"), PathBuf::from);
    let folder = folder.join("api_versions");
    let Ok(files) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: there is no {}", folder.display());
        return;
    };
    let names: BTreeSet<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let kafkas: BTreeSet<&str> = names.iter().filter_map(|name| name.rsplit_once("-v").map(|(of, _)| of)).collect();
    assert!(kafkas.len() >= 11, "{kafkas:?}");
    for kafka in kafkas {
        let read = |version: i16| std::fs::read(folder.join(format!("{kafka}-v{version}.bin"))).unwrap();
        let (address, requested) = replay([0, 3, 4].map(|version| (version, read(version))).to_vec()).await;
        let cluster = Cluster::new(&options(&address, &[])).unwrap();
        cluster.refresh(Duration::from_secs(5)).await.unwrap();
        let release = Release::named(kafka).unwrap();
        let (_, last) = release.versions(ApiKey::ApiVersions).unwrap();
        let expected: &[i16] = if last == 4 {
            &[4]
        } else if last == 3 {
            &[4, 3]
        } else {
            &[4, 0]
        };
        assert_eq!(*requested.lock().unwrap(), expected, "Kafka {kafka}");
        let timeout = Duration::from_secs(5);
        let metadata = cluster.version::<MetadataRequest>(-1, timeout).await.unwrap();
        let fetch = cluster.version::<FetchRequest>(-1, timeout).await.unwrap();
        let newest = |key| release.versions(key).map(|(_, last)| last);
        assert_eq!((Some(metadata), Some(fetch)), (newest(ApiKey::Metadata), newest(ApiKey::Fetch)), "Kafka {kafka}");
    }
}

#[tokio::test]
async fn one_working_bootstrap_server_is_enough() {
    let good = serve(|api, version, id| match api {
        API_VERSIONS => api_versions(version, id, METADATA, (0, 9)),
        _ => {
            let response = MetadataResponse::default();
            Reply::Bytes(frame::encode_response::<MetadataRequest>(&response, version, id).unwrap().to_vec())
        }
    });
    let web = peer(Reply::Bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())).await;
    let (_socket, dead) = unused_address();
    let servers = format!("{web}, {dead}, {}", good.await);
    for _ in 0..8 {
        let cluster = Cluster::new(&options(&servers, &[])).unwrap();
        cluster.refresh(Duration::from_secs(5)).await.unwrap();
    }
}

fn resident_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split(' ').nth(1)?.parse::<usize>().ok().map(|pages| pages * 4096)
}

#[tokio::test]
#[allow(clippy::print_stderr, reason = "reports skipped tests")]
async fn announced_length_is_not_allocated() {
    let Some(before) = resident_bytes() else {
        eprintln!("skipped: no /proc/self/statm to read the memory from");
        return;
    };
    // The peer announces a length of 200 MiB on each of sixteen connections, but sends only three bytes.
    let address = peer(Reply::Bytes([&(200i32 << 20).to_be_bytes()[..], &[0, 0, 0]].concat())).await;
    let servers = vec![address; 16].join(",");
    failure(&servers, &[]).await;
    let grown = resident_bytes().unwrap().saturating_sub(before);
    // Allows growth by one announced length, because other tests in this process also allocate memory.
    assert!(grown < 200 << 20, "{grown} bytes for frames that never arrived");
}

#[tokio::test]
async fn truncated_and_corrupted_handshakes_are_errors() {
    let Reply::Bytes(good) = api_versions(4, 0, METADATA, (0, 13)) else { unreachable!() };
    let cluster =
        |address: &str| Cluster::new(&options(address, &[("socket.connection.setup.timeout.ms", "150")])).unwrap();
    let mut jobs = Vec::new();
    for at in 0..good.len() {
        for (stay, mut bytes) in [(false, good[..at].to_vec()), (true, good.clone())] {
            if stay {
                bytes[at] ^= 0x81;
            }
            let reply_of = if stay { Reply::Bytes(bytes) } else { Reply::BytesAndClose(bytes) };
            let cluster = cluster(&peer(reply_of).await);
            jobs.push(tokio::spawn(async move { cluster.refresh(Duration::from_millis(600)).await.is_err() }));
        }
    }
    for job in jobs {
        // The peer never responds to Metadata correctly, so all jobs must return an error. A panic would make the join
        // fail.
        assert!(job.await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_to_thousands_of_closing_brokers_are_limited() {
    let requested = Arc::new(Mutex::new((0, 0)));
    let known = Arc::clone(&requested);
    let address = serve(move |api, version, id| {
        let mut known = known.lock().unwrap();
        match api {
            API_VERSIONS => {
                let apis = [(ApiKey::Metadata, 9), (ApiKey::FindCoordinator, 4), (ApiKey::ApiVersions, 4)];
                let api = |(key, max_version)| ApiVersion { api_key: key as i16, max_version, ..Default::default() };
                let response = ApiVersionsResponse { api_keys: apis.map(api).to_vec(), ..Default::default() };
                Reply::Bytes(frame::encode_response::<ApiVersionsRequest>(&response, version, id).unwrap().to_vec())
            }
            METADATA => {
                let broker = |node_id| MetadataResponseBroker {
                    node_id,
                    host: "127.0.0.1".into(),
                    port: known.1,
                    ..Default::default()
                };
                let response = MetadataResponse { brokers: (0..5000).map(broker).collect(), ..Default::default() };
                Reply::Bytes(frame::encode_response::<MetadataRequest>(&response, version, id).unwrap().to_vec())
            }
            _ => {
                known.0 += 1;
                Reply::BytesAndClose(Vec::new())
            }
        }
    })
    .await;
    requested.lock().unwrap().1 = address.rsplit(':').next().unwrap().parse().unwrap();
    let cluster = Cluster::new(&options(&address, &[("retry.backoff.ms", "100"), ("retry.backoff.max.ms", "1000")]));
    let cluster = cluster.unwrap();
    cluster.refresh(Duration::from_secs(20)).await.unwrap();
    assert_eq!(cluster.metadata().brokers.len(), 5000);
    let limit = Duration::from_secs(2);
    let lookup =
        cluster.send_any(FindCoordinatorRequest { coordinator_keys: vec!["g".into()], ..Default::default() }, limit);
    assert!(lookup.await.unwrap_err().retriable());
    let requested = requested.lock().unwrap().0;
    // Ten requests are sent immediately, the others after 0.1 s, 0.2 s, ….
    assert!((10..40).contains(&requested), "{requested} requests");
    cluster.close().await;
}
