//! Detection of brokers older than Kafka 0.10.0, which do not support ApiVersions.
//!
//! After ApiVersions, Kafka 0.8 closes the connection and Kafka 0.9 never responds. A broker that is slow or shutting
//! down, or a server other than a Kafka broker, may behave in the same way. An old broker is recognized because, on one
//! connection, it responds to a request that every release before Kafka 4.0 supports, but not to the following
//! ApiVersions request.

use bytes::BytesMut;

use samsarrow_wire::frame;
use samsarrow_wire::messages::{ApiVersionsRequest, ListGroupsRequest, ListOffsetsRequest, Request};
use samsarrow_wire::releases::Release;

use super::connect::Target;
use super::transport::{Reader, Writer};

/// Size of the steps in which response bodies are discarded.
const DISCARD_STEP: usize = 1 << 12;

/// Returns the release of an old broker that does not support ApiVersions; `None` if the broker is not old or its
/// release cannot be determined.
pub(super) async fn probe(target: &Target<'_>) -> Option<Release> {
    // A ListOffsets request without topics has an empty response, requires no permissions and has no side effects.
    let offsets = ListOffsetsRequest { replica_id: -1, ..Default::default() };
    match try_api_versions(target, &offsets).await? {
        Support::Yes => None,
        Support::Skipped => Some(Release::V0_9_0),
        // A broker that restarts, or a proxy, may also have closed the connection. So every release is confirmed on
        // another connection.
        Support::Disconnected => match try_api_versions(target, &ListGroupsRequest::default()).await {
            Some(Support::Yes) => None,
            Some(Support::Skipped | Support::Disconnected) => Some(Release::V0_9_0),
            // Kafka 0.8 does not support ListGroups.
            None => match try_api_versions(target, &offsets).await? {
                Support::Yes => None,
                Support::Skipped => Some(Release::V0_9_0),
                Support::Disconnected => Some(Release::V0_8_2),
            },
        },
    }
}

/// Reaction of a broker to ApiVersions on a connection on which it responded to another request.
enum Support {
    /// It responds.
    Yes,
    /// It responds only to the request after ApiVersions. Brokers respond in the order of the requests.
    Skipped,
    /// It closes the connection.
    Disconnected,
}

/// Sends `first`, and ApiVersions after the response. Returns `None` if the broker does not respond to `first`.
async fn try_api_versions(target: &Target<'_>, first: &impl Request) -> Option<Support> {
    let mut connection = ProbeConnection::open(target).await?;
    connection.send(first).await?;
    connection.read_response().await?;
    let versions = connection.send(&ApiVersionsRequest::default()).await?;
    let groups = connection.send(&ListGroupsRequest::default()).await;
    match connection.read_response().await {
        Some(id) if id == versions => Some(Support::Yes),
        Some(id) if Some(id) == groups => Some(Support::Skipped),
        Some(_) => None,
        None => Some(Support::Disconnected),
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
