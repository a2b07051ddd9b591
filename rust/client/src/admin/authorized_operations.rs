//! Operations that the client is authorized to perform, returned on request (KIP-430).

use super::acls::AclOperation;

/// Value of the response field if the operations were not requested or are not supported.
const NOT_REPORTED: i32 = i32::MIN;

/// Decodes the bit field of a response, in which bit N stands for the operation with code N.
pub(super) fn operations(bits: i32) -> Option<Vec<AclOperation>> {
    let has = |code: &i8| bits & (1 << code) != 0;
    (bits != NOT_REPORTED).then(|| (0..31).filter(has).map(AclOperation::of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_decoded() {
        assert_eq!(operations(i32::MIN), None);
        assert_eq!(operations(0), Some(Vec::new()));
        let some = 1 << AclOperation::Read.code() | 1 << AclOperation::Describe.code();
        assert_eq!(operations(some), Some(vec![AclOperation::Read, AclOperation::Describe]));
        // Bit 30 stands for an operation that is newer than this client.
        assert_eq!(operations(1 << 30), Some(vec![AclOperation::Unknown]));
    }
}
