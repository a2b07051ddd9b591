//! Tests of recovery from brokers that do not respond, throttle the client, or return with other addresses.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use samsarrow_broker::{Broker, BrokerOptions};
use samsarrow_client::cluster::Cluster;
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::error::{Error, Result};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::frame;
use samsarrow_wire::messages::api_versions::ApiVersion;
use samsarrow_wire::messages::metadata::MetadataResponseBroker;
use samsarrow_wire::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, ListGroupsRequest, ListGroupsResponse, MetadataRequest,
    MetadataResponse,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;

const SOON: Duration = Duration::from_secs(30);

fn cluster(servers: &str, more: &[(&str, &str)]) -> Cluster {
    let fast = [("reconnect.backoff.max.ms", "100"), ("retry.backoff.ms", "20"), ("retry.backoff.max.ms", "100")];
    let all = fast.into_iter().chain(more.iter().copied()).chain([("bootstrap.servers", servers)]);
    let pairs = all.map(|(k, v)| (k.to_owned(), OptionValue::Str(v.to_owned())));
    Cluster::new(&Options::parse(ClientKind::Consumer, pairs).unwrap()).unwrap()
}

async fn broker(brokers: usize) -> Broker {
    let topics = vec![("t".to_owned(), 2)];
    Broker::start(BrokerOptions { brokers, topics, auto_create_topics: false, ..Default::default() }).await.unwrap()
}

/// Starts a proxy with a fixed address and a target that can be changed.
async fn front(target: Arc<Mutex<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut inner, _)) = listener.accept().await {
            let target = target.lock().unwrap().clone();
            tokio::spawn(async move {
                if let Ok(mut outer) = TcpStream::connect(target).await {
                    let _ = copy_bidirectional(&mut inner, &mut outer).await;
                }
            });
        }
    });
    address
}

/// Starts a peer that accepts connections and never responds.
async fn black_hole(address: SocketAddr) {
    let listener = TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
}

#[tokio::test]
async fn brokers_with_new_addresses_are_found_behind_unresponsive_ones() {
    let before = broker(3).await;
    let servers = before.bootstrap_servers();
    let old: Vec<SocketAddr> = servers.split(',').map(|address| address.parse().unwrap()).collect();
    let target = Arc::new(Mutex::new(old[0].to_string()));
    let front = front(Arc::clone(&target)).await;
    let cluster = cluster(&front, &[("request.timeout.ms", "8000")]);
    cluster.topics(&["t"], SOON).await.unwrap();
    assert_eq!(cluster.metadata().brokers.len(), 3);
    before.shutdown().await;
    for address in &old {
        black_hole(*address).await;
    }
    let after = broker(2).await;
    after.create_topic("new", 1).unwrap();
    *target.lock().unwrap() = after.bootstrap_servers().split(',').next().unwrap().to_owned();
    // A single request timeout is sufficient, because each broker gets only a part of it.
    let start = Instant::now();
    while let Err(error) = cluster.refresh(Duration::from_secs(8)).await {
        assert!(start.elapsed() < SOON, "the client never recovered: {error}");
    }
    let metadata = cluster.topics(&["t", "new"], SOON).await.unwrap();
    let now: Vec<&str> = metadata.brokers.values().map(String::as_str).collect();
    assert_eq!(now.join(","), after.bootstrap_servers());
    for node in metadata.brokers.keys() {
        cluster.send(*node, ListGroupsRequest::default(), SOON).await.unwrap();
    }
    cluster.close().await;
    after.shutdown().await;
}

/// Starts a peer that responds to ApiVersions itself, and to other requests with `respond`.
async fn peer(respond: impl Fn(i16, i16, i32) -> Option<Vec<u8>> + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let respond = respond.clone();
            tokio::spawn(async move {
                loop {
                    let mut length = [0; 4];
                    if stream.read_exact(&mut length).await.is_err() {
                        return;
                    }
                    let mut request = vec![0; u32::from_be_bytes(length) as usize];
                    stream.read_exact(&mut request).await.unwrap();
                    let short = |at: usize| i16::from_be_bytes(request[at..at + 2].try_into().unwrap());
                    let (key, version) = (short(0), short(2));
                    let id = i32::from_be_bytes(request[4..8].try_into().unwrap());
                    let bytes = if key == ApiKey::ApiVersions as i16 {
                        Some(versions(version, id))
                    } else {
                        respond(key, version, id)
                    };
                    match bytes {
                        Some(bytes) => stream.write_all(&bytes).await.unwrap(),
                        None => return,
                    }
                }
            });
        }
    });
    address
}

