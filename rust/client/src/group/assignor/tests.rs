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
fn wants(topics: &str) -> Subscription {
    Subscription { topics: topics.split_whitespace().map(str::to_owned).collect(), ..Subscription::default() }
}

impl Subscription {
    fn named(self, instance: &str) -> Subscription {
        Subscription { instance_id: Some(instance.to_owned()), ..self }
    }

    fn at(self, rack: &str) -> Subscription {
        Subscription { rack: Some(rack.to_owned()), ..self }
    }

    /// Adds previously owned partitions in the encoding of both sticky assignors.
    fn had(self, list: &str, generation: i32) -> Subscription {
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
    let given = by_name(assignor).unwrap().assign(&BTreeMap::from(topics), &BTreeMap::from(members)).unwrap();
    let line = |(id, list): (String, Vec<TopicPartition>)| {
        let list: Vec<String> = list.iter().map(TopicPartition::to_string).collect();
        format!("{id}: {}", list.join(" "))
    };
    given.into_iter().map(line).collect()
}

#[test]
fn names_are_the_protocols_and_javas_classes() {
    for (name, class, cooperative) in [
        ("range", "RangeAssignor", false),
        ("roundrobin", "RoundRobinAssignor", false),
        ("sticky", "StickyAssignor", false),
        ("cooperative-sticky", "CooperativeStickyAssignor", true),
    ] {
        for asked in [name, class, &format!("org.apache.kafka.clients.consumer.{class}")] {
            let found = by_name(asked).unwrap();
            assert_eq!((found.name(), found.cooperative()), (name, cooperative));
        }
    }
    assert!(by_name("uniform").is_none() && by_name("").is_none());
}

#[test]
fn every_member_is_there_even_if_there_is_nothing() {
    for name in ["range", "roundrobin", "sticky", "cooperative-sticky"] {
        assert_eq!(assign(name, [topic("t", &[]), topic("unwanted", &[""])], [("a", wants("t gone"))]), ["a: "]);
        assert!(assign(name, [topic("t", &[""])], []).is_empty());
        assert_eq!(
            assign(name, [topic("t", &["", ""])], [("a", wants("t t")), ("b", wants(""))]),
            ["a: t-0 t-1", "b: "]
        );
    }
}

#[test]
fn range_gives_the_first_members_one_more_of_each_topic() {
    let topics = [topic("t", &["", "", ""]), topic("u", &["", "", ""])];
    let given = assign("range", topics, [("a", wants("t u")), ("b", wants("t u"))]);
    assert_eq!(given, ["a: t-0 t-1 u-0 u-1", "b: t-2 u-2"]);
}

#[test]
fn static_members_come_first_in_the_order_of_their_names() {
    let members = || [("a", wants("t")), ("b", wants("t").named("2")), ("c", wants("t").named("1"))];
    assert_eq!(assign("range", [topic("t", &["", "", "", ""])], members()), ["a: t-3", "b: t-2", "c: t-0 t-1"]);
    assert_eq!(assign("roundrobin", [topic("t", &["", "", "", ""])], members()), ["a: t-2", "b: t-1", "c: t-0 t-3"]);
}

#[test]
fn range_goes_by_racks_as_far_as_ranges_stay_equal() {
    let members = || [("a", wants("t").at("x")), ("b", wants("t").at("y"))];
    assert_eq!(assign("range", [topic("t", &["y", "x", "y", "x"])], members()), ["a: t-1 t-3", "b: t-0 t-2"]);
    assert_eq!(assign("range", [topic("t", &["y", "y", "y", "x"])], members()), ["a: t-2 t-3", "b: t-0 t-1"]);
    // All partitions have the same racks, which therefore do not matter.
    assert_eq!(assign("range", [topic("t", &["x y", "y x", "x y"])], members()), ["a: t-0 t-1", "b: t-2"]);
}

#[test]
fn range_keeps_equal_topics_together_rather_than_near() {
    let members = [("a", wants("t u").at("x")), ("b", wants("t u").at("y"))];
    // Partition 0 of both topics is in rack y; partition 1 is in different racks.
    let given = assign("range", [topic("t", &["y", "x"]), topic("u", &["y", "z"])], members);
    assert_eq!(given, ["a: t-1 u-1", "b: t-0 u-0"]);
}

#[test]
fn roundrobin_passes_over_those_that_do_not_want_a_topic_and_goes_on_after() {
    let topics = [topic("t", &["", "", ""]), topic("u", &["", ""])];
    let given = assign("roundrobin", topics, [("a", wants("t")), ("b", wants("t u")), ("c", wants("u"))]);
    assert_eq!(given, ["a: t-0 t-2", "b: t-1 u-0", "c: u-1"]);
}

#[test]
fn sticky_members_keep_their_share_and_give_up_the_highest_numbers() {
    let members = [("a", wants("t").had("t-0 t-1 t-2 t-3", 3)), ("b", wants("t"))];
    assert_eq!(assign("sticky", [topic("t", &["", "", "", ""])], members), ["a: t-0 t-1", "b: t-2 t-3"]);
    let members = [("a", wants("t").had("t-3", 3)), ("b", wants("t").had("t-0 t-2", 3))];
    assert_eq!(assign("sticky", [topic("t", &["", "", "", ""])], members), ["a: t-1 t-3", "b: t-0 t-2"]);
}

#[test]
fn the_latest_generation_is_right_and_of_two_equal_ones_neither() {
    for assignor in ["sticky", "cooperative-sticky"] {
        let members = [("a", wants("t").had("t-0 t-1", 2)), ("b", wants("t").had("t-0 t-1", 3))];
        let given = assign(assignor, [topic("t", &["", "", "", ""])], members);
        assert_eq!(given, ["a: t-2 t-3", "b: t-0 t-1"]);
    }
    let members = || [("a", wants("t").had("t-1", 3)), ("b", wants("t").had("t-1", 3))];
    assert_eq!(assign("sticky", [topic("t", &["", ""])], members()), ["a: t-0", "b: t-1"]);
    assert_eq!(assign("cooperative-sticky", [topic("t", &["", ""])], members()), ["a: t-0", "b: "]);
}

#[test]
fn user_data_that_cannot_be_read_says_nothing() {
    let junk = Subscription { user_data: Some(Bytes::from_static(b"junk")), ..wants("t") };
    assert_eq!(assign("sticky", [topic("t", &["", ""])], [("a", wants("t")), ("b", junk)]), ["a: t-0", "b: t-1"]);
    // Partitions and topics that do not exist.
    let dreamer = wants("t").had("t-1 t-7 t--1 gone-0", 1);
    assert_eq!(assign("sticky", [topic("t", &["", ""])], [("a", dreamer), ("b", wants("t"))]), ["a: t-1", "b: t-0"]);
}

#[test]
fn members_of_different_wishes_are_as_equal_as_they_can_be() {
    let topics = || [topic("t", &["", ""]), topic("u", &["", "", ""])];
    // Member a owns all of t, which b also subscribes to; only c subscribes to u.
    let members = [("a", wants("t").had("t-0 t-1", 1)), ("b", wants("t")), ("c", wants("u"))];
    assert_eq!(assign("sticky", topics(), members), ["a: t-1", "b: t-0", "c: u-0 u-1 u-2"]);
    // A partition of a topic that a is no longer subscribed to is revoked.
    let members = [("a", wants("t").had("t-0 u-0", 1)), ("b", wants("t u").had("t-1 u-1 u-2", 1))];
    assert_eq!(assign("sticky", topics(), members), ["a: t-0 t-1", "b: u-0 u-1 u-2"]);
}

#[test]
fn sticky_members_give_up_what_is_far_if_it_can_be_near() {
    let members = || [("a", wants("t").at("x").had("t-0", 1)), ("b", wants("t").at("y").had("t-1", 1))];
    assert_eq!(assign("sticky", [topic("t", &["y", "x"])], members()), ["a: t-1", "b: t-0"]);
    assert_eq!(assign("sticky", [topic("t", &["y", "z"])], members()), ["a: t-1", "b: t-0"]);
    // No other assignment matches more racks.
    assert_eq!(assign("sticky", [topic("t", &["z", "y"])], members()), ["a: t-0", "b: t-1"]);
}

#[test]
fn cooperative_members_get_what_moves_a_round_later() {
    let topics = || [topic("t", &["", "", "", ""])];
    let first = [("a", wants("t").had("t-0 t-1 t-2 t-3", 1)), ("b", wants("t"))];
    assert_eq!(assign("cooperative-sticky", topics(), first), ["a: t-0 t-1", "b: "]);
    let second = [("a", wants("t").had("t-0 t-1", 2)), ("b", wants("t").had("", 2))];
    assert_eq!(assign("cooperative-sticky", topics(), second), ["a: t-0 t-1", "b: t-2 t-3"]);
    // Members with different subscriptions.
    let first = [("a", wants("t").had("t-0 t-1 t-2 t-3", 1)), ("b", wants("t u"))];
    assert_eq!(assign("cooperative-sticky", topics(), first), ["a: t-2 t-3", "b: "]);
}

#[test]
fn the_generation_of_older_cooperative_members_is_in_their_user_data() {
    let older = |list: &str, generation: i32| {
        let user_data = CooperativeSticky.user_data(&[], generation).unwrap();
        Subscription { owned: partitions(list), user_data, ..wants("t") }
    };
    let members = [("a", older("t-0", 4)), ("b", older("t-0 t-1", 3))];
    assert_eq!(assign("cooperative-sticky", [topic("t", &["", ""])], members), ["a: t-0", "b: t-1"]);
}

#[test]
fn sticky_members_say_what_they_had_once_they_had_anything() {
    let had = partitions("t-0");
    assert_eq!(Sticky.user_data(&[], -1), Ok(None));
    assert_eq!(Sticky.user_data(&had, 3), Ok(Some(encode_previous(&had, 3))));
    assert_eq!(CooperativeSticky.user_data(&had, 3), Ok(Some(Bytes::from_static(b"\0\0\0\x03"))));
    assert_eq!(Range.user_data(&had, 3), Ok(None));
}
