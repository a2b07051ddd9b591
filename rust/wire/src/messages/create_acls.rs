//! CreateAcls API: adds ACLs (KIP-140).
//!
//! v1 adds pattern types (KIP-290); v3 adds the resource type USER (KIP-373).

request! { CreateAcls = 30, versions 0..=3, flexible 2, CreateAclsRequest => CreateAclsResponse }

messages! {
    struct CreateAclsRequest {
        creations: Vec<AclCreation> => 0..;
    }

    /// An ACL to add.
    struct AclCreation {
        resource_type: i8 => 0..;
        resource_name: String => 0..;
        resource_pattern_type: i8 = 3 => 1..;
        principal: String => 0..;
        host: String => 0..;
        operation: i8 => 0..;
        permission_type: i8 => 0..;
    }

    /// The results, in the order of the request.
    struct CreateAclsResponse {
        throttle_time_ms: i32 => 0..;
        results: Vec<AclCreationResult> => 0..;
    }

    /// The result of adding one ACL.
    struct AclCreationResult {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