fn versions(version: i16, id: i32) -> Vec<u8> {
    let supported = [(ApiKey::Metadata, 13), (ApiKey::ListGroups, 4), (ApiKey::ApiVersions, 4)];
    let api =
        |(key, max_version)| ApiVersion { api_key: key as i16, min_version: 0, max_version, ..Default::default() };
    let response = ApiVersionsResponse { api_keys: supported.map(api).to_vec(), ..Default::default() };
    frame::encode_response::<ApiVersionsRequest>(&response, version, id).unwrap().to_vec()
}

fn metadata(version: i16, id: i32, error_code: i16, brokers: &[(i32, &str)]) -> Vec<u8> {
    let broker = |(node_id, address): &(i32, &str)| {
        let (host, port) = address.rsplit_once(':').unwrap();
        MetadataResponseBroker {
            node_id: *node_id,
            host: host.into(),
            port: port.parse().unwrap(),
            ..Default::default()
        }
    };
    let brokers = brokers.iter().map(broker).collect();
    let response = MetadataResponse { error_code, brokers, ..Default::default() };
    frame::encode_response::<MetadataRequest>(&response, version, id).unwrap().to_vec()
}

#[tokio::test]
async fn rebootstrap_required_restarts_from_the_bootstrap_servers() {
    let demanded = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&demanded);
    // This broker was removed from the cluster.
    let stale = peer(move |_, version, id| {
        counter.fetch_add(1, Ordering::Relaxed);
        Some(metadata(version, id, ErrorCode::REBOOTSTRAP_REQUIRED.code(), &[]))
    })
    .await;
    let named = stale.clone();
    let requests = Arc::new(AtomicUsize::new(0));
    let times = Arc::clone(&requests);
    let bootstrap = peer(move |_, version, id| {
        let first = times.fetch_add(1, Ordering::Relaxed) == 0;
        let brokers: &[(i32, &str)] = if first { &[(7, &named)] } else { &[(8, "localhost:1")] };
        Some(metadata(version, id, 0, brokers))
    })
    .await;
    let cluster = cluster(&bootstrap, &[]);
    cluster.refresh(SOON).await.unwrap();
    assert!(cluster.metadata().brokers.contains_key(&7));
    // The client has an open connection to the stale broker, so it sends its first request there.
    cluster.send(7, MetadataRequest::default(), SOON).await.unwrap();
    let result = cluster.refresh(SOON).await;
    assert!(result.as_ref().is_err_and(Error::retriable), "{result:?}");
    assert!(cluster.metadata().brokers.is_empty(), "what is known is of no use");
    cluster.refresh(SOON).await.unwrap();
    assert_eq!(cluster.metadata().brokers.keys().collect::<Vec<_>>(), [&8]);
    assert_eq!(demanded.load(Ordering::Relaxed), 2);
    cluster.close().await;
}

#[tokio::test]
async fn without_recovery_only_known_brokers_are_used() {
    // The socket does not listen and keeps other tests from its port.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gone = socket.local_addr().unwrap().to_string();
    let requests = Arc::new(AtomicUsize::new(0));
    let (times, named) = (Arc::clone(&requests), gone.clone());
    let bootstrap = peer(move |_, version, id| {
        times.fetch_add(1, Ordering::Relaxed);
        Some(metadata(version, id, 0, &[(1, &named)]))
    })
    .await;
    for (strategy, trigger, recovers) in [("none", "0", false), ("rebootstrap", "60000", true)] {
        let more = [("metadata.recovery.strategy", strategy), ("metadata.recovery.rebootstrap.trigger.ms", trigger)];
        let cluster = cluster(&bootstrap, &more);
        cluster.refresh(SOON).await.unwrap();
        let before = requests.load(Ordering::Relaxed);
        let again = cluster.refresh(Duration::from_secs(2)).await;
        assert_eq!((again.is_ok(), requests.load(Ordering::Relaxed) > before), (recovers, recovers), "{again:?}");
        cluster.close().await;
    }
}

