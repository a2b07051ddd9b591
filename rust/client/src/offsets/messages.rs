//! OffsetCommit and OffsetFetch messages in all versions. Version 0 accesses offsets in ZooKeeper, later versions access
//! offsets in Kafka.

use std::collections::BTreeMap;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use samsarrow_wire::messages::offset_fetch::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics, OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use samsarrow_wire::messages::{
    ApiKey, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse,
};

use super::by_topic;
use super::topic_ids::TopicIdMap;
use crate::collections::HashMap;
use crate::error::{Error, Result};
use crate::types::{MemberIdentity, OffsetAndMetadata, TopicPartition};

/// First version of OffsetCommit with `group_instance_id` (KIP-345).
const STATIC_MEMBERS: i16 = 7;
/// First version of OffsetFetch with `require_stable` (KIP-447).
pub(crate) const FETCH_STABLE: i16 = 7;
/// First version of OffsetFetch with several groups (KIP-709).
pub(crate) const FETCH_GROUPS: i16 = 8;

/// Result per partition of a commit.
pub type Outcomes = Vec<(TopicPartition, Result<()>)>;

/// Committed offset of each partition, or its error. The offset is `None` if the group has committed none.
pub(crate) type FetchResults = Vec<(TopicPartition, Result<Option<OffsetAndMetadata>>)>;

/// Group and its requested partitions; `None` for all partitions with a committed offset.
pub(crate) type RequestedGroup<'a> = (&'a str, Option<&'a [TopicPartition]>);

/// Returns an OffsetCommit request. Topics that do not exist are omitted.
pub(crate) fn commit_request<'a>(
    version: i16,
    group: &str,
    member: &MemberIdentity,
    offsets: impl IntoIterator<Item = &'a (TopicPartition, OffsetAndMetadata)>,
    ids: &TopicIdMap<'_>,
) -> Result<OffsetCommitRequest> {
    let mut topics = Vec::new();
    for (name, partitions) in by_topic(offsets.into_iter().cloned()) {
        let Some(topic_id) = ids.id(version, &name)? else { continue };
        let partitions = partitions.into_iter().map(|(partition_index, offset)| OffsetCommitRequestPartition {
            partition_index,
            committed_offset: offset.offset,
            committed_leader_epoch: offset.leader_epoch.unwrap_or(-1),
            committed_metadata: Some(offset.metadata),
            ..Default::default()
        });
        let (name, partitions) = (name.to_string(), partitions.collect());
        topics.push(OffsetCommitRequestTopic { name, topic_id, partitions, ..Default::default() });
    }
    Ok(OffsetCommitRequest {
        group_id: group.to_owned(),
        generation_id_or_member_epoch: member.generation,
        member_id: member.member_id.clone(),
        group_instance_id: member.instance_id.clone().filter(|_| version >= STATIC_MEMBERS),
        topics,
        ..Default::default()
    })
}

/// Returns the result of each requested partition, in this order. The result of a partition that is missing from the
/// response is an error, because it may not have been committed.
///
/// # Errors
/// Fails if the response contains an error that concerns the whole group or member.
pub(crate) fn read_commit<'a>(
    version: i16,
    group: &str,
    member: &MemberIdentity,
    requested: impl IntoIterator<Item = &'a TopicPartition>,
    response: OffsetCommitResponse,
    ids: &TopicIdMap<'_>,
) -> Result<Outcomes> {
    let mut outcomes = HashMap::default();
    for topic in response.topics {
        let name = ids.name(&topic.name, &topic.topic_id)?;
        for partition in topic.partitions {
            let tp = TopicPartition::new(name.clone(), partition.partition_index);
            let Err(code) = ErrorCode::from_i16(partition.error_code).ok() else {
                outcomes.insert(tp, Ok(()));
                continue;
            };
            let hint = hint(code, version, member.member_id.is_empty());
            let error = Error::server(code, format!("OffsetCommit of {tp} for group {group}{hint}"));
            if is_group_error(code) {
                return Err(error);
            }
            outcomes.insert(tp, Err(error));
        }
    }
    let outcome = |tp: &TopicPartition| match outcomes.get(tp) {
        Some(outcome) => outcome.clone(),
        None if ids.id(version, &tp.topic) == Ok(None) => {
            let context = format!("OffsetCommit of {tp} for group {group}");
            Err(Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context))
        }
        None => Err(left_out(ApiKey::OffsetCommit, group, Some(tp))),
    };
    Ok(requested.into_iter().map(|tp| (tp.clone(), outcome(tp))).collect())
}

