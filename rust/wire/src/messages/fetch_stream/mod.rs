//! Incremental parser of Fetch responses.
//!
//! A Fetch response consists mostly of records, which are best decoded while they are in the CPU cache, but a complete
//! response of 50 MiB does not fit into the cache. [`FetchParser`] therefore returns an event for everything before the
//! records of a partition, leaves the records to its caller, and resumes after them. The parser does no I/O: it takes
//! bytes and returns events.

mod items;
#[cfg(test)]
mod tests;

use bytes::BytesMut;

use super::ApiKey;
use super::error::DecodeError;
use super::error::DecodeErrorKind;
use super::fetch::{AbortedTransaction, EpochEndOffset, LeaderIdAndEpoch, NodeEndpoint, PartitionData};
use super::types::{Cx, Uuid, Wire};

/// Parts of a Fetch response, in their order on the wire.
#[derive(Debug, Clone, PartialEq)]
pub enum FetchEvent {
    /// The fields before the topics.
    Head {
        /// Time for which the broker throttles this client.
        throttle_time_ms: i32,
        /// Top-level error code.
        error_code: i16,
        /// Id of the fetch session (KIP-227), or 0 for none.
        session_id: i32,
    },
    /// The topic of the partitions that follow.
    Topic {
        /// Topic name; only set before version 13.
        name: String,
        /// Topic id; only set from version 13 on.
        id: Uuid,
    },
    /// The fields before the records of a partition. The records follow (see [`FetchParser::records_left`]).
    Partition(Box<PartitionData>),
    /// The fields after the records of a partition.
    PartitionEnd {
        /// The epoch and end offset at which the reader's log diverges from the leader's, or -1 if it does not
        /// (KIP-595).
        diverging_epoch: EpochEndOffset,
        /// The current leader, or -1 if the broker did not return it (KIP-951).
        current_leader: LeaderIdAndEpoch,
    },
    /// The end of the response.
    End {
        /// Addresses of the leaders named in this response (KIP-951).
        node_endpoints: Vec<NodeEndpoint>,
    },
}

/// The structs whose tagged fields may be the next bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tagged {
    Header,
    Partition,
    Topic,
    Response,
}

/// States of the parser. Each state consumes one item of known size, so that the input may be split at any byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    TopicCount,
    TopicStart,
    TopicName(usize),
    PartitionCount,
    PartitionHead,
    AbortedCount,
    Aborted(usize),
    AbortedTags { more: usize, tags: Option<u32> },
    AbortedTag { more: usize, tags: u32, length: Option<usize> },
    Replica,
    RecordsLength,
    Records(usize),
    TagCount(Tagged),
    Tag { of: Tagged, more: u32 },
    TagLength { of: Tagged, more: u32, tag: u32 },
    TagBytes { of: Tagged, more: u32, tag: u32, length: usize },
    ResponseEnd,
    Done,
}

/// Parses one Fetch response.
#[derive(Debug)]
pub struct FetchParser {
    cx: Cx,
    state: State,
    total: usize,
    left: usize,
    topics: usize,
    partitions: usize,
    partition: Box<PartitionData>,
    diverging_epoch: EpochEndOffset,
    current_leader: LeaderIdAndEpoch,
    node_endpoints: Vec<NodeEndpoint>,
}

impl FetchParser {
    /// Creates a parser for a response of `version` with `length` bytes after the correlation id.
    pub fn new(version: i16, length: usize) -> FetchParser {
        let flexible = ApiKey::Fetch.is_flexible(version);
        FetchParser {
            cx: Cx { version, flexible },
            state: if flexible { State::TagCount(Tagged::Header) } else { State::Head },
            total: length,
            left: length,
            topics: 0,
            partitions: 0,
            partition: Box::default(),
            diverging_epoch: EpochEndOffset::default(),
            current_leader: LeaderIdAndEpoch::default(),
            node_endpoints: Vec::new(),
        }
    }

    /// Returns the number of bytes of the frame that are not consumed yet.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Returns the number of bytes of records at the start of the input. The caller must consume them and call
    /// [`Self::take_records`].
    pub fn records_left(&self) -> usize {
        match self.state {
            State::Records(left) => left,
            _ => 0,
        }
    }

    /// Records that the caller has consumed `count` bytes of records.
    pub fn take_records(&mut self, count: usize) {
        if let State::Records(left) = self.state {
            let taken = count.min(left);
            self.left -= taken;
            self.state = State::Records(left - taken);
        }
    }

