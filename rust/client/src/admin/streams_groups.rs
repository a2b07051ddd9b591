//! Description of Kafka Streams groups (KIP-1071).

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::messages::{
    ApiKey, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, streams_group_describe as streams,
};

use super::batch::group_request;
use super::engine::RequestBatch;
use super::response_errors::check_item;
use super::{Admin, PerGroup};
use crate::error::Result;

/// Description of a streams group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamsGroupDescription {
    /// State, such as `Stable` or `Empty`.
    pub state: String,
    /// Group epoch, which increases with each change of members or topology.
    pub epoch: i32,
    /// Group epoch for which the current assignment was computed.
    pub assignment_epoch: i32,
    /// Epoch of the topology, −1 if the group has no topology.
    pub topology_epoch: i32,
    /// Assignor that the coordinator uses for the next assignment; brokers before 4.4 do not report it (KIP-1357).
    pub assignor: Option<String>,
    /// Subtopologies of the group's topology.
    pub subtopologies: Vec<Subtopology>,
    /// Members, sorted by member id.
    pub members: Vec<StreamsMember>,
}

/// Subtopology of a streams topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subtopology {
    /// Subtopology id.
    pub id: String,
    /// Source topics.
    pub sources: Vec<String>,
    /// Repartition topics that the subtopology writes to.
    pub sinks: Vec<String>,
    /// Changelog topics of the subtopology's state stores.
    pub changelogs: Vec<String>,
    /// Repartition topics that the subtopology reads from.
    pub repartitions: Vec<String>,
}

/// Partitions of tasks by subtopology id.
pub type Tasks = BTreeMap<String, Vec<i32>>;

/// Member of a streams group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamsMember {
    /// Member id.
    pub member_id: String,
    /// Member epoch.
    pub epoch: i32,
    /// Instance id of a static member.
    pub instance_id: Option<String>,
    /// Rack of the client.
    pub rack: Option<String>,
    /// Client id.
    pub client_id: String,
    /// Host address of the client.
    pub host: String,
    /// Epoch of the topology that the member uses.
    pub topology_epoch: i32,
    /// Id of the process that runs the member.
    pub process_id: String,
    /// Current tasks: active, standby and warm-up tasks.
    pub assignment: [Tasks; 3],
    /// Target tasks: active, standby and warm-up tasks.
    pub target: [Tasks; 3],
}

impl Admin {
    /// Describes streams groups. Returns a result for each group.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request. Errors of individual groups are returned in the list.
    pub async fn describe_streams_groups(
        &self,
        groups: &[String],
        timeout: Duration,
    ) -> Result<PerGroup<StreamsGroupDescription>> {
        let key = ApiKey::StreamsGroupDescribe;
        let build = |batch: &RequestBatch<'_, String>| {
            Ok(StreamsGroupDescribeRequest { group_ids: batch.items.to_vec(), ..Default::default() })
        };
        let read = |_: &RequestBatch<'_, String>, response: StreamsGroupDescribeResponse| {
            let read_group = |group: streams::DescribedGroup| {
                let context = format!("group {}", group.group_id);
                let result = check_item(key, context, group.error_code, group.error_message.as_deref());
                let name = group.group_id.clone();
                (name, result.map(|()| description(group)))
            };
            Ok(response.groups.into_iter().map(read_group).collect())
        };
        self.send_batched(&group_request(timeout), groups, build, read).await
    }
}

fn tasks(assignment: streams::Assignment) -> [Tasks; 3] {
    let by_subtopology =
        |tasks: Vec<streams::TaskIds>| tasks.into_iter().map(|t| (t.subtopology_id, t.partitions)).collect();
    [
        by_subtopology(assignment.active_tasks),
        by_subtopology(assignment.standby_tasks),
        by_subtopology(assignment.warmup_tasks),
    ]
}

fn description(group: streams::DescribedGroup) -> StreamsGroupDescription {
    let names = |topics: Vec<streams::TopicInfo>| topics.into_iter().map(|topic| topic.name).collect();
    let subtopology = |part: streams::Subtopology| Subtopology {
        id: part.subtopology_id,
        sources: part.source_topics,
        sinks: part.repartition_sink_topics,
        changelogs: names(part.state_changelog_topics),
        repartitions: names(part.repartition_source_topics),
    };
    let member = |m: streams::Member| StreamsMember {
        member_id: m.member_id,
        epoch: m.member_epoch,
        instance_id: m.instance_id,
        rack: m.rack_id,
        client_id: m.client_id,
        host: m.client_host,
        topology_epoch: m.topology_epoch,
        process_id: m.process_id,
        assignment: tasks(m.assignment),
        target: tasks(m.target_assignment),
    };
    let mut members: Vec<StreamsMember> = group.members.into_iter().map(member).collect();
    members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
    let (topology_epoch, parts) = group
        .topology
        .map_or((-1, Vec::new()), |topology| (topology.epoch, topology.subtopologies.unwrap_or_default()));
    StreamsGroupDescription {
        state: group.group_state,
        epoch: group.group_epoch,
        assignment_epoch: group.assignment_epoch,
        topology_epoch,
        assignor: group.assignor_name,
        subtopologies: parts.into_iter().map(subtopology).collect(),
        members,
    }
}
