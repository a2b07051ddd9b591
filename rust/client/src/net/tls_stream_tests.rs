use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{RootCertStore, ServerConfig};
use samsarrow_wire::frame;
use samsarrow_wire::messages::ProduceRequest;
use samsarrow_wire::messages::produce::{PartitionProduceData, TopicProduceData};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::*;
use crate::net::transport::{Reader, Writer};

const TIME: Duration = Duration::from_secs(60);

/// Returns the server's end and the client's reader and writer of a TLS connection.
async fn connect(version: &'static rustls::SupportedProtocolVersion) -> (TlsStream<TcpStream>, Reader, Writer) {
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let secret = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone()], secret)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(own.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let accept = async { TlsAcceptor::from(Arc::new(server)).accept(listener.accept().await.unwrap().0).await };
    let name = ServerName::try_from("localhost").unwrap();
    let (server, client) = tokio::join!(accept, handshake("localhost:1", stream, Arc::new(client), name));
    let (reader, writer) = client.unwrap();
    (server.unwrap(), Reader::Tls(reader), Writer::Tls(writer))
}

/// Returns a frame whose partitions have records of these sizes, and the bytes of the frame.
fn frame_of(sizes: &[usize]) -> (Frame, Bytes) {
    let partition = |(index, &size): (usize, &usize)| {
        let records: Vec<u8> = (0..size).map(|at| u8::try_from((at * 31 + index) % 251).unwrap()).collect();
        let index = i32::try_from(index).unwrap();
        PartitionProduceData { index, records: Some(records.into()), ..Default::default() }
    };
    let partition_data = sizes.iter().enumerate().map(partition).collect();
    let topic = TopicProduceData { name: "t".into(), partition_data, ..Default::default() };
    let request = ProduceRequest { topic_data: vec![topic], ..Default::default() };
    let frame = frame::request_in_pieces(&request, 7, 1, None).unwrap();
    let bytes = frame.clone().copy_to_bytes(frame.remaining());
    (frame, bytes)
}

#[tokio::test]
async fn echoes_frames_of_all_sizes_and_read_steps() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let (mut server, mut reader, mut writer) = connect(version).await;
        let echo = tokio::spawn(async move {
            let mut buffer = vec![0; 100_000];
            loop {
                match server.read(&mut buffer).await.unwrap() {
                    0 => return,
                    read => server.write_all(&buffer[..read]).await.unwrap(),
                }
                server.flush().await.unwrap();
                // Updates the keys in both directions after every write (RFC 8446 §4.6.3).
                if server.get_ref().1.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3) {
                    let _ = server.get_mut().1.refresh_traffic_keys();
                }
            }
        });
        for sizes in
            [&[][..], &[1], &[MAX_PAYLOAD - 1, MAX_PAYLOAD, MAX_PAYLOAD + 1], &[1_000_000, 3, 200_000], &[70_000; 20]]
        {
            let (mut frame, expected) = frame_of(sizes);
            let mut received = BytesMut::new();
            let read = async {
                for step in [1, 7, 4096, 100_000].into_iter().cycle() {
                    if received.len() == expected.len() {
                        break;
                    }
                    received.reserve(step);
                    let more = step.min(expected.len() - received.len());
                    assert!(reader.read_some(&mut received, more).await.unwrap() > 0);
                }
            };
            let (written, ()) =
                timeout(TIME, async { tokio::join!(writer.write_all(&mut frame), read) }).await.unwrap();
            written.unwrap();
            assert!(received == expected, "{} bytes", expected.len());
        }
        drop(writer);
        // This succeeds because the writer sent close_notify. Otherwise, the server would report an unexpected end.
        timeout(TIME, echo).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn data_received_during_a_write_is_kept_for_the_reader() {
    let (mut server, mut reader, mut writer) = connect(&rustls::version::TLS13).await;
    let sent: Vec<u8> = (0..100_000u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
    server.write_all(&sent).await.unwrap();
    server.flush().await.unwrap();
    let mut first = [0; 10];
    reader.read_exact(&mut first).await.unwrap();
    let (mut frame, expected) = frame_of(&[50_000]);
    writer.write_all(&mut frame).await.unwrap();
    let mut received = vec![0; expected.len()];
    server.read_exact(&mut received).await.unwrap();
    assert!(received == expected);
    let mut rest = vec![0; sent.len() - first.len()];
    reader.read_exact(&mut rest).await.unwrap();
    assert!([&first[..], &rest].concat() == sent);
}

#[tokio::test]
async fn invalid_records_fail_reads_and_writes_repeatedly() {
    let (server, mut reader, mut writer) = connect(&rustls::version::TLS13).await;
    let (mut socket, _) = server.into_inner();
    socket.write_all(&[0x17, 3, 3, 0, 30]).await.unwrap();
    socket.write_all(&[7; 30]).await.unwrap();
    let mut buffer = [0; 10];
    for _ in 0..3 {
        let error = timeout(TIME, reader.read(&mut buffer)).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(writer.write_all(&mut frame_of(&[10]).0).await.is_err());
    }
}

#[tokio::test]
async fn read_returns_zero_with_and_without_close_notify() {
    let (mut server, mut reader, _writer) = connect(&rustls::version::TLS13).await;
    server.shutdown().await.unwrap();
    assert_eq!(timeout(TIME, reader.read(&mut [0; 10])).await.unwrap().unwrap(), 0);
    let (server, mut reader, _writer) = connect(&rustls::version::TLS12).await;
    drop(server.into_inner());
    assert_eq!(timeout(TIME, reader.read(&mut [0; 10])).await.unwrap().unwrap(), 0);
}
