//! Unit tests of the assignors.

use super::*;
use crate::group::assignor::encoding::encode_previous;

fn topic(name: &str, racks: &[&str]) -> (String, Vec<Vec<String>>) {
    let of_partition = |racks: &&str| racks.split_whitespace().map(str::to_owned).collect();
    (name.to_owned(), racks.iter().map(of_partition).collect())
}

/// Parses partitions, such as `"t-0 t-1"`.
fn partitions(list: &str) -> Vec<TopicPartition> {
    let partition = |text: &str| {
        let (topic, number) = text.rsplit_once('-').unwrap();
        TopicPartition::new(topic, number.parse().unwrap())
    };
    list.split_whitespace().map(partition).collect()
}

/// Returns a member subscribed to topics, such as `"t u"`.
fn subscribed(topics: &str) -> Subscription {
    Subscription { topics: topics.split_whitespace().map(str::to_owned).collect(), ..Subscription::default() }
}

impl Subscription {
    fn with_instance_id(self, instance: &str) -> Subscription {
        Subscription { instance_id: Some(instance.to_owned()), ..self }
    }

    fn in_rack(self, rack: &str) -> Subscription {
        Subscription { rack: Some(rack.to_owned()), ..self }
    }

    /// Adds previously owned partitions in the encoding of both sticky assignors.
    fn with_previous(self, list: &str, generation: i32) -> Subscription {
        let owned = partitions(list);
        let user_data = Some(encode_previous(&owned, generation));
        Subscription { owned, user_data, generation: Some(generation), ..self }
    }
}

/// Returns the assignment as lines of `member: partitions`.
fn assign<const T: usize, const M: usize>(
    assignor: &str,
    topics: [(String, Vec<Vec<String>>); T],
    members: [(&str, Subscription); M],
) -> Vec<String> {
    let members = members.map(|(id, member)| (id.to_owned(), member));
    let assignment = by_name(assignor).unwrap().assign(&BTreeMap::from(topics), &BTreeMap::from(members)).unwrap();
    let line = |(id, list): (String, Vec<TopicPartition>)| {
        let list: Vec<String> = list.iter().map(TopicPartition::to_string).collect();
        format!("{id}: {}", list.join(" "))
    };
    assignment.into_iter().map(line).collect()
}

#[test]
fn finds_assignors_by_name_and_java_class() {
    for (name, class, cooperative) in [
        ("range", "RangeAssignor", false),
        ("roundrobin", "RoundRobinAssignor", false),
        ("sticky", "StickyAssignor", false),
        ("cooperative-sticky", "CooperativeStickyAssignor", true),
    ] {
        for alias in [name, class, &format!("org.apache.kafka.clients.consumer.{class}")] {
            let assignor = by_name(alias).unwrap();
            assert_eq!((assignor.name(), assignor.cooperative()), (name, cooperative));
        }
    }
    assert!(by_name("uniform").is_none() && by_name("").is_none());
}

#[test]
fn assigns_nothing_to_members_without_partitions() {
    for name in ["range", "roundrobin", "sticky", "cooperative-sticky"] {
        assert_eq!(assign(name, [topic("t", &[]), topic("unwanted", &[""])], [("a", subscribed("t gone"))]), ["a: "]);
        assert!(assign(name, [topic("t", &[""])], []).is_empty());
        assert_eq!(
            assign(name, [topic("t", &["", ""])], [("a", subscribed("t t")), ("b", subscribed(""))]),
            ["a: t-0 t-1", "b: "]
        );
    }
}

#[test]
fn range_assigns_extra_partitions_to_the_first_members() {
    let topics = [topic("t", &["", "", ""]), topic("u", &["", "", ""])];
    let assignment = assign("range", topics, [("a", subscribed("t u")), ("b", subscribed("t u"))]);
    assert_eq!(assignment, ["a: t-0 t-1 u-0 u-1", "b: t-2 u-2"]);
}

