//! Tests with responses that arrive in parts, and with damaged responses.

use super::*;
use crate::messages::fetch::{FetchRequest, FetchResponse, FetchableTopicResponse};
use crate::messages::{Message, MessageBuf, Request};
use bytes::{BufMut, Bytes};

fn partition(version: i16, index: i32, records: Option<&'static [u8]>, aborted: usize) -> PartitionData {
    let mut data = PartitionData {
        partition_index: index,
        error_code: 3,
        high_watermark: 1 << 40,
        records: records.map(Bytes::from_static),
        aborted_transactions: Some(Vec::new()),
        ..Default::default()
    };
    if version >= 4 {
        data.last_stable_offset = 77;
        let one = |i| AbortedTransaction { producer_id: i, first_offset: -i, ..Default::default() };
        data.aborted_transactions = Some((0..aborted as i64).map(one).collect());
    }
    if version >= 12 {
        data.diverging_epoch = EpochEndOffset { epoch: 3, end_offset: 9, ..Default::default() };
        data.current_leader = LeaderIdAndEpoch { leader_id: 2, leader_epoch: index, ..Default::default() };
    }
    data.preferred_read_replica = if version >= 11 { 5 } else { -1 };
    data
}

fn response(version: i16) -> FetchResponse {
    let topic = |name: &str, id, partitions| FetchableTopicResponse {
        topic: if version < 13 { name.into() } else { String::new() },
        topic_id: if version < 13 { Uuid::ZERO } else { Uuid([id; 16]) },
        partitions,
        ..Default::default()
    };
    let part = |index, records, aborted| partition(version, index, records, aborted);
    let responses = vec![
        topic("empty", 1, vec![]),
        topic("some", 2, vec![part(0, Some(b"records"), 2), part(7, None, 0), part(8, Some(b""), 20)]),
        topic("last", 3, vec![part(1, Some(b"0123456789"), 0)]),
    ];
    let node = NodeEndpoint { node_id: 2, host: "h".into(), port: 9, ..Default::default() };
    FetchResponse {
        throttle_time_ms: i32::from(version >= 1) * 5,
        error_code: 0,
        session_id: i32::from(version >= 7) * 99,
        responses,
        node_endpoints: if version >= 16 { vec![node] } else { vec![] },
        ..Default::default()
    }
}

/// Parses `body` in steps of `step` bytes and assembles the response from the events.
fn parse(version: i16, body: &[u8], step: usize) -> Result<Option<FetchResponse>, DecodeError> {
    let mut parser = FetchParser::new(version, body.len());
    let (mut input, mut out) = (BytesMut::new(), FetchResponse::default());
    let mut records: Option<BytesMut> = None;
    for chunk in body.chunks(step) {
        input.put_slice(chunk);
        loop {
            let ready = parser.records_left().min(input.len());
            if ready > 0 {
                records.get_or_insert_default().extend_from_slice(&input.split_to(ready));
                parser.take_records(ready);
            }
            match parser.next(&mut input)? {
                None if parser.records_left() == 0 || input.is_empty() => break,
                None => {}
                Some(FetchEvent::Head { throttle_time_ms, error_code, session_id }) => {
                    out = FetchResponse { throttle_time_ms, error_code, session_id, ..out };
                }
                Some(FetchEvent::Topic { name, id }) => {
                    let topic = FetchableTopicResponse { topic: name, topic_id: id, ..Default::default() };
                    out.responses.push(topic);
                }
                Some(FetchEvent::Partition(data)) => {
                    records = None;
                    out.responses.last_mut().unwrap().partitions.push(*data);
                }
                Some(FetchEvent::PartitionEnd { diverging_epoch, current_leader }) => {
                    let data = out.responses.last_mut().unwrap().partitions.last_mut().unwrap();
                    data.records = records.take().map(BytesMut::freeze);
                    data.diverging_epoch = diverging_epoch;
                    data.current_leader = current_leader;
                }
                Some(FetchEvent::End { node_endpoints }) => {
                    out.node_endpoints = node_endpoints;
                    assert!(input.is_empty() && parser.left() == 0);
                    return Ok(Some(out));
                }
            }
        }
    }
    Ok(None)
}

fn body(version: i16, response: &FetchResponse) -> BytesMut {
    let mut body = MessageBuf::new();
    if version >= FetchRequest::FLEXIBLE {
        body.put_u8(0);
    }
    response.encode(version, &mut body).unwrap();
    body.freeze().into()
}

#[test]
fn parser_agrees_with_decode_for_any_chunking() {
    for version in FetchRequest::MIN_VERSION..=FetchRequest::MAX_VERSION {
        let mut expected = response(version);
        let body = body(version, &expected);
        for topic in &mut expected.responses {
            for data in &mut topic.partitions {
                // The parser does not distinguish null records from empty records, nor missing aborted transactions
                // from an empty list.
                data.records = data.records.take().filter(|records| !records.is_empty());
                if version < 4 {
                    data.aborted_transactions = None;
                }
            }
        }
        for step in [1, 2, 3, 7, 64, 1 << 20] {
            assert_eq!(parse(version, &body, step).unwrap().as_ref(), Some(&expected), "v{version} by {step}");
        }
    }
}

#[test]
fn damaged_response_is_an_error_or_incomplete() {
    for version in [0, 4, 11, 12, 17] {
        let body = body(version, &response(version));
        for end in 0..body.len() {
            // The parser still expects the length of the complete frame, so it must not treat a truncated response as
            // complete.
            assert!(!matches!(parse(version, &body[..end], 5), Ok(Some(_))), "v{version} cut at {end}");
        }
        let mut longer = body.to_vec();
        longer.push(0);
        assert!(parse(version, &longer, 9).unwrap_err().to_string().contains("left over"), "v{version}");
        for at in 0..body.len() {
            for bits in [1, 0x80, 0xff] {
                let mut changed = body.to_vec();
                changed[at] ^= bits;
                // The parser must terminate on any input.
                let _ = parse(version, &changed, 11);
            }
        }
    }
}