/// Returns true if an error in OffsetCommit concerns the whole group or member, although the response repeats it for
/// each partition.
fn is_group_error(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::GROUP_AUTHORIZATION_FAILED
            | ErrorCode::INVALID_GROUP_ID
            | ErrorCode::GROUP_ID_NOT_FOUND
            | ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::REBALANCE_IN_PROGRESS
            | ErrorCode::FENCED_INSTANCE_ID
            | ErrorCode::STALE_MEMBER_EPOCH
            | ErrorCode::UNSUPPORTED_VERSION
            // These errors are retriable, so the whole request is sent again.
            | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::REQUEST_TIMED_OUT
    )
}

/// Returns a hint for errors whose usual meaning is misleading here. `without_member` is true for a commit that no
/// member sends.
fn hint(code: ErrorCode, version: i16, without_member: bool) -> &'static str {
    match (code, version) {
        (ErrorCode::UNKNOWN_MEMBER_ID, _) if without_member => {
            " (the group has members: only they may commit until they leave)"
        }
        (ErrorCode::UNSUPPORTED_VERSION, 0) => " (v0 is for offsets in ZooKeeper, which this broker does not use)",
        _ => "",
    }
}

/// Returns the error for a partition, or for the whole group, that is missing from a response.
fn left_out(api: ApiKey, group: &str, partition: Option<&TopicPartition>) -> Error {
    let reason = match partition {
        Some(tp) => format!("the response to {} for group {group} leaves out {tp}", api.name()),
        None => format!("the response to {} leaves out group {group}", api.name()),
    };
    Error::protocol("the coordinator", reason)
}

/// Returns an OffsetFetch request. Topics that do not exist are omitted, and so is `require_stable` in versions that do
/// not support it (before Kafka 2.5).
pub(crate) fn fetch_request<'a>(
    version: i16,
    groups: impl IntoIterator<Item = RequestedGroup<'a>>,
    require_stable: bool,
    ids: &TopicIdMap<'_>,
) -> Result<OffsetFetchRequest> {
    let require_stable = require_stable && version >= FETCH_STABLE;
    let mut request = OffsetFetchRequest { require_stable, ..Default::default() };
    for (group, partitions) in groups {
        let group_id = group.to_owned();
        let topics = partitions.map(|partitions| fetch_topics(version, partitions, ids)).transpose()?;
        if version >= FETCH_GROUPS {
            request.groups.push(OffsetFetchRequestGroup { group_id, topics, ..Default::default() });
            continue;
        }
        let by_name = |OffsetFetchRequestTopics { name, partition_indexes, .. }| OffsetFetchRequestTopic {
            name,
            partition_indexes,
            ..Default::default()
        };
        request.group_id = group_id;
        request.topics = topics.map(|topics| topics.into_iter().map(by_name).collect());
    }
    Ok(request)
}

fn fetch_topics(
    version: i16,
    partitions: &[TopicPartition],
    ids: &TopicIdMap<'_>,
) -> Result<Vec<OffsetFetchRequestTopics>> {
    let mut topics = Vec::new();
    for (name, partitions) in by_topic(partitions.iter().map(|tp| (tp.clone(), ()))) {
        let Some(topic_id) = ids.id(version, &name)? else { continue };
        let partition_indexes = partitions.into_iter().map(|(partition, ())| partition).collect();
        let name = name.to_string();
        topics.push(OffsetFetchRequestTopics { name, topic_id, partition_indexes, ..Default::default() });
    }
    Ok(topics)
}

/// Returns the committed offsets of each requested group, or the error of the group.
///
/// An error of a partition is an error of its group, except for an open transaction, which does not delay other
/// partitions.
pub(crate) fn read_fetch<'a>(
    version: i16,
    groups: impl IntoIterator<Item = RequestedGroup<'a>>,
    response: OffsetFetchResponse,
    ids: &TopicIdMap<'_>,
) -> Vec<(String, Result<FetchResults>)> {
    let mut responses = by_group(version, response);
    let groups = groups.into_iter().map(|(group, partitions)| {
        // Versions before 8 contain one group and no group id.
        let response = responses.remove(if version >= FETCH_GROUPS { group } else { "" });
        let results = response.ok_or_else(|| left_out(ApiKey::OffsetFetch, group, None));
        let results = results.and_then(|response| read_group(version, group, partitions, response, ids));
        (group.to_owned(), results)
    });
    groups.collect()
}

