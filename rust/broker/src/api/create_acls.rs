//! CreateAcls, v0–v3.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::CreateAclsRequest;
use samsarrow_wire::messages::create_acls::{AclCreation, AclCreationResult, CreateAclsResponse};
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};
use crate::state::acls_and_users::Acl;

fn creation_result(code: ErrorCode, text: Option<&str>) -> AclCreationResult {
    let error_message = text.map(str::to_owned);
    AclCreationResult { error_code: code.code(), error_message, ..AclCreationResult::default() }
}

impl Handler for CreateAclsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let mut access = lock(&call.state.access);
        let create = |requested: AclCreation| {
            let acl = Acl {
                resource_type: requested.resource_type,
                resource_name: requested.resource_name,
                pattern_type: requested.resource_pattern_type,
                principal: requested.principal,
                host: requested.host,
                operation: requested.operation,
                permission: requested.permission_type,
            };
            if !acl.is_specific() {
                return creation_result(
                    ErrorCode::INVALID_REQUEST,
                    Some("An ACL must not contain ANY, MATCH or an empty resource name."),
                );
            }
            access.acls.insert(acl);
            creation_result(ErrorCode::NONE, None)
        };
        let results = self.creations.into_iter().map(create).collect();
        call.reply::<Self>(&CreateAclsResponse { results, ..CreateAclsResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> CreateAclsResponse {
        let results = self.creations.iter().map(|_| creation_result(code, None)).collect();
        CreateAclsResponse { results, ..CreateAclsResponse::default() }
    }
}
