//! Tests of the assignors with the cases of Apache Kafka's own tests, and of invariants for arbitrary groups.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "skipped cases are reported")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;

use proptest::prelude::*;
use samsarrow_client::group::assignor::{Assignment, Members, Subscription, Topics, by_name};
use samsarrow_client::types::TopicPartition;
use serde_json::Value;

const NAMES: [&str; 4] = ["range", "roundrobin", "sticky", "cooperative-sticky"];

fn of_hex(text: &str) -> Bytes {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(text).collect()
}

fn partitions(value: &Value) -> Vec<TopicPartition> {
    let partition = |pair: &Value| TopicPartition::new(pair[0].as_str().unwrap(), pair[1].as_i64().unwrap() as i32);
    value.as_array().into_iter().flatten().map(partition).collect()
}

fn member(described: &Value) -> Subscription {
    Subscription {
        topics: strings(&described["topics"]),
        user_data: described["user_data_hex"].as_str().map(of_hex),
        owned: partitions(&described["owned"]),
        generation: described["generation"].as_i64().map(|generation| generation as i32),
        rack: text(&described["rack_id"]),
        instance_id: text(&described["group_instance_id"]),
    }
}

/// Case in the file: a group, and the assignment that Kafka's assignor computes.
struct Case {
    id: String,
    assignor: String,
    topics: Topics,
    members: Members,
    expected: BTreeMap<String, BTreeSet<TopicPartition>>,
    /// Previous owners of each partition, by which the comparison counts moved partitions.
    previous_owners: BTreeMap<TopicPartition, BTreeSet<String>>,
}

impl Case {
    fn new(json: &Value) -> Case {
        let counts = json["partitions_per_topic"].as_object().unwrap();
        let racks = |topic: &str, partition: u64| strings(&json["partition_racks"][topic][partition as usize]);
        let topic = |(name, count): (&String, &Value)| {
            (name.clone(), (0..count.as_u64().unwrap()).map(|partition| racks(name, partition)).collect())
        };
        let described = json["members"].as_object().unwrap();
        let mut previous_owners: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (id, described) in described {
            let previous = partitions(&described["sticky_user_data"]["partitions"]);
            let previous = if previous.is_empty() { partitions(&described["owned"]) } else { previous };
            for partition in previous {
                previous_owners.entry(partition).or_default().insert(id.clone());
            }
        }
        let expected = json["expected"].as_object().unwrap();
        Case {
            id: text(&json["id"]).unwrap(),
            assignor: text(&json["assignor"]).unwrap(),
            topics: counts.iter().map(topic).collect(),
            members: described.iter().map(|(id, described)| (id.clone(), member(described))).collect(),
            expected: expected
                .iter()
                .map(|(id, assignment)| (id.clone(), partitions(assignment).into_iter().collect()))
                .collect(),
            previous_owners,
        }
    }

    fn squares<'a>(sizes: impl Iterator<Item = &'a BTreeSet<TopicPartition>>) -> usize {
        sizes.map(|partitions| partitions.len().pow(2)).sum()
    }

    fn kept(&self, assignment: &BTreeMap<String, BTreeSet<TopicPartition>>) -> usize {
        let kept =
            |id: &String, p: &&TopicPartition| self.previous_owners.get(p).is_some_and(|members| members.contains(id));
        assignment.iter().map(|(id, partitions)| partitions.iter().filter(|p| kept(id, p)).count()).sum()
    }

    /// Checks that the assignment is the expected one or equivalent to it: valid, equally balanced and equally sticky.
    fn judge(&self, assignment: &Assignment) -> Result<&'static str, String> {
        assert!(assignment.keys().eq(self.members.keys()), "{}: every member is there", self.id);
        let assignment: BTreeMap<String, BTreeSet<TopicPartition>> =
            assignment.iter().map(|(id, list)| (id.clone(), list.iter().cloned().collect())).collect();
        let nothing = BTreeSet::new();
        if assignment.iter().all(|(id, partitions)| partitions == self.expected.get(id).unwrap_or(&nothing)) {
            return Ok("equal");
        }
        if matches!(&*self.assignor, "range" | "roundrobin") {
            return Err(format!("got {assignment:?}, want {:?}", self.expected));
        }
        for partition in unassigned(&self.topics, &self.members, &assignment) {
            if self.assignor == "sticky" || !self.previous_owners.contains_key(&partition) {
                return Err(format!("{partition} is not assigned"));
            }
        }
        let (ours, theirs) = (Self::squares(assignment.values()), Self::squares(self.expected.values()));
        if ours > theirs {
            return Err(format!("less balanced than Kafka's: {ours} > {theirs}"));
        }
        let (ours, theirs) = (self.kept(&assignment), self.kept(&self.expected));
        if ours < theirs { Err(format!("keeps {ours} where Kafka keeps {theirs}")) } else { Ok("as good") }
    }
}