/// Converts a response to the form of version 8 and later.
fn by_group(version: i16, response: OffsetFetchResponse) -> HashMap<String, OffsetFetchResponseGroup> {
    if version >= FETCH_GROUPS {
        return response.groups.into_iter().map(|group| (group.group_id.clone(), group)).collect();
    }
    let topics = response.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|partition| OffsetFetchResponsePartitions {
            partition_index: partition.partition_index,
            committed_offset: partition.committed_offset,
            committed_leader_epoch: partition.committed_leader_epoch,
            metadata: partition.metadata,
            error_code: partition.error_code,
            ..Default::default()
        });
        OffsetFetchResponseTopics { name: topic.name, partitions: partitions.collect(), ..Default::default() }
    });
    let (topics, error_code) = (topics.collect(), response.error_code);
    HashMap::from_iter([(String::new(), OffsetFetchResponseGroup { topics, error_code, ..Default::default() })])
}

fn read_group(
    version: i16,
    group: &str,
    requested: Option<&[TopicPartition]>,
    response: OffsetFetchResponseGroup,
    ids: &TopicIdMap<'_>,
) -> Result<FetchResults> {
    let error = |code, item: &str| {
        Error::server(code, format!("OffsetFetch{item} for group {group}{}", hint(code, version, false)))
    };
    let exists = match ErrorCode::from_i16(response.error_code) {
        ErrorCode::NONE => true,
        // Apache Kafka responds for an unknown group as if it had no offsets, but other brokers return this error.
        ErrorCode::GROUP_ID_NOT_FOUND => false,
        code => return Err(error(code, "")),
    };
    let mut results = BTreeMap::new();
    for topic in response.topics {
        let name = ids.name(&topic.name, &topic.topic_id)?;
        for partition in topic.partitions {
            let tp = TopicPartition::new(name.clone(), partition.partition_index);
            let result = match ErrorCode::from_i16(partition.error_code) {
                ErrorCode::NONE => Ok(committed(partition)),
                // Version 0 reports a missing offset in ZooKeeper as an unknown partition, and versions 0 and 1 report
                // an unknown group in its partitions.
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::GROUP_ID_NOT_FOUND => Ok(None),
                code @ ErrorCode::UNSTABLE_OFFSET_COMMIT => Err(error(code, &format!(" of {tp}"))),
                code => return Err(error(code, &format!(" of {tp}"))),
            };
            results.insert(tp, result);
        }
    }
    let Some(requested) = requested else {
        return Ok(results.into_iter().filter(|(_, result)| !matches!(result, Ok(None))).collect());
    };
    let result = |tp: &TopicPartition| match results.get(tp) {
        Some(result) => result.clone(),
        None if !exists || ids.id(version, &tp.topic) == Ok(None) => Ok(None),
        None => Err(left_out(ApiKey::OffsetFetch, group, Some(tp))),
    };
    Ok(requested.iter().map(|tp| (tp.clone(), result(tp))).collect())
}

/// Returns the committed offset of a partition, if any.
fn committed(partition: OffsetFetchResponsePartitions) -> Option<OffsetAndMetadata> {
    let OffsetFetchResponsePartitions { committed_offset: offset, committed_leader_epoch, metadata, .. } = partition;
    let leader_epoch = Some(committed_leader_epoch).filter(|epoch| *epoch >= 0);
    (offset >= 0).then(|| OffsetAndMetadata { offset, metadata: metadata.unwrap_or_default(), leader_epoch })
}