    /// Returns the next event and consumes its bytes from `input`. Returns `None` if the event needs more bytes, or if
    /// records are next.
    ///
    /// # Errors Fails if the bytes are not a Fetch response of this version.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<FetchEvent>, DecodeError> {
        self.step_until_event(input).map_err(|e| e.of("Fetch", self.cx.version))
    }

    fn step_until_event(&mut self, input: &mut BytesMut) -> Result<Option<FetchEvent>, DecodeError> {
        loop {
            match self.step(input)? {
                Step::Event(event) => return Ok(Some(event)),
                Step::NeedMoreInput => {
                    if input.len() >= self.left && self.records_left() == 0 && self.state != State::Done {
                        let kind = DecodeErrorKind::Truncated { needed: input.len() + 1, left: self.left };
                        return Err(self.error(kind, "FetchResponse"));
                    }
                    return Ok(None);
                }
                Step::Continue => {}
            }
        }
    }

    fn step(&mut self, input: &mut BytesMut) -> Result<Step, DecodeError> {
        let version = self.cx.version;
        match self.state {
            State::Head => {
                let size = if version >= 7 { 10 } else { usize::from(version >= 1) * 4 };
                let Some(mut head) = self.take(input, size) else { return Ok(Step::NeedMoreInput) };
                let throttle_time_ms = if version >= 1 { i32::read(self.cx, &mut head)? } else { 0 };
                let (error_code, session_id) = if version >= 7 {
                    (i16::read(self.cx, &mut head)?, i32::read(self.cx, &mut head)?)
                } else {
                    (0, 0)
                };
                self.state = State::TopicCount;
                return Ok(Step::Event(FetchEvent::Head { throttle_time_ms, error_code, session_id }));
            }
            State::TopicCount => {
                let Some(count) = self.count(input, "FetchResponse.responses")? else { return Ok(Step::NeedMoreInput) };
                self.topics = count.ok_or_else(|| self.error(DecodeErrorKind::Null, "FetchResponse.responses"))?;
                self.next_topic();
            }
            State::TopicStart if version >= 13 => {
                let Some(mut id) = self.take(input, 16) else { return Ok(Step::NeedMoreInput) };
                let id = Uuid::read(self.cx, &mut id)?;
                self.state = State::PartitionCount;
                return Ok(Step::Event(FetchEvent::Topic { name: String::new(), id }));
            }
            State::TopicStart => {
                let Some(length) = self.length(input, true, "FetchableTopicResponse.topic")? else {
                    return Ok(Step::NeedMoreInput);
                };
                let length = length.ok_or_else(|| self.error(DecodeErrorKind::Null, "FetchableTopicResponse.topic"))?;
                self.state = State::TopicName(length);
            }
            State::TopicName(length) => {
                let Some(mut name) = self.take(input, length) else { return Ok(Step::NeedMoreInput) };
                let Ok(name) = String::from_utf8(name.rest().to_vec()) else {
                    return Err(self.error(DecodeErrorKind::Utf8, "FetchableTopicResponse.topic"));
                };
                self.state = State::PartitionCount;
                return Ok(Step::Event(FetchEvent::Topic { name, id: Uuid::ZERO }));
            }
            State::PartitionCount => {
                let field = "FetchableTopicResponse.partitions";
                let Some(count) = self.count(input, field)? else { return Ok(Step::NeedMoreInput) };
                self.partitions = count.ok_or_else(|| self.error(DecodeErrorKind::Null, field))?;
                self.next_partition();
            }
            State::PartitionHead => {
                let size = 14 + usize::from(version >= 4) * 8 + usize::from(version >= 5) * 8;
                let Some(mut head) = self.take(input, size) else { return Ok(Step::NeedMoreInput) };
                let partition = &mut *self.partition;
                *partition = PartitionData {
                    partition_index: i32::read(self.cx, &mut head)?,
                    error_code: i16::read(self.cx, &mut head)?,
                    high_watermark: i64::read(self.cx, &mut head)?,
                    ..Default::default()
                };
                if version >= 4 {
                    partition.last_stable_offset = i64::read(self.cx, &mut head)?;
                }
                if version >= 5 {
                    partition.log_start_offset = i64::read(self.cx, &mut head)?;
                }
                self.state = if version >= 4 { State::AbortedCount } else { State::RecordsLength };
            }
            State::AbortedCount => {
                let Some(count) = self.count(input, "PartitionData.aborted_transactions")? else {
                    return Ok(Step::NeedMoreInput);
                };
                self.partition.aborted_transactions = count.map(|_| Vec::new());
                self.next_aborted(count.unwrap_or(0));
            }
            State::Aborted(more) => {
                let Some(mut aborted) = self.take(input, 16) else { return Ok(Step::NeedMoreInput) };
                let aborted = AbortedTransaction {
                    producer_id: i64::read(self.cx, &mut aborted)?,
                    first_offset: i64::read(self.cx, &mut aborted)?,
                    ..Default::default()
                };
                self.partition.aborted_transactions.get_or_insert_default().push(aborted);
                if self.cx.flexible {
                    self.state = State::AbortedTags { more: more - 1, tags: None };
                } else {
                    self.next_aborted(more - 1);
                }
            }
            // Skip the tagged fields of an aborted transaction, because none are defined.
            State::AbortedTags { more, tags: None } => {
                let Some(tags) = self.varint(input)? else { return Ok(Step::NeedMoreInput) };
                self.state = State::AbortedTags { more, tags: Some(tags) };
            }
            State::AbortedTags { more, tags: Some(0) } => self.next_aborted(more),
            State::AbortedTags { more, tags: Some(tags) } => {
                let Some(_) = self.varint(input)? else { return Ok(Step::NeedMoreInput) };
                self.state = State::AbortedTag { more, tags: tags - 1, length: None };
            }
            State::AbortedTag { more, tags, length: None } => {
                let Some(length) = self.varint(input)? else { return Ok(Step::NeedMoreInput) };
                self.state = State::AbortedTag { more, tags, length: Some(length as usize) };
            }
            State::AbortedTag { more, tags, length: Some(length) } => {
                let Some(_) = self.take_checked(input, length)? else { return Ok(Step::NeedMoreInput) };
                self.state = State::AbortedTags { more, tags: Some(tags) };
            }
            State::Replica => {
                let Some(mut replica) = self.take(input, 4) else { return Ok(Step::NeedMoreInput) };
                self.partition.preferred_read_replica = i32::read(self.cx, &mut replica)?;
                self.state = State::RecordsLength;
            }
            State::RecordsLength => {
                let Some(length) = self.length(input, false, "PartitionData.records")? else {
                    return Ok(Step::NeedMoreInput);
                };
                self.state = State::Records(length.unwrap_or(0));
                return Ok(Step::Event(FetchEvent::Partition(std::mem::take(&mut self.partition))));
            }
            State::Records(0) if self.cx.flexible => self.state = State::TagCount(Tagged::Partition),
            State::Records(0) => return Ok(Step::Event(self.end_partition())),
            State::ResponseEnd => {
                if self.left > 0 {
                    return Err(self.error(DecodeErrorKind::Trailing { left: self.left }, ""));
                }
                self.state = State::Done;
                return Ok(Step::Event(FetchEvent::End { node_endpoints: std::mem::take(&mut self.node_endpoints) }));
            }
            State::Records(_) | State::Done => return Ok(Step::NeedMoreInput),
            State::TagCount(of) => {
                let Some(more) = self.varint(input)? else { return Ok(Step::NeedMoreInput) };
                if more as usize > self.left {
                    let kind = DecodeErrorKind::Count { count: i64::from(more), left: self.left };
                    return Err(self.error(kind, "FetchResponse"));
                }
                return Ok(self.next_tag(of, more));
            }
            State::Tag { of, more } => {
                let Some(tag) = self.varint(input)? else { return Ok(Step::NeedMoreInput) };
                self.state = State::TagLength { of, more, tag };
            }
            State::TagLength { of, more, tag } => {
                let Some(length) = self.varint(input)? else { return Ok(Step::NeedMoreInput) };
                self.state = State::TagBytes { of, more, tag, length: length as usize };
            }
            State::TagBytes { of, more, tag, length } => {
                let Some(mut bytes) = self.take_checked(input, length)? else { return Ok(Step::NeedMoreInput) };
                match (of, tag) {
                    (Tagged::Partition, 0) => self.diverging_epoch = EpochEndOffset::read(self.cx, &mut bytes)?,
                    (Tagged::Partition, 1) => self.current_leader = LeaderIdAndEpoch::read(self.cx, &mut bytes)?,
                    (Tagged::Response, 0) if version >= 16 => {
                        self.node_endpoints = Vec::<NodeEndpoint>::read(self.cx, &mut bytes)?;
                    }
                    _ => {
                        bytes.rest();
                    }
                }
                bytes.finish()?;
                return Ok(self.next_tag(of, more - 1));
            }
        }
        Ok(Step::Continue)
    }

    fn next_topic(&mut self) {
        self.state = match self.topics.checked_sub(1) {
            Some(topics) => {
                self.topics = topics;
                State::TopicStart
            }
            None if self.cx.flexible => State::TagCount(Tagged::Response),
            None => State::ResponseEnd,
        };
    }

    fn next_partition(&mut self) {
        match self.partitions.checked_sub(1) {
            Some(partitions) => {
                self.partitions = partitions;
                self.state = State::PartitionHead;
            }
            None if self.cx.flexible => self.state = State::TagCount(Tagged::Topic),
            None => self.next_topic(),
        }
    }

    fn next_aborted(&mut self, more: usize) {
        self.state = match more {
            0 if self.cx.version >= 11 => State::Replica,
            0 => State::RecordsLength,
            more => State::Aborted(more),
        };
    }

    fn next_tag(&mut self, of: Tagged, more: u32) -> Step {
        if more > 0 {
            self.state = State::Tag { of, more };
            return Step::Continue;
        }
        match of {
            Tagged::Header => self.state = State::Head,
            Tagged::Partition => return Step::Event(self.end_partition()),
            Tagged::Topic => self.next_topic(),
            Tagged::Response => self.state = State::ResponseEnd,
        }
        Step::Continue
    }

    fn end_partition(&mut self) -> FetchEvent {
        self.next_partition();
        FetchEvent::PartitionEnd {
            diverging_epoch: std::mem::take(&mut self.diverging_epoch),
            current_leader: std::mem::take(&mut self.current_leader),
        }
    }
}

enum Step {
    Event(FetchEvent),
    Continue,
    NeedMoreInput,
}