/// Returns the subscribed partitions without an owner. Panics if a partition has two owners, or an owner that is not
/// subscribed to its topic.
fn unassigned(
    topics: &Topics,
    members: &Members,
    assignment: &BTreeMap<String, BTreeSet<TopicPartition>>,
) -> BTreeSet<TopicPartition> {
    let wanted: BTreeSet<&String> = members.values().flat_map(|member| &member.topics).collect();
    let all = topics.iter().filter(|(name, _)| wanted.contains(name));
    let mut left: BTreeSet<TopicPartition> = all
        .flat_map(|(name, racks)| (0..racks.len()).map(|partition| TopicPartition::new(&**name, partition as i32)))
        .collect();
    for (id, partitions) in assignment {
        for partition in partitions {
            assert!(left.remove(partition), "{partition} is not there, or has two members");
            assert!(
                members[id].topics.iter().any(|topic| **topic == *partition.topic),
                "{id} does not want {partition}"
            );
        }
    }
    left
}

#[test]
fn assignments_match_kafkas_own_test_cases() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = std::env::var_os("SAMSARROW_CONFORMANCE").map_or(root.join("../shared/conformance"), PathBuf::from);
    let path = folder.join("assignors.jsonl");
    let Ok(lines) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: there is no {} (see SAMSARROW_CONFORMANCE)", path.display());
        return;
    };
    let mut verdicts: BTreeMap<(String, &str), usize> = BTreeMap::new();
    let (mut passed, mut failures) = (0, Vec::new());
    for line in lines.lines() {
        let case = Case::new(&serde_json::from_str(line).unwrap());
        // Subscriptions are encoded and decoded, as on the way to the leader.
        let sent = |member: &Subscription| {
            let decoded = Subscription::decode(member.encode()).unwrap();
            Subscription { instance_id: member.instance_id.clone(), ..decoded }
        };
        let members = case.members.iter().map(|(id, member)| (id.clone(), sent(member))).collect();
        let assignment = by_name(&case.assignor).unwrap().assign(&case.topics, &members).unwrap();
        match case.judge(&assignment) {
            Ok(verdict) => {
                passed += 1;
                *verdicts.entry((case.assignor.clone(), verdict)).or_default() += 1;
            }
            Err(why) => failures.push(format!("{}: {why}", case.id)),
        }
    }
    println!("assignors.jsonl: {passed} of {} cases pass: {verdicts:?}", passed + failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(passed >= 434, "only {passed} cases");
}

/// Generates an arbitrary subscription, whose owned partitions may be stale or wrong.
fn any_member(topics: usize) -> impl Strategy<Value = Subscription> {
    let partition =
        (0..topics + 1, -1..8i32).prop_map(|(topic, partition)| TopicPartition::new(name(topic), partition));
    let owned = prop::collection::vec(partition, 0..12);
    let wants = prop::collection::vec(prop::bool::weighted(0.7), topics);
    let rack = prop::option::of(prop::sample::select(vec!["a", "b", "c", "elsewhere", ""]));
    (wants, owned, prop::option::of(-1..4i32), rack, any::<bool>(), any::<bool>()).prop_map(
        |(wants, owned, generation, rack, in_user_data, is_static)| Subscription {
            topics: wants.iter().enumerate().filter(|(_, wants)| **wants).map(|(topic, _)| name(topic)).collect(),
            user_data: if in_user_data {
                by_name("sticky").unwrap().user_data(&owned, generation.unwrap_or(-1)).unwrap()
            } else {
                generation.map(|generation| Bytes::copy_from_slice(&generation.to_be_bytes()))
            },
            owned,
            generation,
            rack: rack.map(str::to_owned),
            instance_id: is_static.then(String::new),
        },
    )
}

fn name(topic: usize) -> String {
    format!("topic-{topic}")
}

