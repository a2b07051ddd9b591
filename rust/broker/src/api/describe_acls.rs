//! DescribeAcls, v0–v3. ACLs are stored but not enforced.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeAclsRequest;
use samsarrow_wire::messages::describe_acls::{AclDescription, DescribeAclsResource, DescribeAclsResponse};
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};
use crate::state::acls_and_users::{Acl, AclFilter};

impl Handler for DescribeAclsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let filter = AclFilter {
            resource_type: self.resource_type_filter,
            resource_name: self.resource_name_filter.as_deref(),
            pattern_type: self.pattern_type_filter,
            principal: self.principal_filter.as_deref(),
            host: self.host_filter.as_deref(),
            operation: self.operation,
            permission: self.permission_type,
        };
        let access = lock(&call.state.access);
        let matching: Vec<&Acl> = access.acls.iter().filter(|acl| filter.matches(acl)).collect();
        let same = |a: &&Acl, b: &&Acl| {
            let of = |acl: &Acl| (acl.resource_type, acl.resource_name.clone(), acl.pattern_type);
            of(a) == of(b)
        };
        let resources = matching.chunk_by(same).filter_map(|acls| {
            let first = acls.first()?;
            let description = |acl: &&Acl| AclDescription {
                principal: acl.principal.clone(),
                host: acl.host.clone(),
                operation: acl.operation,
                permission_type: acl.permission,
                ..AclDescription::default()
            };
            Some(DescribeAclsResource {
                resource_type: first.resource_type,
                resource_name: first.resource_name.clone(),
                pattern_type: first.pattern_type,
                acls: acls.iter().map(description).collect(),
                ..DescribeAclsResource::default()
            })
        });
        let resources = resources.collect();
        call.reply::<Self>(&DescribeAclsResponse { resources, ..DescribeAclsResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DescribeAclsResponse {
        DescribeAclsResponse { error_code: code.code(), ..DescribeAclsResponse::default() }
    }
}
