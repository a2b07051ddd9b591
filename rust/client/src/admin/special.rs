//! Share groups (KIP-932) and groups of Kafka Streams (KIP-1071).

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::messages::alter_share_group_offsets::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use samsarrow_wire::messages::delete_share_group_offsets::DeleteShareGroupOffsetsRequestTopic;
use samsarrow_wire::messages::describe_share_group_offsets::{
    DescribeShareGroupOffsetsRequestGroup, DescribeShareGroupOffsetsRequestTopic,
};
use samsarrow_wire::messages::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, ApiKey, DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse, DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse,
    ShareGroupDescribeRequest, ShareGroupDescribeResponse, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse,
    share_group_describe as share, streams_group_describe as streams,
};

use super::batch::of_groups;
use super::engine::Asked;
use super::response_errors::check_of;
use super::{Admin, PerGroup, PerPartition};
use crate::cluster::ConnectionKind;
use crate::error::Result;
use crate::offsets::by_topic;
use crate::types::TopicPartition;

/// A share group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareGroupDescription {
    /// `Stable`, `Empty` and so on.
    pub state: String,
    /// Rises with each change of members or subscriptions.
    pub epoch: i32,
    /// The epoch that the assignment is of.
    pub assignment_epoch: i32,
    /// Who assigns.
    pub assignor: String,
    /// In the order of their ids.
    pub members: Vec<ShareMember>,
}

/// A member of a share group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareMember {
    /// Its id.
    pub member_id: String,
    /// Where it is.
    pub rack: Option<String>,
    /// Its epoch.
    pub epoch: i32,
    /// What the client calls itself.
    pub client_id: String,
    /// Where it is.
    pub host: String,
    /// The topics that it wants.
    pub topics: Vec<String>,
    /// What it has.
    pub assignment: Vec<TopicPartition>,
}

/// A group of Kafka Streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamsGroupDescription {
    /// `Stable`, `Empty` and so on.
    pub state: String,
    /// Rises with each change of members or topology.
    pub epoch: i32,
    /// The epoch that the assignment is of.
    pub assignment_epoch: i32,
    /// The epoch of the topology, −1 for none.
    pub topology_epoch: i32,
    /// The parts that run by themselves: id, source topics, repartition topics written to, changelogs, repartition topics
    /// read from.
    pub subtopologies: Vec<Subtopology>,
    /// In the order of their ids.
    pub members: Vec<StreamsMember>,
}

/// A part of a topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subtopology {
    /// Its id.
    pub id: String,
    /// The topics that it reads.
    pub sources: Vec<String>,
    /// The repartition topics that it writes.
    pub sinks: Vec<String>,
    /// The topics that its state is kept in.
    pub changelogs: Vec<String>,
    /// The repartition topics that it reads.
    pub repartitions: Vec<String>,
}

/// Tasks by the part of the topology.
pub type Tasks = BTreeMap<String, Vec<i32>>;

/// A member of a group of Kafka Streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamsMember {
    /// Its id.
    pub member_id: String,
    /// Its epoch.
    pub epoch: i32,
    /// What makes it a static member.
    pub instance_id: Option<String>,
    /// Where it is.
    pub rack: Option<String>,
    /// What the client calls itself.
    pub client_id: String,
    /// Where it is.
    pub host: String,
    /// The epoch of the topology that it has.
    pub topology_epoch: i32,
    /// The process that it is in.
    pub process_id: String,
    /// The tasks that it has: active, standby, warm-up.
    pub assignment: [Tasks; 3],
    /// The tasks that it is going to have.
    pub target: [Tasks; 3],
}

/// Where a share group is in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareOffset {
    /// The first record that is not done with.
    pub start: i64,
    /// The leader epoch of that record.
    pub leader_epoch: Option<i32>,
    /// How many records are not done with; brokers before 4.2 do not report it.
    pub lag: Option<i64>,
}

/// Where a share group is, by partition.
pub type ShareOffsets = Vec<(TopicPartition, Result<Option<ShareOffset>>)>;

fn partitions(topics: impl Iterator<Item = (String, Vec<i32>)>) -> Vec<TopicPartition> {
    let mut all: Vec<TopicPartition> =
        topics.flat_map(|(topic, its)| its.into_iter().map(move |p| TopicPartition::new(&*topic, p))).collect();
    all.sort();
    all
}