/// Generates groups with equal or different subscriptions, with or without racks. Some topics are empty or missing.
fn any_group(equal_subscriptions: bool) -> impl Strategy<Value = (Topics, Members)> {
    let racks = prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned), 0..3);
    let topics = prop::collection::vec(prop::option::weighted(0.9, prop::collection::vec(racks, 0..8)), 1..5);
    topics.prop_flat_map(move |topics| {
        let members = prop::collection::vec(any_member(topics.len()), 1..7);
        members.prop_map(move |members| {
            let wants = members[0].topics.clone();
            let topics: Topics =
                topics.iter().enumerate().filter_map(|(topic, racks)| Some((name(topic), racks.clone()?))).collect();
            let member = |(number, member): (usize, Subscription)| {
                let topics = if equal_subscriptions { wants.clone() } else { member.topics };
                let instance_id = member.instance_id.map(|_| format!("static-{}", 9 - number));
                (format!("member-{number}"), Subscription { topics, instance_id, ..member })
            };
            (topics, members.into_iter().enumerate().map(member).collect())
        })
    })
}

fn assigned(assignor: &str, topics: &Topics, members: &Members) -> BTreeMap<String, BTreeSet<TopicPartition>> {
    let assignment = by_name(assignor).unwrap().assign(topics, members).unwrap();
    assert!(assignment.keys().eq(members.keys()), "every member is there");
    assignment.into_iter().map(|(id, list)| (id, list.into_iter().collect())).collect()
}

/// Returns the members as they rejoin the group with their current assignment.
fn rejoined(members: &Members, assignment: &BTreeMap<String, BTreeSet<TopicPartition>>, generation: i32) -> Members {
    let again = |(id, member): (&String, &Subscription)| {
        let owned: Vec<TopicPartition> = assignment.get(id).into_iter().flatten().cloned().collect();
        let user_data = by_name("sticky").unwrap().user_data(&owned, generation).unwrap();
        (id.clone(), Subscription { owned, generation: Some(generation), user_data, ..member.clone() })
    };
    members.iter().map(again).collect()
}

/// Returns the largest and the smallest number of partitions of a member.
fn spread(assignment: &BTreeMap<String, BTreeSet<TopicPartition>>) -> (usize, usize) {
    let sizes = || assignment.values().map(BTreeSet::len);
    (sizes().max().unwrap_or(0), sizes().min().unwrap_or(0))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_subscribed_partition_has_one_owner((topics, members) in any_group(false)) {
        for assignor in ["range", "roundrobin", "sticky"] {
            let assignment = assigned(assignor, &topics, &members);
            prop_assert_eq!(unassigned(&topics, &members, &assignment), BTreeSet::new(), "{}", assignor);
        }
    }

    #[test]
    fn equal_subscriptions_are_balanced((topics, members) in any_group(true)) {
        for assignor in ["roundrobin", "sticky"] {
            let (max, min) = spread(&assigned(assignor, &topics, &members));
            prop_assert!(max - min <= 1, "{assignor}: {min} to {max}");
        }
        // The range assignor assigns each topic separately.
        let assignment = assigned("range", &topics, &members);
        for topic in topics.keys() {
            let of_topic = |all: &BTreeSet<TopicPartition>| all.iter().filter(|p| *p.topic == **topic).cloned().collect();
            let (max, min) = spread(&assignment.iter().map(|(id, all)| (id.clone(), of_topic(all))).collect());
            prop_assert!(max - min <= 1, "{topic}: {min} to {max}");
        }
    }

    #[test]
    fn sticky_assignment_cannot_be_balanced_further((topics, members) in any_group(false)) {
        let assignment = assigned("sticky", &topics, &members);
        for (owner, partitions) in &assignment {
            for partition in partitions {
                for (id, member) in &members {
                    let wants = member.topics.iter().any(|topic| **topic == *partition.topic);
                    prop_assert!(!wants || assignment[id].len() + 1 >= partitions.len(), "{partition}: {owner} to {id}");
                }
            }
        }
    }

    #[test]
    fn unchanged_group_keeps_its_assignment((topics, mut members) in any_group(false)) {
        for assignor in ["range", "roundrobin"] {
            let assignment = assigned(assignor, &topics, &members);
            prop_assert_eq!(&assigned(assignor, &topics, &rejoined(&members, &assignment, 5)), &assignment, "{}", assignor);
        }
        members.values_mut().for_each(|member| member.rack = None);
        let assignment = assigned("sticky", &topics, &members);
        prop_assert_eq!(&assigned("sticky", &topics, &rejoined(&members, &assignment, 5)), &assignment);
    }

    /// If members have racks, a further rebalance may move partitions to improve locality. But repeated rebalances must
    /// reach a fixed point.
    #[test]
    fn repeated_rebalances_reach_a_fixed_point((topics, members) in prop_oneof![any_group(false), any_group(true)]) {
        for assignor in ["sticky", "cooperative-sticky"] {
            let mut assignment = assigned(assignor, &topics, &members);
            for round in 1.. {
                let next = assigned(assignor, &topics, &rejoined(&members, &assignment, round));
                if next == assignment {
                    break;
                }
                prop_assert!(round < 10, "{assignor} goes on and on: {assignment:?}, {next:?}");
                assignment = next;
            }
            prop_assert_eq!(unassigned(&topics, &members, &assignment), BTreeSet::new());
        }
    }

    /// A partition is never assigned while another member claims to own it. No other partition is left unassigned.
    #[test]
    fn cooperative_assignment_never_has_two_owners((topics, members) in any_group(false)) {
        let assignment = assigned("cooperative-sticky", &topics, &members);
        for partition in unassigned(&topics, &members, &assignment) {
            prop_assert!(members.values().any(|member| member.owned.contains(&partition)), "{partition} is free");
        }
        for (id, partitions) in &assignment {
            for partition in partitions.iter().filter(|partition| !members[id].owned.contains(partition)) {
                let other = members.iter().find(|(_, member)| member.owned.contains(partition));
                prop_assert!(other.is_none(), "{partition} goes to {id}, while {other:?} reads it");
            }
        }
    }

    /// With equal subscriptions and without racks, partitions of the remaining members do not move when a member
    /// leaves. A joining member takes only its share.
    #[test]
    fn sticky_assignment_moves_the_minimum((topics, mut members) in any_group(true)) {
        members.values_mut().for_each(|member| member.rack = None);
        let assignment = assigned("sticky", &topics, &members);
        let mut fewer = rejoined(&members, &assignment, 5);
        if let Some((gone, _)) = fewer.pop_first() {
            for (id, partitions) in assigned("sticky", &topics, &fewer) {
                prop_assert!(partitions.is_superset(&assignment[&id]), "{id} lost something when {gone} went");
            }
        }
        let mut more = rejoined(&members, &assignment, 5);
        let topics_of_all = members.values().next().unwrap().topics.clone();
        more.insert("new".to_owned(), Subscription { topics: topics_of_all, ..Subscription::default() });
        let after = assigned("sticky", &topics, &more);
        let kept: usize = assignment.iter().map(|(id, partitions)| after[id].intersection(partitions).count()).sum();
        let all: usize = assignment.values().map(BTreeSet::len).sum();
        prop_assert_eq!(all - kept, after["new"].len());
    }
}

