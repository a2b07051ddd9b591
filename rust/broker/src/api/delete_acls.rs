//! DeleteAcls, v0–v3.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DeleteAclsRequest;
use samsarrow_wire::messages::delete_acls::{
    DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse,
};
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};
use crate::state::acls_and_users::{Acl, AclFilter};

fn filter(requested: &DeleteAclsFilter) -> AclFilter<'_> {
    AclFilter {
        resource_type: requested.resource_type_filter,
        resource_name: requested.resource_name_filter.as_deref(),
        pattern_type: requested.pattern_type_filter,
        principal: requested.principal_filter.as_deref(),
        host: requested.host_filter.as_deref(),
        operation: requested.operation,
        permission: requested.permission_type,
    }
}

fn description(acl: &Acl) -> DeleteAclsMatchingAcl {
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

impl Handler for DeleteAclsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let mut access = lock(&call.state.access);
        // An ACL that matches several filters is reported for each of them.
        let matching = |requested: &DeleteAclsFilter| {
            let acl_filter = filter(requested);
            access.acls.iter().filter(|acl| acl_filter.matches(acl)).cloned().collect::<Vec<_>>()
        };
        let matches: Vec<Vec<Acl>> = self.filters.iter().map(matching).collect();
        access.acls.retain(|acl| !matches.iter().flatten().any(|deleted| deleted == acl));
        let result = |acls: &Vec<Acl>| DeleteAclsFilterResult {
            matching_acls: acls.iter().map(description).collect(),
            ..DeleteAclsFilterResult::default()
        };
        let filter_results = matches.iter().map(result).collect();
        call.reply::<Self>(&DeleteAclsResponse { filter_results, ..DeleteAclsResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DeleteAclsResponse {
        let failed = |_: &DeleteAclsFilter| DeleteAclsFilterResult { error_code: code.code(), ..Default::default() };
        let filter_results = self.filters.iter().map(failed).collect();
        DeleteAclsResponse { filter_results, ..DeleteAclsResponse::default() }
    }
}
