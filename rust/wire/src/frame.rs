//! Request and response frames, which consist of a length, a header and a body.

use bytes::{BufMut, Bytes};

use crate::messages::types::{Cx, Wire, read_tagged};
use crate::messages::{
    ApiKey, ApiVersionsResponse, DecodeError, EncodeError, Frame, Message, MessageBuf, Reader, Request,
};

/// The header of a request, as decoded by a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    /// Kafka's API key, which may be unknown.
    pub api_key: i16,
    /// Version of the API, which determines the layout of the body.
    pub api_version: i16,
    /// Id that the response repeats, so that the client can match it with the request.
    pub correlation_id: i32,
    pub client_id: Option<String>,
}

/// Encodes a request frame, including its length prefix.
pub fn encode_request<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> Result<Bytes, EncodeError> {
    write_request(request, version, correlation_id, client_id, MessageBuf::new()).map(MessageBuf::freeze)
}

/// Encodes a request frame without copying its large fields.
pub fn request_in_pieces<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> Result<Frame, EncodeError> {
    write_request(request, version, correlation_id, client_id, MessageBuf::sharing()).map(MessageBuf::into_frame)
}

/// Encodes a length prefix and bytes that are not a request. SASL tokens are sent like this after SaslHandshake v0.
pub fn raw(token: &[u8]) -> Result<Frame, EncodeError> {
    let mut out = MessageBuf::new();
    out.put_i32(0);
    out.put_slice(token);
    finish(&mut out)?;
    Ok(out.into_frame())
}

fn write_request<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
    mut out: MessageBuf,
) -> Result<MessageBuf, EncodeError> {
    out.put_i32(0);
    out.put_i16(R::KEY.code());
    out.put_i16(version);
    out.put_i32(correlation_id);
    // The client id is never encoded as a compact string, not even in the flexible header (KIP-482).
    client_id.map(str::to_owned).write(Cx::PLAIN, &mut out).map_err(|e| e.within("client.id"))?;
    if version >= R::FLEXIBLE {
        out.put_u8(0);
    }
    request.encode(version, &mut out)?;
    finish(&mut out)?;
    Ok(out)
}

/// Encodes a response frame, including its length prefix.
pub fn encode_response<R: Request>(
    response: &R::Response,
    version: i16,
    correlation_id: i32,
) -> Result<Bytes, EncodeError> {
    let mut out = MessageBuf::new();
    out.put_i32(0);
    out.put_i32(correlation_id);
    if response_header_is_flexible::<R>(version) {
        out.put_u8(0);
    }
    response.encode(version, &mut out)?;
    finish(&mut out)?;
    Ok(out.freeze())
}

/// Writes the length prefix. The length does not include the prefix itself.
fn finish(out: &mut MessageBuf) -> Result<(), EncodeError> {
    let length = out.total() - 4;
    let length = i32::try_from(length).map_err(|_| EncodeError::TooLong { what: "frame", length })?;
    if let Some(prefix) = out.first_chunk_mut::<4>() {
        *prefix = length.to_be_bytes();
    }
    Ok(())
}

/// Returns true if the response header has tagged fields. The header of ApiVersions responses is always v0, since the
/// client must decode it before it knows the broker's versions.
fn response_header_is_flexible<R: Request>(version: i16) -> bool {
    version >= R::FLEXIBLE && R::KEY != ApiKey::ApiVersions
}

/// Returns the correlation id of a response frame, which is given without its length prefix.
pub fn correlation_id(frame: &[u8]) -> Option<i32> {
    frame.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes))
}

/// Decodes a response frame, which is given without its length prefix. Returns the correlation id and the body. Fails
/// if bytes remain after the body.
pub fn decode_response<R: Request>(version: i16, frame: Bytes) -> Result<(i32, R::Response), DecodeError> {
    let (correlation_id, mut input) = response_header::<R>(version, frame)?;
    let response = R::Response::decode(version, &mut input)?;
    input.finish().map_err(|e| e.of(R::KEY.name(), version))?;
    Ok((correlation_id, response))
}

fn response_header<R: Request>(version: i16, frame: Bytes) -> Result<(i32, Reader), DecodeError> {
    let mut input = Reader::new(frame);
    let correlation_id = i32::read(Cx::PLAIN, &mut input).map_err(|e| e.within("ResponseHeader.correlation_id"))?;
    if response_header_is_flexible::<R>(version) {
        read_tagged(&mut input).map_err(|e| e.within("ResponseHeader"))?;
    }
    Ok((correlation_id, input))
}

/// Like [`decode_response`], but accepts trailing bytes, as the Java client does. Returns the response and the number
/// of trailing bytes.
pub fn decode_answer<R: Request>(version: i16, frame: Bytes) -> Result<(R::Response, usize), DecodeError> {
    let (_, mut input) = response_header::<R>(version, frame)?;
    let response = R::Response::decode(version, &mut input)?;
    Ok((response, input.remaining()))
}

/// Returns the throttle time in milliseconds of a response frame (KIP-219), which is given without its length prefix
/// and may lack bytes after this field; 0 if the response has no such field.
pub fn throttle_time_ms<R: Request>(version: i16, frame: Bytes) -> Result<i32, DecodeError> {
    let (_, mut input) = response_header::<R>(version, frame)?;
    R::Response::read_throttle_time_ms(version, &mut input)
}