#[cfg(test)]
mod tests {
    use samsarrow_wire::messages::Uuid;
    use samsarrow_wire::messages::offset_commit::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};

    use super::*;

    const ID: Uuid = Uuid([7; 16]);

    fn tp(partition: i32) -> TopicPartition {
        TopicPartition::new("t", partition)
    }

    /// Topic `t` exists, topic `deleted` does not.
    fn ids() -> TopicIdMap<'static> {
        TopicIdMap::of_all([("t".to_owned(), ID)].into())
    }

    fn read_commit_of(version: i16, member_id: &str, codes: &[ErrorCode]) -> Result<Outcomes> {
        let requested = [tp(1), TopicPartition::new("deleted", 0), tp(0)];
        let offsets = requested.clone().map(|tp| (tp, OffsetAndMetadata::default()));
        let (ids, member) = (ids(), MemberIdentity { member_id: member_id.to_owned(), ..Default::default() });
        let topics = commit_request(version, "g", &member, &offsets, &ids).unwrap().topics;
        assert_eq!(topics.len(), if version < 10 { 2 } else { 1 });
        let partitions = (0..).zip(codes).map(|(partition_index, code)| OffsetCommitResponsePartition {
            partition_index,
            error_code: code.code(),
            ..Default::default()
        });
        let name = if version < 10 { "t".to_owned() } else { String::new() };
        let topic =
            OffsetCommitResponseTopic { name, topic_id: ID, partitions: partitions.collect(), ..Default::default() };
        let response = OffsetCommitResponse { topics: vec![topic], ..Default::default() };
        read_commit(version, "g", &member, &requested, response, &ids)
    }

    #[test]
    fn errors_of_a_commit_concern_the_group_or_a_partition() {
        use ErrorCode as Code;
        // Code, true for an error of the group, true for a retriable error.
        let table = [
            (Code::GROUP_AUTHORIZATION_FAILED, true, false),
            (Code::INVALID_GROUP_ID, true, false),
            (Code::GROUP_ID_NOT_FOUND, true, false),
            (Code::UNKNOWN_MEMBER_ID, true, false),
            (Code::ILLEGAL_GENERATION, true, false),
            (Code::REBALANCE_IN_PROGRESS, true, false),
            (Code::FENCED_INSTANCE_ID, true, false),
            (Code::STALE_MEMBER_EPOCH, true, false),
            (Code::UNSUPPORTED_VERSION, true, false),
            (Code::COORDINATOR_LOAD_IN_PROGRESS, true, true),
            (Code::COORDINATOR_NOT_AVAILABLE, true, true),
            (Code::NOT_COORDINATOR, true, true),
            (Code::REQUEST_TIMED_OUT, true, true),
            (Code::UNKNOWN_TOPIC_OR_PARTITION, false, true),
            (Code::UNKNOWN_TOPIC_ID, false, true),
            (Code::TOPIC_AUTHORIZATION_FAILED, false, false),
            (Code::OFFSET_METADATA_TOO_LARGE, false, false),
            (Code::INVALID_COMMIT_OFFSET_SIZE, false, false),
            (Code::UNKNOWN_SERVER_ERROR, false, false),
        ];
        for (code, of_group, retriable) in table {
            let error = match read_commit_of(9, "", &[Code::NONE, code]) {
                Err(error) => {
                    assert!(of_group, "{error}");
                    error
                }
                Ok(outcomes) => {
                    assert!(!of_group, "{code}");
                    assert_eq!(outcomes[2], (tp(0), Ok(())));
                    outcomes[0].1.clone().unwrap_err()
                }
            };
            assert_eq!((error.code(), error.retriable()), (Some(code.code()), retriable), "{error}");
            assert!(error.to_string().contains("OffsetCommit of t-1 for group g"), "{error}");
        }
    }

    #[test]
    fn only_commits_without_a_member_have_a_hint_about_members() {
        let text = |version, member| {
            let codes = [if version == 0 { ErrorCode::UNSUPPORTED_VERSION } else { ErrorCode::UNKNOWN_MEMBER_ID }];
            read_commit_of(version, member, &codes).unwrap_err().to_string()
        };
        assert!(text(9, "").contains("the group has members"));
        assert!(!text(9, "member").contains("the group has members"));
        assert!(text(0, "").contains("v0 is for offsets in ZooKeeper"));
    }

    #[test]
    fn each_requested_partition_of_a_commit_has_a_result() {
        for version in [9, 10] {
            let outcomes = read_commit_of(version, "", &[ErrorCode::NONE]).unwrap();
            assert_eq!(outcomes[2], (tp(0), Ok(())));
            let text = outcomes[0].1.as_ref().unwrap_err().to_string();
            assert!(text.contains("OffsetCommit for group g leaves out t-1"), "{text}");
            let unknown = outcomes[1].1.as_ref().unwrap_err();
            // Version 10 requests contain no topics that do not exist.
            assert_eq!(unknown.code(), (version == 10).then_some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code()));
        }
    }

    /// Reads a response for group `g` that contains `partitions` of topic `t`, each with an offset and an error code.
    fn read_fetch_of(
        version: i16,
        requested: Option<&[TopicPartition]>,
        group_code: ErrorCode,
        partitions: &[(i64, ErrorCode)],
    ) -> Result<FetchResults> {
        let ids = ids();
        fetch_request(version, [("g", requested)], true, &ids).unwrap();
        let partitions = (0..).zip(partitions).map(|(partition_index, (offset, code))| OffsetFetchResponsePartitions {
            partition_index,
            committed_offset: *offset,
            error_code: code.code(),
            ..Default::default()
        });
        let name = if version < 10 { "t".to_owned() } else { String::new() };
        let topics = vec![OffsetFetchResponseTopics {
            name,
            topic_id: ID,
            partitions: partitions.collect(),
            ..Default::default()
        }];
        let error_code = group_code.code();
        let group = OffsetFetchResponseGroup { group_id: "g".into(), topics, error_code, ..Default::default() };
        let response = OffsetFetchResponse { groups: vec![group], ..Default::default() };
        let mut results = read_fetch(version, [("absent", None), ("g", requested)], response, &ids);
        let text = results[0].1.as_ref().unwrap_err().to_string();
        assert!(text.contains("OffsetFetch leaves out group absent"), "{text}");
        results.remove(1).1
    }

    fn offset(result: &Result<Option<OffsetAndMetadata>>) -> Option<i64> {
        result.as_ref().unwrap().as_ref().map(|committed| committed.offset)
    }

    #[test]
    fn each_requested_partition_of_a_fetch_has_a_result() {
        // A partition that is requested twice has its result twice.
        let requested = [tp(2), tp(1), tp(0), tp(0)];
        let partitions = [(7, ErrorCode::NONE), (-1, ErrorCode::NONE)];
        let results = read_fetch_of(9, Some(&requested), ErrorCode::NONE, &partitions).unwrap();
        assert_eq!(results.iter().map(|(tp, _)| tp.clone()).collect::<Vec<_>>(), requested);
        let text = results[0].1.as_ref().unwrap_err().to_string();
        assert!(text.contains("for group g leaves out t-2"), "{text}");
        assert_eq!([1, 2, 3].map(|at| offset(&results[at].1)), [None, Some(7), Some(7)]);
        // A fetch of all partitions returns those with a committed offset. Its request contains no topics.
        for version in [9, 10] {
            let all = read_fetch_of(version, None, ErrorCode::NONE, &partitions).unwrap();
            assert_eq!((all.len(), offset(&all[0].1)), (1, Some(7)));
        }
        // A group that does not exist has committed nothing, like a topic that does not exist.
        let unknown = read_fetch_of(9, Some(&requested), ErrorCode::GROUP_ID_NOT_FOUND, &[]).unwrap();
        assert!(unknown.iter().all(|(_, result)| *result == Ok(None)));
        let deleted = [TopicPartition::new("deleted", 0), tp(0)];
        let results = read_fetch_of(10, Some(&deleted), ErrorCode::NONE, &partitions).unwrap();
        assert_eq!([offset(&results[0].1), offset(&results[1].1)], [None, Some(7)]);
    }

    #[test]
    fn errors_of_a_fetch_concern_the_group_except_for_open_transactions() {
        let requested = [tp(0), tp(1)];
        let read = |code| read_fetch_of(9, Some(&requested), ErrorCode::NONE, &[(7, ErrorCode::NONE), (-1, code)]);
        for code in [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::GROUP_ID_NOT_FOUND] {
            assert_eq!(offset(&read(code).unwrap()[1].1), None);
        }
        let unstable = read(ErrorCode::UNSTABLE_OFFSET_COMMIT).unwrap();
        assert_eq!(offset(&unstable[0].1), Some(7));
        assert_eq!(unstable[1].1.as_ref().unwrap_err().code(), Some(ErrorCode::UNSTABLE_OFFSET_COMMIT.code()));
        for code in [ErrorCode::TOPIC_AUTHORIZATION_FAILED, ErrorCode::NOT_COORDINATOR] {
            assert_eq!(read(code).unwrap_err().code(), Some(code.code()));
        }
        // Fetches contain no member id, so the error has no hint about members.
        let error = read_fetch_of(9, None, ErrorCode::UNKNOWN_MEMBER_ID, &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            Error::server(ErrorCode::UNKNOWN_MEMBER_ID, "OffsetFetch for group g").to_string()
        );
    }
}
