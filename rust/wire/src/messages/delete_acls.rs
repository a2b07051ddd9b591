//! DeleteAcls API: deletes all ACLs that match the filters (KIP-140).
//!
//! v1 adds pattern types (KIP-290); v3 adds the resource type USER (KIP-373).

request! { DeleteAcls = 31, versions 0..=3, flexible 2, DeleteAclsRequest => DeleteAclsResponse }

messages! {
    struct DeleteAclsRequest {
        filters: Vec<DeleteAclsFilter> => 0..;
    }

    /// A filter. A null field matches any value.
    struct DeleteAclsFilter {
        resource_type_filter: i8 => 0..;
        resource_name_filter: Option<String> => 0..;
        pattern_type_filter: i8 = 3 => 1..;
        principal_filter: Option<String> => 0..;
        host_filter: Option<String> => 0..;
        operation: i8 => 0..;
        permission_type: i8 => 0..;
    }

    /// The results, in the order of the request.
    struct DeleteAclsResponse {
        throttle_time_ms: i32 => 0..;
        filter_results: Vec<DeleteAclsFilterResult> => 0..;
    }

    /// The result for one filter, with the matching ACLs.
    struct DeleteAclsFilterResult {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        matching_acls: Vec<DeleteAclsMatchingAcl> => 0..;
    }

    /// A matching ACL, and the result of its deletion.
    struct DeleteAclsMatchingAcl {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        resource_type: i8 => 0..;
        resource_name: String => 0..;
        pattern_type: i8 = 3 => 1..;
        principal: String => 0..;
        host: String => 0..;
        operation: i8 => 0..;
        permission_type: i8 => 0..;
    }
}
