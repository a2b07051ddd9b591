//! Which version of each API a broker speaks, and which one to use.

use std::collections::{BTreeMap, HashMap};

use samsarrow_wire::messages::Request;
use samsarrow_wire::messages::api_versions::ApiVersion;

use crate::error::{Error, Result};

/// What one broker speaks.
#[derive(Debug, Clone, Default)]
pub struct ApiVersions {
    address: String,
    ranges: HashMap<i16, (i16, i16)>,
}

impl ApiVersions {
    /// As the broker at `address` told it.
    pub fn new(address: &str, keys: &[ApiVersion]) -> Self {
        let ranges = keys.iter().map(|key| (key.api_key, (key.min_version, key.max_version))).collect();
        Self { address: address.to_owned(), ranges }
    }

    /// The version of `R` to use: the one that was chosen, or the highest in common.
    ///
    /// # Errors
    /// [`Error::UnsupportedVersion`], naming the API and both ranges.
    pub fn choose<R: Request>(&self, chosen: &BTreeMap<&'static str, i16>) -> Result<i16> {
        let api = R::KEY.name();
        let Some(&(min, max)) = self.ranges.get(&R::KEY.code()) else {
            return Err(Error::UnsupportedVersion(format!("the broker at {} does not speak {api}", self.address)));
        };
        let (low, high) = (min.max(R::MIN_VERSION), max.min(R::MAX_VERSION));
        match chosen.get(api) {
            Some(version) if (low..=high).contains(version) => Ok(*version),
            Some(version) => Err(Error::UnsupportedVersion(format!(
                "{api} v{version} was chosen by option api.version, but the broker at {} speaks v{min} to v{max} and this \
                 client v{} to v{}",
                self.address,
                R::MIN_VERSION,
                R::MAX_VERSION
            ))),
            None if low <= high => Ok(high),
            None => Err(Error::UnsupportedVersion(format!(
                "no version of {api} in common: the broker at {} speaks v{min} to v{max}, this client v{} to v{}",
                self.address,
                R::MIN_VERSION,
                R::MAX_VERSION
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use samsarrow_wire::messages::{FetchRequest, HeartbeatRequest, OffsetCommitRequest};

    fn speaks(api_key: i16, min_version: i16, max_version: i16) -> ApiVersions {
        ApiVersions::new("h:1", &[ApiVersion { api_key, min_version, max_version, ..Default::default() }])
    }

    #[test]
    fn the_highest_in_common_is_taken_unless_one_is_chosen() {
        let none = BTreeMap::new();
        assert_eq!(speaks(1, 4, 99).choose::<FetchRequest>(&none), Ok(18));
        assert_eq!(speaks(1, 0, 11).choose::<FetchRequest>(&none), Ok(11));
        assert_eq!(speaks(8, 0, 9).choose::<OffsetCommitRequest>(&BTreeMap::from([("OffsetCommit", 0)])), Ok(0));
    }

    #[test]
    fn what_cannot_be_names_the_api_and_both_ranges() {
        let error = speaks(8, 2, 9).choose::<OffsetCommitRequest>(&BTreeMap::from([("OffsetCommit", 0)]));
        let text = error.unwrap_err().to_string();
        assert!(text.contains("OffsetCommit v0") && text.contains("v2 to v9"), "{text}");
        let text = speaks(1, 90, 99).choose::<FetchRequest>(&BTreeMap::new()).unwrap_err().to_string();
        assert!(text.contains("v90 to v99") && text.contains("v0 to v18"), "{text}");
        assert!(speaks(1, 0, 9).choose::<HeartbeatRequest>(&BTreeMap::new()).is_err());
    }
}
