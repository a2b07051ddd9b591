//! RoundRobin.

use super::{Assignment, Assignor, Members, Topics};
use crate::error::{Error, Result};

/// The assignor of that name.
#[derive(Debug, Clone, Copy, Default)]
pub struct RoundRobin;

impl Assignor for RoundRobin {
    fn name(&self) -> &str {
        "roundrobin"
    }

    fn assign(&self, _: &Topics, _: &Members) -> Result<Assignment> {
        Err(Error::configuration("the assignor roundrobin cannot assign yet"))
    }
}
