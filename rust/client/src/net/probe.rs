//! Detection of brokers older than Kafka 0.10.0, which do not support ApiVersions.
//!
//! After ApiVersions, Kafka 0.8 closes the connection and Kafka 0.9 never responds. A broker that is slow or shutting
//! down, or a server other than a Kafka broker, may behave in the same way. Kafka 0.9 is recognized because it responds
//! to the request after ApiVersions, and not to ApiVersions: a newer broker responds in the order of the requests. Kafka
//! 0.8 is recognized only by closed connections, so every one is confirmed.

use std::time::Duration;

use bytes::BytesMut;

use samsarrow_wire::frame;
use samsarrow_wire::messages::{ApiVersionsRequest, ListGroupsRequest, ListOffsetsRequest, Request};
use samsarrow_wire::releases::Release;
use tokio::time::sleep;

use super::connect::Target;
use super::transport::{Reader, Writer};

/// Size of the steps in which response bodies are discarded.
const DISCARD_STEP: usize = 1 << 12;

/// Number of probes to which a broker must respond like Kafka 0.8.
const ROUNDS: usize = 2;

/// Delay between probes, so that a single network failure cannot cause all closed connections.
const ROUND_DELAY: Duration = Duration::from_millis(250);

/// Returns the release of an old broker that does not support ApiVersions; `None` if the broker is not old or its
/// release cannot be determined.
pub(super) async fn probe(target: &Target<'_>) -> Option<Release> {
    // A ListOffsets request without topics has an empty response, requires no permissions and has no side effects.
    let offsets = ListOffsetsRequest { replica_id: -1, ..Default::default() };
    for round in 0..ROUNDS {
        if round > 0 {
            sleep(ROUND_DELAY).await;
        }
        match try_api_versions(target, &offsets).await? {
            Reaction::Skipped => return Some(Release::V0_9_0),
            Reaction::Closed => {}
            Reaction::Responded | Reaction::FirstClosed => return None,
        }
        match try_api_versions(target, &ListGroupsRequest::default()).await? {
            Reaction::Skipped => return Some(Release::V0_9_0),
            Reaction::FirstClosed => {}
            // Kafka 0.8 does not support ListGroups, and Kafka 0.9 does not close the connection: this is a newer
            // broker that restarts, or a proxy.
            Reaction::Responded | Reaction::Closed => return None,
        }
    }
    (!target.setup.old_brokers.has_newer()).then_some(Release::V0_8_2)
}

/// Reaction of a broker to a first request and ApiVersions on one connection.
enum Reaction {
    /// It responds to both.
    Responded,
    /// It responds to the first request and to the request after ApiVersions, but not to ApiVersions.
    Skipped,
    /// It responds to the first request, and closes the connection after ApiVersions.
    Closed,
    /// It closes the connection after the first request.
    FirstClosed,
}

/// Sends `first`, and ApiVersions after the response. Returns `None` if the broker cannot be reached, or responds
/// unlike a Kafka broker.
async fn try_api_versions(target: &Target<'_>, first: &impl Request) -> Option<Reaction> {
    let mut connection = ProbeConnection::open(target).await?;
    connection.send(first).await?;
    if connection.read_response().await.is_none() {
        return Some(Reaction::FirstClosed);
    }
    let versions = connection.send(&ApiVersionsRequest::default()).await?;
    let groups = connection.send(&ListGroupsRequest::default()).await;
    match connection.read_response().await {
        Some(id) if id == versions => Some(Reaction::Responded),
        Some(id) if Some(id) == groups => Some(Reaction::Skipped),
        Some(_) => None,
        None => Some(Reaction::Closed),
    }
}

/// A connection for a few small requests.
struct ProbeConnection<'a> {
    reader: Reader,
    writer: Writer,
    client_id: &'a str,
    last_id: i32,
}

impl ProbeConnection<'_> {
    async fn open<'a>(target: &Target<'a>) -> Option<ProbeConnection<'a>> {
        let (reader, writer) = target.open().await.ok()?;
        Some(ProbeConnection { reader, writer, client_id: &target.setup.options.client_id, last_id: 0 })
    }

    /// Sends a request in version 0 and returns its correlation id. The request contains a client id, because Kafka 0.9
    /// disconnects if a request of an API that is new in 0.9 has none.
    async fn send<R: Request>(&mut self, request: &R) -> Option<i32> {
        self.last_id += 1;
        let mut frame = frame::request_in_pieces(request, 0, self.last_id, Some(self.client_id)).ok()?;
        self.writer.write_all(&mut frame).await.ok()?;
        Some(self.last_id)
    }

    /// Returns the correlation id of the next response; `None` if the broker disconnects or the data is not a response.
    async fn read_response(&mut self) -> Option<i32> {
        let mut start = [0; 8];
        self.reader.read_exact(&mut start).await.ok()?;
        let (length, id) = start.split_first_chunk::<4>()?;
        let mut rest = usize::try_from(i32::from_be_bytes(*length)).ok()?.checked_sub(4)?;
        let id = i32::from_be_bytes(id.try_into().ok()?);
        let mut scratch = BytesMut::with_capacity(DISCARD_STEP);
        while rest > 0 {
            scratch.clear();
            match self.reader.read_some(&mut scratch, rest).await.ok()? {
                0 => return None,
                read => rest -= read,
            }
        }
        (1..=self.last_id).contains(&id).then_some(id)
    }
}
