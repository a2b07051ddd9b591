//! The sticky assignors: members keep what they have, as far as balance allows.

use bytes::Bytes;

use super::encoding::{encode_generation, encode_previous};
use super::{Assignment, Assignor, Members, Topics};
use crate::error::{Error, Result};
use crate::types::TopicPartition;

/// Sticky over eager rebalances: everybody stops reading, and most get back what they had.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sticky;

/// Sticky over cooperative rebalances: only what moves is given up, and is assigned in the round after (KIP-429).
#[derive(Debug, Clone, Copy, Default)]
pub struct CooperativeSticky;

impl Assignor for Sticky {
    fn name(&self) -> &str {
        "sticky"
    }

    fn user_data(&self, owned: &[TopicPartition], generation: i32) -> Option<Bytes> {
        // A member that never had an assignment says nothing.
        (generation >= 0 || !owned.is_empty()).then(|| encode_previous(owned, generation))
    }

    fn assign(&self, _: &Topics, _: &Members) -> Result<Assignment> {
        Err(Error::configuration("the assignor sticky cannot assign yet"))
    }
}

impl Assignor for CooperativeSticky {
    fn name(&self) -> &str {
        "cooperative-sticky"
    }

    fn cooperative(&self) -> bool {
        true
    }

    fn user_data(&self, _: &[TopicPartition], generation: i32) -> Option<Bytes> {
        Some(encode_generation(generation))
    }

    fn assign(&self, _: &Topics, _: &Members) -> Result<Assignment> {
        Err(Error::configuration("the assignor cooperative-sticky cannot assign yet"))
    }
}
