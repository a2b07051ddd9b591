//! DeleteAcls, v0–v3.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DeleteAclsRequest;
use samsarrow_wire::messages::delete_acls::{
    DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse,
};

use super::{Call, Outcome, Serve};
use crate::state::access::{Acl, AclFilter};
use crate::sync::lock;

fn filter(asked: &DeleteAclsFilter) -> AclFilter<'_> {
    AclFilter {
        resource_type: asked.resource_type_filter,
        resource_name: asked.resource_name_filter.as_deref(),
        pattern_type: asked.pattern_type_filter,
        principal: asked.principal_filter.as_deref(),
        host: asked.host_filter.as_deref(),
        operation: asked.operation,
        permission: asked.permission_type,
    }
}

fn told(acl: &Acl) -> DeleteAclsMatchingAcl {
    DeleteAclsMatchingAcl {
        resource_type: acl.resource_type,
        resource_name: acl.resource_name.clone(),
        pattern_type: acl.pattern_type,
        principal: acl.principal.clone(),
        host: acl.host.clone(),
        operation: acl.operation,
        permission_type: acl.permission,
        ..DeleteAclsMatchingAcl::default()
    }
}

impl Serve for DeleteAclsRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        let mut access = lock(&call.state.access);
        // An ACL that matches several filters is reported for each of them.
        let matching = |asked: &DeleteAclsFilter| {
            let wanted = filter(asked);
            access.acls.iter().filter(|acl| wanted.matches(acl)).cloned().collect::<Vec<_>>()
        };
        let found: Vec<Vec<Acl>> = self.filters.iter().map(matching).collect();
        access.acls.retain(|acl| !found.iter().flatten().any(|gone| gone == acl));
        let result = |acls: &Vec<Acl>| DeleteAclsFilterResult {
            matching_acls: acls.iter().map(told).collect(),
            ..DeleteAclsFilterResult::default()
        };
        let filter_results = found.iter().map(result).collect();
        call.reply::<Self>(&DeleteAclsResponse { filter_results, ..DeleteAclsResponse::default() })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> DeleteAclsResponse {
        let failed = |_: &DeleteAclsFilter| DeleteAclsFilterResult { error_code: code.code(), ..Default::default() };
        let filter_results = self.filters.iter().map(failed).collect();
        DeleteAclsResponse { filter_results, ..DeleteAclsResponse::default() }
    }
}
