//! Generator of subscriptions, assignments and sticky user data.
use crate::random::Random;
use crate::tree::{Node, Number, Packing};

/// Returns one of the three structures, selected by `what`, the first byte of the target's input.
pub(super) fn metadata(what: u8, random: &mut Random) -> Node {
    let version = Node::Int(Number::Big(2), random.below(6) as i64);
    let topics = list((0..random.below(5)).map(|_| topic(random)).collect());
    let partitions = list((0..random.below(5)).map(|_| partitions(random)).collect());
    let generation = Node::Int(Number::Big(4), random.below(9) as i64 - 1);
    Node::Group(match what % 3 {
        0 => vec![version, topics, user_data(random), partitions, generation, rack(random)],
        1 => vec![version, partitions, user_data(random)],
        _ => vec![partitions, generation],
    })
}

fn list(items: Vec<Node>) -> Node {
    Node::List { by: Number::Big(4), lie: None, packing: Packing::Plain, damage: None, items }
}

fn sized(width: usize, bytes: Vec<u8>) -> Node {
    Node::Sized { by: Number::Big(width), more: 0, lie: None, body: vec![Node::Raw(bytes)] }
}

fn topic(random: &mut Random) -> Node {
    sized(2, format!("topic-{}", random.below(9)).into_bytes())
}

fn partitions(random: &mut Random) -> Node {
    let numbers = (0..random.below(9)).map(|_| Node::Int(Number::Big(4), random.below(20) as i64)).collect();
    Node::Group(vec![topic(random), list(numbers)])
}

fn user_data(random: &mut Random) -> Node {
    if random.one_in(2) { Node::Int(Number::Big(4), -1) } else { sized(4, random.bytes(40)) }
}

fn rack(random: &mut Random) -> Node {
    if random.one_in(2) { Node::Int(Number::Big(2), -1) } else { sized(2, b"rack".to_vec()) }
}
