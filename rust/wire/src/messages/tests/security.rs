//! Byte-exact tests of v0 of the ACL and token APIs, which no other oracle covers, and tests of the redaction of
//! secrets.

use super::*;
use crate::messages::{
    alter_user_scram_credentials, create_acls, create_delegation_token, delete_acls, describe_acls,
    describe_delegation_token,
};

fn check<M: Tested>(message: &M, bytes: &[u8]) {
    assert_eq!(&message.bytes(0)[..], bytes);
    assert_eq!(M::from_bytes_exact(0, &Bytes::copy_from_slice(bytes)).as_ref(), Ok(message));
}

/// Version 0 supports only literal patterns.
#[test]
fn acls_0_have_no_pattern_type() {
    use describe_acls::*;
    let request = DescribeAclsRequest {
        resource_type_filter: 2,
        resource_name_filter: Some("t".into()),
        operation: 1,
        permission_type: 3,
        ..Default::default()
    };
    check(&request, b"\x02\0\x01t\xff\xff\xff\xff\x01\x03");
    let prefixed = DescribeAclsRequest { pattern_type_filter: 4, ..request };
    let absent = EncodeError::FieldAbsent { field: "DescribeAclsRequest.pattern_type_filter", version: 0 };
    assert_eq!(prefixed.encode(0, &mut MessageBuf::new()), Err(absent));

    let acl = AclDescription {
        principal: "User:a".into(),
        host: "*".into(),
        operation: 3,
        permission_type: 2,
        ..Default::default()
    };
    let resource =
        DescribeAclsResource { resource_type: 2, resource_name: "t".into(), acls: vec![acl], ..Default::default() };
    let response = DescribeAclsResponse { throttle_time_ms: 9, resources: vec![resource], ..Default::default() };
    check(&response, b"\0\0\0\x09\0\0\xff\xff\0\0\0\x01\x02\0\x01t\0\0\0\x01\0\x06User:a\0\x01*\x03\x02");

    use create_acls::*;
    let creation = AclCreation {
        resource_type: 4,
        resource_name: "c".into(),
        principal: "P".into(),
        host: "h".into(),
        operation: 12,
        permission_type: 3,
        ..Default::default()
    };
    let request = CreateAclsRequest { creations: vec![creation], ..Default::default() };
    check(&request, b"\0\0\0\x01\x04\0\x01c\0\x01P\0\x01h\x0c\x03");
    let result = AclCreationResult { error_code: 42, error_message: Some("no".into()), ..Default::default() };
    let response = CreateAclsResponse { results: vec![result], ..Default::default() };
    check(&response, b"\0\0\0\0\0\0\0\x01\0\x2a\0\x02no");

    use delete_acls::*;
    let filter = DeleteAclsFilter {
        resource_type_filter: 1,
        principal_filter: Some("P".into()),
        operation: 1,
        permission_type: 1,
        ..Default::default()
    };
    let request = DeleteAclsRequest { filters: vec![filter], ..Default::default() };
    check(&request, b"\0\0\0\x01\x01\xff\xff\0\x01P\xff\xff\x01\x01");
    let acl = DeleteAclsMatchingAcl {
        resource_type: 3,
        resource_name: "g".into(),
        principal: "P".into(),
        host: "*".into(),
        operation: 3,
        permission_type: 3,
        ..Default::default()
    };
    let result = DeleteAclsFilterResult { matching_acls: vec![acl], ..Default::default() };
    let response = DeleteAclsResponse { filter_results: vec![result], ..Default::default() };
    check(&response, b"\0\0\0\0\0\0\0\x01\0\0\xff\xff\0\0\0\x01\0\0\xff\xff\x03\0\x01g\0\x01P\0\x01*\x03\x03");
}

#[test]
fn delegation_tokens_0() {
    use create_delegation_token::*;
    let renewer =
        || CreatableRenewers { principal_type: "User".into(), principal_name: "r".into(), ..Default::default() };
    let request = CreateDelegationTokenRequest { renewers: vec![renewer()], max_lifetime_ms: -1, ..Default::default() };
    check(&request, b"\0\0\0\x01\0\x04User\0\x01r\xff\xff\xff\xff\xff\xff\xff\xff");
    let response = CreateDelegationTokenResponse {
        principal_type: "User".into(),
        principal_name: "o".into(),
        issue_timestamp_ms: 1,
        expiry_timestamp_ms: 2,
        max_timestamp_ms: 3,
        token_id: "id".into(),
        hmac: Hidden(Bytes::from_static(b"mac")),
        throttle_time_ms: 4,
        ..Default::default()
    };
    let times = b"\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03";
    check(&response, &[&b"\0\0\0\x04User\0\x01o"[..], times, b"\0\x02id\0\0\0\x03mac\0\0\0\x04"].concat());

    let mac = || Hidden(Bytes::from_static(b"mac"));
    let renew = RenewDelegationTokenRequest { hmac: mac(), renew_period_ms: 5, ..Default::default() };
    check(&renew, b"\0\0\0\x03mac\0\0\0\0\0\0\0\x05");
    let expire = ExpireDelegationTokenRequest { hmac: mac(), expiry_time_period_ms: -1, ..Default::default() };
    check(&expire, b"\0\0\0\x03mac\xff\xff\xff\xff\xff\xff\xff\xff");
    check(
        &RenewDelegationTokenResponse { expiry_timestamp_ms: 5, throttle_time_ms: 1, ..Default::default() },
        b"\0\0\0\0\0\0\0\0\0\x05\0\0\0\x01",
    );
    check(
        &ExpireDelegationTokenResponse { error_code: 62, expiry_timestamp_ms: -1, ..Default::default() },
        b"\0\x3e\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",
    );

    use describe_delegation_token::*;
    check(&DescribeDelegationTokenRequest::default(), b"\xff\xff\xff\xff");
    let token = DescribedDelegationToken {
        principal_type: "User".into(),
        principal_name: "o".into(),
        issue_timestamp: 1,
        expiry_timestamp: 2,
        max_timestamp: 3,
        token_id: "id".into(),
        hmac: mac(),
        ..Default::default()
    };
    let response = DescribeDelegationTokenResponse { tokens: vec![token], ..Default::default() };
    let start = b"\0\0\0\0\0\x01\0\x04User\0\x01o";
    check(&response, &[&start[..], times, b"\0\x02id\0\0\0\x03mac\0\0\0\0\0\0\0\0"].concat());
}

#[test]
fn debug_output_redacts_secrets() {
    let hidden = || Hidden(Bytes::from_static(b"hunter2"));
    let upsertion = alter_user_scram_credentials::ScramCredentialUpsertion {
        name: "u".into(),
        salted_password: hidden(),
        ..Default::default()
    };
    let token = describe_delegation_token::DescribedDelegationToken { hmac: hidden(), ..Default::default() };
    for text in [
        format!("{:?}", AlterUserScramCredentialsRequest { upsertions: vec![upsertion], ..Default::default() }),
        format!("{:?}", DescribeDelegationTokenResponse { tokens: vec![token], ..Default::default() }),
        format!("{:?}", CreateDelegationTokenResponse { hmac: hidden(), ..Default::default() }),
        format!("{:?}", RenewDelegationTokenRequest { hmac: hidden(), ..Default::default() }),
        format!("{:?}", ExpireDelegationTokenRequest { hmac: hidden(), ..Default::default() }),
    ] {
        assert!(text.contains("[hidden]") && !text.contains("hunter2"), "{text}");
        // The secret must not appear as a list of byte values either.
        assert!(!text.contains("104, 117"), "{text}");
    }
}
