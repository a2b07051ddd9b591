//! TLS: the CA of the broker, client certificates, and clients without TLS.

use std::io;
use std::sync::Arc;

use crate::common::*;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use samsarrow_broker::{Broker, BrokerOptions, ClientAuth, Connections, Identity, Protocol, SecurityOptions};
use samsarrow_wire::frame;
use samsarrow_wire::messages::ApiVersionsRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

async fn start(client_auth: ClientAuth) -> Broker {
    let security = SecurityOptions { protocol: Protocol::Ssl, client_auth, ..SecurityOptions::default() };
    Broker::start(BrokerOptions { security, topics: vec![("t".to_owned(), 1)], ..BrokerOptions::default() })
        .await
        .unwrap()
}

fn config(
    broker: &Broker,
    identity: Option<Identity>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(broker.ca_pem().unwrap().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_protocol_versions(versions).with_root_certificates(roots);
    Arc::new(match identity {
        None => config.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            config.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    })
}

/// Sends an ApiVersions request over a new TLS connection.
async fn request_versions(broker: &Broker, host: &'static str, config: &Arc<ClientConfig>) -> io::Result<()> {
    let exchange = async {
        let stream = TcpStream::connect(address(broker, 0)).await?;
        let name = ServerName::try_from(host).unwrap();
        let mut stream = TlsConnector::from(config.clone()).connect(name, stream).await?;
        stream.write_all(&frame::encode_request(&ApiVersionsRequest::default(), 0, 7, None).unwrap()).await?;
        let size = stream.read_u32().await?;
        let mut response = vec![0; size.try_into().unwrap()];
        stream.read_exact(&mut response).await?;
        assert_eq!(frame::correlation_id(&response), Some(7));
        stream.shutdown().await?;
        Ok(())
    };
    timeout(TIMEOUT, exchange).await.expect("no answer")
}

#[tokio::test]
async fn tls_versions_and_session_resumption() {
    let broker = start(ClientAuth::None).await;
    for version in [&TLS12, &TLS13] {
        let config = config(&broker, None, &[version]);
        for host in ["127.0.0.1", "localhost", "127.0.0.1"] {
            request_versions(&broker, host, &config).await.unwrap();
        }
    }
    assert_eq!(broker.connections(), Connections { accepted: 6, resumed: 2, ..Connections::default() });
    let config = config(&broker, None, &[&TLS13]);
    assert!(request_versions(&broker, "example.org", &config).await.is_err(), "the certificate is of another host");
    broker.shutdown().await;
}

#[tokio::test]
async fn client_certificates() {
    let stranger = start(ClientAuth::Required).await;
    for (client_auth, without) in
        [(ClientAuth::None, true), (ClientAuth::Requested, true), (ClientAuth::Required, false)]
    {
        let broker = start(client_auth).await;
        let mine = broker.client_certificate("alice").unwrap();
        assert!(!format!("{mine:?}").contains("PRIVATE"), "keys are never shown");
        for version in [&TLS12, &TLS13] {
            let exchange =
                async |identity| request_versions(&broker, "127.0.0.1", &config(&broker, identity, &[version])).await;
            assert_eq!(exchange(None).await.is_ok(), without, "{client_auth:?}");
            exchange(Some(mine.clone())).await.unwrap();
            let foreign = Some(stranger.client_certificate("alice").unwrap());
            assert_eq!(exchange(foreign).await.is_ok(), client_auth == ClientAuth::None, "{client_auth:?}");
        }
        let shown = if client_auth == ClientAuth::None { 0 } else { 2 };
        assert_eq!(broker.connections().with_certificate, shown, "{client_auth:?}");
        broker.shutdown().await;
    }
    stranger.shutdown().await;
}

#[tokio::test]
async fn plaintext_client_gets_a_tls_alert() {
    let broker = start(ClientAuth::None).await;
    let mut client = TcpStream::connect(address(&broker, 0)).await.unwrap();
    client.write_all(&frame::encode_request(&ApiVersionsRequest::default(), 0, 7, None).unwrap()).await.unwrap();
    let mut received = Vec::new();
    timeout(TIMEOUT, client.read_to_end(&mut received)).await.expect("it stays open").unwrap();
    assert_eq!(received.first(), Some(&21), "an alert of TLS, if anything");
    assert_eq!(broker.connections(), Connections { accepted: 1, refused: 1, ..Connections::default() });
    request_versions(&broker, "127.0.0.1", &config(&broker, None, &[&TLS13])).await.unwrap();
    broker.shutdown().await;
    // A TLS client cannot connect to a plaintext broker.
    let broker = crate::common::broker(1, &[("t", 1)]).await;
    let tls = start(ClientAuth::None).await;
    let config = config(&tls, None, &[&TLS13]);
    assert!(request_versions(&broker, "127.0.0.1", &config).await.is_err());
    assert!(broker.ca_pem().unwrap_err().to_string().contains("this broker uses PLAINTEXT"));
    assert!(broker.client_certificate("alice").is_err());
    broker.shutdown().await;
    tls.shutdown().await;
}

#[tokio::test]
async fn certificates_need_tls() {
    let security = SecurityOptions { client_auth: ClientAuth::Required, ..SecurityOptions::default() };
    let started = Broker::start(BrokerOptions { security, ..BrokerOptions::default() }).await;
    assert!(started.unwrap_err().to_string().contains("PLAINTEXT cannot have them required"));
}