#[tokio::test]
async fn brokers_unreachable_for_the_trigger_time_are_discarded() {
    let requests = Arc::new(AtomicUsize::new(0));
    let times = Arc::clone(&requests);
    // The peer responds, then closes its connections, and responds again after a while.
    let bootstrap = peer(move |_, version, id| match times.fetch_add(1, Ordering::Relaxed) {
        0 => Some(metadata(version, id, 0, &[(1, "127.0.0.1:1")])),
        1..3 => None,
        _ => Some(metadata(version, id, 0, &[(2, "127.0.0.1:1")])),
    })
    .await;
    let cluster = cluster(&bootstrap, &[("metadata.recovery.rebootstrap.trigger.ms", "100")]);
    cluster.refresh(SOON).await.unwrap();
    for _ in 0..2 {
        cluster.refresh(Duration::from_secs(2)).await.unwrap_err();
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
    assert!(cluster.metadata().brokers.is_empty(), "{:?}", cluster.metadata().brokers);
    cluster.refresh(SOON).await.unwrap();
    assert_eq!(cluster.metadata().brokers.keys().collect::<Vec<_>>(), [&2]);
    cluster.close().await;
}

#[tokio::test]
async fn throttle_time_is_respected() {
    let listed = Arc::new(Mutex::new(Vec::new()));
    let times = Arc::clone(&listed);
    let server = peer(move |key, version, id| {
        if key == ApiKey::Metadata as i16 {
            return Some(metadata(version, id, 0, &[]));
        }
        let mut times = times.lock().unwrap();
        times.push(Instant::now());
        let response =
            ListGroupsResponse { throttle_time_ms: if times.len() == 1 { 700 } else { 0 }, ..Default::default() };
        Some(frame::encode_response::<ListGroupsRequest>(&response, version, id).unwrap().to_vec())
    })
    .await;
    let cluster = cluster(&server, &[]);
    cluster.send(-1, ListGroupsRequest::default(), SOON).await.unwrap();
    // A caller with a shorter deadline gets an error that names the reason, and its request is not sent.
    let hasty = cluster.send(-1, ListGroupsRequest::default(), Duration::from_millis(50)).await.unwrap_err();
    assert!(hasty.to_string().contains("quota"), "{hasty}");
    cluster.send(-1, ListGroupsRequest::default(), SOON).await.unwrap();
    let times = std::mem::take(&mut *listed.lock().unwrap());
    assert_eq!(times.len(), 2);
    assert!(times[1] - times[0] >= Duration::from_millis(650), "{:?}", times[1] - times[0]);
    cluster.close().await;
}

/// A caller that stops waiting does not decode the response, whose throttle time applies to the connection anyway.
#[tokio::test]
async fn throttle_time_of_a_response_without_a_caller_is_respected() {
    let received = Arc::new(Notify::new());
    let listed = Arc::new(Mutex::new(Vec::new()));
    let (times, first) = (Arc::clone(&listed), Arc::clone(&received));
    let server = peer(move |key, version, id| {
        if key == ApiKey::Metadata as i16 {
            return Some(metadata(version, id, 0, &[]));
        }
        let mut times = times.lock().unwrap();
        times.push(Instant::now());
        first.notify_one();
        let throttle_time_ms = if times.len() == 1 { 1500 } else { 0 };
        let response = ListGroupsResponse { throttle_time_ms, ..Default::default() };
        Some(frame::encode_response::<ListGroupsRequest>(&response, version, id).unwrap().to_vec())
    })
    .await;
    let cluster = cluster(&server, &[]);
    tokio::select! {
        biased;
        () = received.notified() => {}
        _ = cluster.send(-1, ListGroupsRequest::default(), SOON) => panic!("the caller has read the response"),
    }
    // The response arrives.
    tokio::time::sleep(Duration::from_millis(300)).await;
    cluster.send(-1, ListGroupsRequest::default(), SOON).await.unwrap();
    let times = std::mem::take(&mut *listed.lock().unwrap());
    assert_eq!(times.len(), 2);
    assert!(times[1] - times[0] >= Duration::from_millis(1450), "{:?}", times[1] - times[0]);
    cluster.close().await;
}

#[tokio::test]
async fn all_addresses_of_a_name_are_tried() {
    // One of the two addresses of localhost may belong to another process.
    let broker = broker(1).await;
    let port = broker.bootstrap_servers().rsplit_once(':').unwrap().1.to_owned();
    let Ok(other) = TcpListener::bind(format!("[::1]:{port}")).await else { return };
    let met = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&met);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = other.accept().await {
            counter.fetch_add(1, Ordering::Relaxed);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let cluster_by_name = cluster(&format!("localhost:{port}"), &[]);
    let requests: Result<ListGroupsResponse> = cluster_by_name.send(-1, ListGroupsRequest::default(), SOON).await;
    requests.unwrap();
    cluster_by_name.close().await;
    // If the name is resolved to separate servers, requests to each server use only its own address.
    let each = [("client.dns.lookup", "resolve_canonical_bootstrap_servers_only")];
    let each = cluster(&format!("localhost:{port}"), &each);
    each.topics(&["t"], SOON).await.unwrap();
    let requests: Vec<Result<ListGroupsResponse>> = vec![
        each.send(-1, ListGroupsRequest::default(), SOON).await,
        each.send(-2, ListGroupsRequest::default(), SOON).await,
    ];
    assert_eq!(requests.iter().filter(|requests| requests.is_ok()).count(), 1, "{requests:?}");
    each.close().await;
    broker.shutdown().await;
}
