//! What anyone who is logged in may do with a resource, where that was asked for (KIP-430).

use super::acls::AclOperation;

/// What brokers answer that were not asked, or do not say.
const NOT_TOLD: i32 = i32::MIN;

/// The operations of an answer's bits, each at the place of its number.
pub(super) fn operations(bits: i32) -> Option<Vec<AclOperation>> {
    let has = |code: &i8| bits & (1 << code) != 0;
    (bits != NOT_TOLD).then(|| (0..31).filter(has).map(AclOperation::of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_operations() {
        assert_eq!(operations(i32::MIN), None);
        assert_eq!(operations(0), Some(Vec::new()));
        let some = 1 << AclOperation::Read.code() | 1 << AclOperation::Describe.code();
        assert_eq!(operations(some), Some(vec![AclOperation::Read, AclOperation::Describe]));
        // One that is newer than this client.
        assert_eq!(operations(1 << 30), Some(vec![AclOperation::Unknown]));
    }
}
