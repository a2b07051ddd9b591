//! Range.

use super::{Assignment, Assignor, Members, Topics};
use crate::error::{Error, Result};

/// The assignor of that name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Range;

impl Assignor for Range {
    fn name(&self) -> &str {
        "range"
    }

    fn assign(&self, _: &Topics, _: &Members) -> Result<Assignment> {
        Err(Error::configuration("the assignor range cannot assign yet"))
    }
}
