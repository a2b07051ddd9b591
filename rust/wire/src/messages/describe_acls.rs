//! DescribeAcls: the ACLs that match a filter (KIP-140).
//!
//! 1 has pattern types (KIP-290), 3 the resource type user (KIP-373).

request! { DescribeAcls = 29, versions 0..=3, flexible 2, DescribeAclsRequest => DescribeAclsResponse }

messages! {
    /// What is asked; what is null matches anything.
    struct DescribeAclsRequest {
        resource_type_filter: i8 => 0..;
        resource_name_filter: Option<String> => 0..;
        pattern_type_filter: i8 = 3 => 1..;
        principal_filter: Option<String> => 0..;
        host_filter: Option<String> => 0..;
        operation: i8 => 0..;
        permission_type: i8 => 0..;
    }

    /// What is answered.
    struct DescribeAclsResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        resources: Vec<DescribeAclsResource> => 0..;
    }

    /// A resource, or all whose names begin so.
    struct DescribeAclsResource {
        resource_type: i8 => 0..;
        resource_name: String => 0..;
        pattern_type: i8 = 3 => 1..;
        acls: Vec<AclDescription> => 0..;
    }

    /// Who may or may not do what to it, from where.
    struct AclDescription {
        principal: String => 0..;
        host: String => 0..;
        operation: i8 => 0..;
        permission_type: i8 => 0..;
    }
}