impl Admin {
    /// State and members of share groups; each group has its own outcome.
    ///
    /// # Errors
    /// What is not about one group.
    pub async fn describe_share_groups(
        &self,
        groups: &[String],
        timeout: Duration,
    ) -> Result<PerGroup<ShareGroupDescription>> {
        let key = ApiKey::ShareGroupDescribe;
        let build = |asked: &Asked<'_, String>| {
            Ok(ShareGroupDescribeRequest { group_ids: asked.items.to_vec(), ..Default::default() })
        };
        let member = |m: share::Member| ShareMember {
            member_id: m.member_id,
            rack: m.rack_id,
            epoch: m.member_epoch,
            client_id: m.client_id,
            host: m.client_host,
            topics: m.subscribed_topic_names,
            assignment: partitions(m.assignment.topic_partitions.into_iter().map(|t| (t.topic_name, t.partitions))),
        };
        let read = |_: &Asked<'_, String>, response: ShareGroupDescribeResponse| {
            let one = |group: share::DescribedGroup| {
                let what = format!("group {}", group.group_id);
                let said = check_of(key, what, group.error_code, group.error_message.as_deref());
                let found = said.map(|()| {
                    let mut members: Vec<ShareMember> = group.members.into_iter().map(member).collect();
                    members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
                    ShareGroupDescription {
                        state: group.group_state,
                        epoch: group.group_epoch,
                        assignment_epoch: group.assignment_epoch,
                        assignor: group.assignor_name,
                        members,
                    }
                });
                (group.group_id, found)
            };
            Ok(response.groups.into_iter().map(one).collect())
        };
        self.settle(&of_groups(timeout), groups, build, read).await
    }

    /// State, topology and members of groups of Kafka Streams; each group has its own outcome.
    ///
    /// # Errors
    /// What is not about one group.
    pub async fn describe_streams_groups(
        &self,
        groups: &[String],
        timeout: Duration,
    ) -> Result<PerGroup<StreamsGroupDescription>> {
        let key = ApiKey::StreamsGroupDescribe;
        let build = |asked: &Asked<'_, String>| {
            Ok(StreamsGroupDescribeRequest { group_ids: asked.items.to_vec(), ..Default::default() })
        };
        let read = |_: &Asked<'_, String>, response: StreamsGroupDescribeResponse| {
            let one = |group: streams::DescribedGroup| {
                let what = format!("group {}", group.group_id);
                let said = check_of(key, what, group.error_code, group.error_message.as_deref());
                let name = group.group_id.clone();
                (name, said.map(|()| described(group)))
            };
            Ok(response.groups.into_iter().map(one).collect())
        };
        self.settle(&of_groups(timeout), groups, build, read).await
    }

    /// Where share groups are, in some partitions or in all that they have state of; each group has its own outcome, and so
    /// has each partition.
    ///
    /// # Errors
    /// What is not about one group.
    pub async fn list_share_offsets(
        &self,
        wanted: &BTreeMap<String, Option<Vec<TopicPartition>>>,
        timeout: Duration,
    ) -> Result<PerGroup<ShareOffsets>> {
        let key = ApiKey::DescribeShareGroupOffsets;
        let groups: Vec<String> = wanted.keys().cloned().collect();
        let build = |asked: &Asked<'_, String>| {
            let group = |group: &String| {
                let some = wanted.get(group).and_then(Option::as_ref);
                let topics = some.map(|some| {
                    let topics = by_topic(some.iter().map(|tp| (tp.clone(), ()))).into_iter();
                    let topic =
                        |(name, its): (std::sync::Arc<str>, Vec<(i32, ())>)| DescribeShareGroupOffsetsRequestTopic {
                            topic_name: name.to_string(),
                            partitions: its.into_iter().map(|(p, ())| p).collect(),
                            ..Default::default()
                        };
                    topics.map(topic).collect()
                });
                DescribeShareGroupOffsetsRequestGroup { group_id: group.clone(), topics, ..Default::default() }
            };
            let groups = asked.items.iter().map(group).collect();
            Ok(DescribeShareGroupOffsetsRequest { groups, ..Default::default() })
        };
        let read = |_: &Asked<'_, String>, response: DescribeShareGroupOffsetsResponse| {
            let mut said = Vec::new();
            for group in response.groups {
                let what = format!("group {}", group.group_id);
                let outcome = check_of(key, &what, group.error_code, group.error_message.as_deref());
                let mut found = ShareOffsets::new();
                for topic in group.topics {
                    for p in topic.partitions {
                        let tp = TopicPartition::new(&*topic.topic_name, p.partition_index);
                        let said = check_of(key, format!("{tp} for {what}"), p.error_code, p.error_message.as_deref());
                        let at = ShareOffset {
                            start: p.start_offset,
                            leader_epoch: Some(p.leader_epoch).filter(|epoch| *epoch >= 0),
                            lag: Some(p.lag).filter(|lag| *lag >= 0),
                        };
                        found.push((tp, said.map(|()| Some(at).filter(|at| at.start >= 0))));
                    }
                }
                found.sort_by(|(a, _), (b, _)| a.cmp(b));
                said.push((group.group_id, outcome.map(|()| found)));
            }
            Ok(said)
        };
        let (work, slow) = (of_groups(timeout), self.cluster.with_connections(ConnectionKind::Coordinator));
        let asked = self.settle_at(&slow, &work, &groups, build, read);
        self.with_share_state("the offsets of share groups", timeout, asked).await
    }

    /// Moves where a share group without members goes on; each partition has its own outcome.
    ///
    /// # Errors
    /// What the coordinator says of the group as a whole; a timeout with its cause.
    pub async fn alter_share_offsets(
        &self,
        group: &str,
        offsets: &BTreeMap<TopicPartition, i64>,
        timeout: Duration,
    ) -> Result<PerPartition> {
        let key = ApiKey::AlterShareGroupOffsets;
        let build = |_: &Asked<'_, String>| {
            let partition = |(partition_index, start_offset)| AlterShareGroupOffsetsRequestPartition {
                partition_index,
                start_offset,
                ..Default::default()
            };
            let topics = by_topic(offsets.iter().map(|(tp, at)| (tp.clone(), *at))).into_iter().map(|(name, its)| {
                AlterShareGroupOffsetsRequestTopic {
                    topic_name: name.to_string(),
                    partitions: its.into_iter().map(partition).collect(),
                    ..Default::default()
                }
            });
            Ok(AlterShareGroupOffsetsRequest {
                group_id: group.to_owned(),
                topics: topics.collect(),
                ..Default::default()
            })
        };
        let read = |_: &Asked<'_, String>, response: AlterShareGroupOffsetsResponse| {
            let what = format!("group {group}");
            let said = check_of(key, &what, response.error_code, response.error_message.as_deref());
            let mut done = PerPartition::new();
            for topic in response.responses {
                for p in topic.partitions {
                    let tp = TopicPartition::new(&*topic.topic_name, p.partition_index);
                    let said = check_of(key, format!("{tp} for {what}"), p.error_code, p.error_message.as_deref());
                    done.push((tp, said));
                }
            }
            Ok(vec![(group.to_owned(), said.map(|()| done))])
        };
        let (work, slow, groups) =
            (of_groups(timeout), self.cluster.with_connections(ConnectionKind::Coordinator), [group.to_owned()]);
        let asked = self.settle_at(&slow, &work, &groups, build, read);
        let done = self.with_share_state(&format!("the offsets of share group {group}"), timeout, asked).await?;
        done.into_iter().next().map_or_else(|| Ok(Vec::new()), |(_, done)| done)
    }

    /// Forgets where a share group without members is in topics; each topic has its own outcome.
    ///
    /// # Errors
    /// What the coordinator says of the group as a whole; a timeout with its cause.
    pub async fn delete_share_offsets(
        &self,
        group: &str,
        topics: &[String],
        timeout: Duration,
    ) -> Result<Vec<(String, Result<()>)>> {
        let key = ApiKey::DeleteShareGroupOffsets;
        let build = |_: &Asked<'_, String>| {
            let topic =
                |name: &String| DeleteShareGroupOffsetsRequestTopic { topic_name: name.clone(), ..Default::default() };
            let topics = topics.iter().map(topic).collect();
            Ok(DeleteShareGroupOffsetsRequest { group_id: group.to_owned(), topics, ..Default::default() })
        };
        let read = |_: &Asked<'_, String>, response: DeleteShareGroupOffsetsResponse| {
            let what = format!("group {group}");
            let said = check_of(key, &what, response.error_code, response.error_message.as_deref());
            let one =
                |t: samsarrow_wire::messages::delete_share_group_offsets::DeleteShareGroupOffsetsResponseTopic| {
                    let asked = format!("topic {} for {what}", t.topic_name);
                    (t.topic_name, check_of(key, asked, t.error_code, t.error_message.as_deref()))
                };
            Ok(vec![(group.to_owned(), said.map(|()| response.responses.into_iter().map(one).collect()))])
        };
        let (work, slow, groups) =
            (of_groups(timeout), self.cluster.with_connections(ConnectionKind::Coordinator), [group.to_owned()]);
        let asked = self.settle_at(&slow, &work, &groups, build, read);
        let done = self.with_share_state(&format!("the offsets of share group {group}"), timeout, asked).await?;
        done.into_iter().next().map_or_else(|| Ok(Vec::new()), |(_, done)| done)
    }
}

fn tasks(assignment: streams::Assignment) -> [Tasks; 3] {
    let of = |tasks: Vec<streams::TaskIds>| tasks.into_iter().map(|t| (t.subtopology_id, t.partitions)).collect();
    [of(assignment.active_tasks), of(assignment.standby_tasks), of(assignment.warmup_tasks)]
}

fn described(group: streams::DescribedGroup) -> StreamsGroupDescription {
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
    let (topology_epoch, parts) =
        group.topology.map_or((-1, Vec::new()), |found| (found.epoch, found.subtopologies.unwrap_or_default()));
    StreamsGroupDescription {
        state: group.group_state,
        epoch: group.group_epoch,
        assignment_epoch: group.assignment_epoch,
        topology_epoch,
        subtopologies: parts.into_iter().map(subtopology).collect(),
        members,
    }
}
