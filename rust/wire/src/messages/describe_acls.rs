//! DescribeAcls API: returns the ACLs that match a filter (KIP-140).
//!
//! v1 adds pattern types (KIP-290); v3 adds the resource type USER (KIP-373).

request! { DescribeAcls = 29, versions 0..=3, flexible 2, DescribeAclsRequest => DescribeAclsResponse }

messages! {
    /// The request. A null field matches any value.
    struct DescribeAclsRequest {
        resource_type_filter: i8 => 0..;
        resource_name_filter: Option<String> => 0..;
        pattern_type_filter: i8 = 3 => 1..;
        principal_filter: Option<String> => 0..;
        host_filter: Option<String> => 0..;
        operation: i8 => 0..;
        permission_type: i8 => 0..;
    }

    struct DescribeAclsResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        resources: Vec<DescribeAclsResource> => 0..;
    }

    /// The ACLs of one resource, or of all resources whose names have a prefix.
    struct DescribeAclsResource {
        resource_type: i8 => 0..;
        resource_name: String => 0..;
        pattern_type: i8 = 3 => 1..;
        acls: Vec<AclDescription> => 0..;
    }

    /// A principal, host and operation that are allowed or denied.
    struct AclDescription {
        principal: String => 0..;
        host: String => 0..;
        operation: i8 => 0..;
        permission_type: i8 => 0..;
    }
}