#[test]
fn static_members_are_ordered_by_instance_id() {
    let members = || {
        [
            ("a", subscribed("t")),
            ("b", subscribed("t").with_instance_id("2")),
            ("c", subscribed("t").with_instance_id("1")),
        ]
    };
    assert_eq!(assign("range", [topic("t", &["", "", "", ""])], members()), ["a: t-3", "b: t-2", "c: t-0 t-1"]);
    assert_eq!(assign("roundrobin", [topic("t", &["", "", "", ""])], members()), ["a: t-2", "b: t-1", "c: t-0 t-3"]);
}

#[test]
fn range_prefers_matching_racks() {
    let members = || [("a", subscribed("t").in_rack("x")), ("b", subscribed("t").in_rack("y"))];
    assert_eq!(assign("range", [topic("t", &["y", "x", "y", "x"])], members()), ["a: t-1 t-3", "b: t-0 t-2"]);
    assert_eq!(assign("range", [topic("t", &["y", "y", "y", "x"])], members()), ["a: t-2 t-3", "b: t-0 t-1"]);
    // All partitions have the same racks, so racks do not affect the assignment.
    assert_eq!(assign("range", [topic("t", &["x y", "y x", "x y"])], members()), ["a: t-0 t-1", "b: t-2"]);
}

#[test]
fn range_prefers_copartitioning_to_matching_racks() {
    let members = [("a", subscribed("t u").in_rack("x")), ("b", subscribed("t u").in_rack("y"))];
    // Partition 0 of both topics is in rack y; partition 1 is in different racks.
    let assignment = assign("range", [topic("t", &["y", "x"]), topic("u", &["y", "z"])], members);
    assert_eq!(assignment, ["a: t-1 u-1", "b: t-0 u-0"]);
}

#[test]
fn roundrobin_skips_members_without_a_subscription() {
    let topics = [topic("t", &["", "", ""]), topic("u", &["", ""])];
    let assignment =
        assign("roundrobin", topics, [("a", subscribed("t")), ("b", subscribed("t u")), ("c", subscribed("u"))]);
    assert_eq!(assignment, ["a: t-0 t-2", "b: t-1 u-0", "c: u-1"]);
}

#[test]
fn sticky_members_keep_their_quota() {
    let members = [("a", subscribed("t").with_previous("t-0 t-1 t-2 t-3", 3)), ("b", subscribed("t"))];
    assert_eq!(assign("sticky", [topic("t", &["", "", "", ""])], members), ["a: t-0 t-1", "b: t-2 t-3"]);
    let members = [("a", subscribed("t").with_previous("t-3", 3)), ("b", subscribed("t").with_previous("t-0 t-2", 3))];
    assert_eq!(assign("sticky", [topic("t", &["", "", "", ""])], members), ["a: t-1 t-3", "b: t-0 t-2"]);
}

#[test]
fn newest_generation_owns_a_partition_unless_disputed() {
    for assignor in ["sticky", "cooperative-sticky"] {
        let members =
            [("a", subscribed("t").with_previous("t-0 t-1", 2)), ("b", subscribed("t").with_previous("t-0 t-1", 3))];
        let assignment = assign(assignor, [topic("t", &["", "", "", ""])], members);
        assert_eq!(assignment, ["a: t-2 t-3", "b: t-0 t-1"]);
    }
    let members = || [("a", subscribed("t").with_previous("t-1", 3)), ("b", subscribed("t").with_previous("t-1", 3))];
    assert_eq!(assign("sticky", [topic("t", &["", ""])], members()), ["a: t-0", "b: t-1"]);
    assert_eq!(assign("cooperative-sticky", [topic("t", &["", ""])], members()), ["a: t-0", "b: "]);
}