/// Decodes the response to an ApiVersions request of `version`. A broker that does not support this version responds
/// with UNSUPPORTED_VERSION in version 0 (KIP-511). Also returns the version of the response.
pub fn decode_api_versions(version: i16, frame: Bytes) -> Result<(i16, ApiVersionsResponse), DecodeError> {
    use crate::error_code::ErrorCode;
    use crate::messages::ApiVersionsRequest;
    match decode_answer::<ApiVersionsRequest>(0, frame.clone()) {
        Ok((response, _)) if response.error_code == ErrorCode::UNSUPPORTED_VERSION.code() => Ok((0, response)),
        _ => decode_answer::<ApiVersionsRequest>(version, frame).map(|(response, _)| (version, response)),
    }
}

/// Decodes the header of a request frame, which is given without its length prefix, and returns the bytes after the
/// header. The version of the header depends on the API and its version; for unknown APIs, the oldest header version is
/// used.
pub fn decode_request_header(frame: Bytes) -> Result<(RequestHeader, Bytes), DecodeError> {
    let mut input = Reader::new(frame);
    let within = |e: DecodeError| e.within("RequestHeader");
    let api_key = i16::read(Cx::PLAIN, &mut input).map_err(within)?;
    let api_version = i16::read(Cx::PLAIN, &mut input).map_err(within)?;
    let correlation_id = i32::read(Cx::PLAIN, &mut input).map_err(within)?;
    let client_id = Option::<String>::read(Cx::PLAIN, &mut input).map_err(within)?;
    if ApiKey::from_i16(api_key).is_some_and(|key| key.is_flexible(api_version)) {
        read_tagged(&mut input).map_err(within)?;
    }
    Ok((RequestHeader { api_key, api_version, correlation_id, client_id }, input.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{
        ApiVersionsRequest, FetchRequest, FetchResponse, HeartbeatRequest, HeartbeatResponse, ProduceRequest,
        ProduceResponse, ShareFetchRequest, ShareFetchResponse,
    };

    #[test]
    fn request_round_trips() {
        for version in 0..=4 {
            let request = HeartbeatRequest { group_id: "g".into(), generation_id: 3, ..Default::default() };
            let frame = encode_request(&request, version, 7, Some("me")).unwrap();
            assert_eq!(frame.len() - 4, i32::from_be_bytes(frame[..4].try_into().unwrap()) as usize);
            let (header, body) = decode_request_header(frame.slice(4..)).unwrap();
            let expected =
                RequestHeader { api_key: 12, api_version: version, correlation_id: 7, client_id: Some("me".into()) };
            assert_eq!(header, expected);
            assert_eq!(HeartbeatRequest::decode(version, &mut Reader::new(body)).unwrap(), request);
        }
    }

    #[test]
    fn response_round_trips_and_rejects_trailing_bytes() {
        let response = HeartbeatResponse { error_code: 27, ..Default::default() };
        let frame = encode_response::<HeartbeatRequest>(&response, 4, 9).unwrap().slice(4..);
        assert_eq!(correlation_id(&frame), Some(9));
        assert_eq!(decode_response::<HeartbeatRequest>(4, frame.clone()).unwrap(), (9, response.clone()));
        let longer = Bytes::from([&frame[..], b"x"].concat());
        let error = decode_response::<HeartbeatRequest>(4, longer.clone()).unwrap_err();
        assert_eq!(error.to_string(), "Heartbeat version 4, at byte 12: 1 bytes are left over after the message");
        assert_eq!(decode_answer::<HeartbeatRequest>(4, longer).unwrap(), (response, 1));
    }

    #[test]
    fn reads_throttle_times_without_the_rest_of_the_frame() {
        let fetch = FetchResponse { throttle_time_ms: 7, ..Default::default() };
        let produce =
            ProduceResponse { throttle_time_ms: 7, responses: vec![Default::default()], ..Default::default() };
        let share = ShareFetchResponse { throttle_time_ms: 7, ..Default::default() };
        let of = |frame: Bytes, kept: usize| frame.slice(4..frame.len().min(4 + kept));
        for version in FetchRequest::MIN_VERSION..=FetchRequest::MAX_VERSION {
            // Four bytes of the correlation id, one of the tags, four of the throttle time.
            let frame = of(encode_response::<FetchRequest>(&fetch, version, 1).unwrap(), 9);
            let expected = if version >= 1 { 7 } else { 0 };
            assert_eq!(throttle_time_ms::<FetchRequest>(version, frame).unwrap(), expected, "Fetch v{version}");
        }
        let frame = of(encode_response::<ShareFetchRequest>(&share, 1, 1).unwrap(), 9);
        assert_eq!(throttle_time_ms::<ShareFetchRequest>(1, frame).unwrap(), 7);
        let frame = of(encode_response::<ProduceRequest>(&produce, 9, 1).unwrap(), 1000);
        assert_eq!(throttle_time_ms::<ProduceRequest>(9, frame.clone()).unwrap(), 7);
        throttle_time_ms::<ProduceRequest>(9, frame.slice(..9)).unwrap_err();
    }

    #[test]
    fn decodes_api_versions_v0_from_old_broker() {
        let old = ApiVersionsResponse { error_code: 35, ..Default::default() };
        let frame = encode_response::<ApiVersionsRequest>(&old, 0, 1).unwrap().slice(4..);
        let longer = Bytes::from([&frame[..], &[0; 4]].concat());
        assert_eq!(decode_api_versions(4, frame).unwrap(), (0, old.clone()));
        assert_eq!(decode_api_versions(4, longer).unwrap(), (0, old), "with a field of a later version behind it");
        let new = ApiVersionsResponse { throttle_time_ms: 5, ..Default::default() };
        let frame = encode_response::<ApiVersionsRequest>(&new, 4, 1).unwrap().slice(4..);
        assert_eq!(decode_api_versions(4, frame).unwrap(), (4, new));
    }
}