/// Large groups that start and rejoin, with equal and different subscriptions, with and without racks. Each assignment
/// must take a few seconds at most. The times are printed, not asserted.
#[test]
fn large_groups() {
    let racks = |partition: usize| vec![format!("rack-{}", partition % 3), format!("rack-{}", (partition + 1) % 3)];
    let topics: Topics = (0..50).map(|topic| (name(topic), (0..200).map(racks).collect())).collect();
    for (equal_subscriptions, in_racks) in [(true, false), (false, false), (true, true), (false, true)] {
        let member = |number: usize| {
            let wants = (0..50).filter(|topic| equal_subscriptions || !(topic + number).is_multiple_of(3));
            let rack = in_racks.then(|| format!("rack-{}", number % 3));
            (
                format!("member-{number:04}"),
                Subscription { topics: wants.map(name).collect(), rack, ..Default::default() },
            )
        };
        let members: Members = (0..1000).map(member).collect();
        for assignor in NAMES {
            let (started, mut times) = (Instant::now(), Vec::new());
            let assignment = assigned(assignor, &topics, &members);
            times.push(started.elapsed());
            assert!(unassigned(&topics, &members, &assignment).is_empty());
            // A tenth of the members leave.
            let mut fewer = rejoined(&members, &assignment, 5);
            fewer.retain(|id, _| !id.ends_with('7'));
            let started = Instant::now();
            let assignment = assigned(assignor, &topics, &fewer);
            times.push(started.elapsed());
            assert!(unassigned(&topics, &fewer, &assignment).is_empty() || assignor == "cooperative-sticky");
            if !in_racks {
                // One member owned all partitions before.
                let all = assignment.values().flatten().cloned().collect();
                let alone = rejoined(&members, &BTreeMap::from([("member-0001".to_owned(), all)]), 5);
                let started = Instant::now();
                assigned(assignor, &topics, &alone);
                times.push(started.elapsed());
            }
            println!(
                "1,000 members, 10,000 partitions, alike {equal_subscriptions}, racks {in_racks}, {assignor}: {times:?}"
            );
        }
    }
}