#[test]
fn sticky_ignores_invalid_user_data() {
    let invalid = Subscription { user_data: Some(Bytes::from_static(b"junk")), ..subscribed("t") };
    assert_eq!(
        assign("sticky", [topic("t", &["", ""])], [("a", subscribed("t")), ("b", invalid)]),
        ["a: t-0", "b: t-1"]
    );
    // Partitions and topics that do not exist are ignored.
    let stale = subscribed("t").with_previous("t-1 t-7 t--1 gone-0", 1);
    assert_eq!(assign("sticky", [topic("t", &["", ""])], [("a", stale), ("b", subscribed("t"))]), ["a: t-1", "b: t-0"]);
}

#[test]
fn sticky_balances_different_subscriptions() {
    let topics = || [topic("t", &["", ""]), topic("u", &["", "", ""])];
    // Member a owns all of t, which b also subscribes to; only c subscribes to u.
    let members = [("a", subscribed("t").with_previous("t-0 t-1", 1)), ("b", subscribed("t")), ("c", subscribed("u"))];
    assert_eq!(assign("sticky", topics(), members), ["a: t-1", "b: t-0", "c: u-0 u-1 u-2"]);
    // A partition of a topic that a is no longer subscribed to is revoked.
    let members =
        [("a", subscribed("t").with_previous("t-0 u-0", 1)), ("b", subscribed("t u").with_previous("t-1 u-1 u-2", 1))];
    assert_eq!(assign("sticky", topics(), members), ["a: t-0 t-1", "b: u-0 u-1 u-2"]);
}

#[test]
fn sticky_moves_partitions_to_matching_racks() {
    let members = || {
        [
            ("a", subscribed("t").in_rack("x").with_previous("t-0", 1)),
            ("b", subscribed("t").in_rack("y").with_previous("t-1", 1)),
        ]
    };
    assert_eq!(assign("sticky", [topic("t", &["y", "x"])], members()), ["a: t-1", "b: t-0"]);
    assert_eq!(assign("sticky", [topic("t", &["y", "z"])], members()), ["a: t-1", "b: t-0"]);
    // No other assignment matches more racks.
    assert_eq!(assign("sticky", [topic("t", &["z", "y"])], members()), ["a: t-0", "b: t-1"]);
}

#[test]
fn cooperative_sticky_assigns_moved_partitions_in_the_next_round() {
    let topics = || [topic("t", &["", "", "", ""])];
    let first = [("a", subscribed("t").with_previous("t-0 t-1 t-2 t-3", 1)), ("b", subscribed("t"))];
    assert_eq!(assign("cooperative-sticky", topics(), first), ["a: t-0 t-1", "b: "]);
    let second = [("a", subscribed("t").with_previous("t-0 t-1", 2)), ("b", subscribed("t").with_previous("", 2))];
    assert_eq!(assign("cooperative-sticky", topics(), second), ["a: t-0 t-1", "b: t-2 t-3"]);
    // The same applies to members with different subscriptions.
    let first = [("a", subscribed("t").with_previous("t-0 t-1 t-2 t-3", 1)), ("b", subscribed("t u"))];
    assert_eq!(assign("cooperative-sticky", topics(), first), ["a: t-2 t-3", "b: "]);
}

#[test]
fn cooperative_sticky_reads_the_generation_of_user_data() {
    let older = |list: &str, generation: i32| {
        let user_data = CooperativeSticky.user_data(&[], generation).unwrap();
        Subscription { owned: partitions(list), user_data, ..subscribed("t") }
    };
    let members = [("a", older("t-0", 4)), ("b", older("t-0 t-1", 3))];
    assert_eq!(assign("cooperative-sticky", [topic("t", &["", ""])], members), ["a: t-0", "b: t-1"]);
}

#[test]
fn sticky_user_data_contains_previous_partitions() {
    let previous = partitions("t-0");
    assert_eq!(Sticky.user_data(&[], -1), Ok(None));
    assert_eq!(Sticky.user_data(&previous, 3), Ok(Some(encode_previous(&previous, 3))));
    assert_eq!(CooperativeSticky.user_data(&previous, 3), Ok(Some(Bytes::from_static(b"\0\0\0\x03"))));
    assert_eq!(Range.user_data(&previous, 3), Ok(None));
}
