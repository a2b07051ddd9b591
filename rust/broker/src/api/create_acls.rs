//! CreateAcls, v0–v3.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::CreateAclsRequest;
use samsarrow_wire::messages::create_acls::{AclCreation, AclCreationResult, CreateAclsResponse};

use super::{Call, Outcome, Serve};
use crate::state::access::Acl;
use crate::sync::lock;

fn answered(code: ErrorCode, text: Option<&str>) -> AclCreationResult {
    let error_message = text.map(str::to_owned);
    AclCreationResult { error_code: code.code(), error_message, ..AclCreationResult::default() }
}

impl Serve for CreateAclsRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        let mut access = lock(&call.state.access);
        let one = |asked: AclCreation| {
            let acl = Acl {
                resource_type: asked.resource_type,
                resource_name: asked.resource_name,
                pattern_type: asked.resource_pattern_type,
                principal: asked.principal,
                host: asked.host,
                operation: asked.operation,
                permission: asked.permission_type,
            };
            if !acl.is_definite() {
                return answered(ErrorCode::INVALID_REQUEST, Some("An ACL must say one thing."));
            }
            access.acls.insert(acl);
            answered(ErrorCode::NONE, None)
        };
        let results = self.creations.into_iter().map(one).collect();
        call.reply::<Self>(&CreateAclsResponse { results, ..CreateAclsResponse::default() })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> CreateAclsResponse {
        let results = self.creations.iter().map(|_| answered(code, None)).collect();
        CreateAclsResponse { results, ..CreateAclsResponse::default() }
    }
}
