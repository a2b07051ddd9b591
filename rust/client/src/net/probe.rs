//! Brokers from before ApiVersions (Kafka 0.10.0), which cannot say what they speak.
//!
//! Kafka 0.8 closes the connection when it is asked, 0.9 does not answer. So do brokers that are just being shut down or
//! are slow, and things that are no brokers. What is old shows on one connection: it answers a request that every Kafka
//! before 4.0 knows, and then not ApiVersions.

use bytes::BytesMut;

use samsarrow_wire::frame;
use samsarrow_wire::messages::{ApiVersionsRequest, ListGroupsRequest, ListOffsetsRequest, Request};
use samsarrow_wire::releases::Release;

use super::connect::Target;
use super::transport::{Reader, Writer};

/// Answers are thrown away in steps of this size.
const DISCARD_STEP: usize = 1 << 12;

/// Which old Kafka it is that did not answer ApiVersions; `None` where it is none, or remains unknown.
pub(super) async fn probe(target: &Target<'_>) -> Option<Release> {
    let mut line = Line::open(target).await?;
    // Asks for no offset of no topic: there is nothing to answer, nothing to be allowed, nothing that it changes.
    line.ask(&ListOffsetsRequest { replica_id: -1, ..Default::default() }).await?;
    line.answer().await?;
    let versions = line.ask(&ApiVersionsRequest::default()).await?;
    // Requests are answered in their order: the answer to this one shows that the other was passed over.
    let groups = line.ask(&ListGroupsRequest::default()).await;
    match line.answer().await {
        Some(id) if id == versions => None,
        Some(id) if Some(id) == groups => Some(Release::V0_9_0),
        Some(_) => None,
        // Closed. Groups came with 0.9.
        None => {
            let mut line = Line::open(target).await?;
            line.ask(&ListGroupsRequest::default()).await?;
            Some(if line.answer().await.is_some() { Release::V0_9_0 } else { Release::V0_8_2 })
        }
    }
}

/// A connection for a few small requests.
struct Line<'a> {
    reader: Reader,
    writer: Writer,
    client_id: &'a str,
    asked: i32,
}

impl Line<'_> {
    async fn open<'a>(target: &Target<'a>) -> Option<Line<'a>> {
        let (reader, writer) = target.open().await.ok()?;
        Some(Line { reader, writer, client_id: &target.setup.options.client_id, asked: 0 })
    }

    /// Sends a request in version 0 and gives its correlation id. Kafka 0.9 closes the connection where a request of the
    /// kinds that came with it names no client.
    async fn ask<R: Request>(&mut self, request: &R) -> Option<i32> {
        self.asked += 1;
        let mut frame = frame::request_in_pieces(request, 0, self.asked, Some(self.client_id)).ok()?;
        self.writer.write_all(&mut frame).await.ok()?;
        Some(self.asked)
    }

    /// The correlation id of the next answer; `None` if the broker closes the connection, or what comes is no answer.
    async fn answer(&mut self) -> Option<i32> {
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
        (1..=self.asked).contains(&id).then_some(id)
    }
}
