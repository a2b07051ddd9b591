//! DescribeUserScramCredentials, v0.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeUserScramCredentialsRequest;
use samsarrow_wire::messages::describe_user_scram_credentials::{
    CredentialInfo, DescribeUserScramCredentialsResponse, DescribeUserScramCredentialsResult,
};
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};

impl Handler for DescribeUserScramCredentialsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let access = lock(&call.state.access);
        let requested: Vec<&String> = self.users.iter().flatten().map(|user| &user.name).collect();
        let names = if requested.is_empty() { access.users.keys().collect() } else { requested };
        let failed = |user: &str, code: ErrorCode, text: String| DescribeUserScramCredentialsResult {
            user: user.to_owned(),
            error_code: code.code(),
            error_message: Some(text),
            ..DescribeUserScramCredentialsResult::default()
        };
        let describe = |name: &String| {
            if names.iter().filter(|other| **other == name).count() > 1 {
                let text =
                    format!("Cannot describe SCRAM credentials for the same user twice in a single request: {name}");
                return failed(name, ErrorCode::DUPLICATE_RESOURCE, text);
            }
            let Some(credentials) = access.users.get(name) else {
                let text = format!("Attempt to describe a user credential that does not exist: {name}");
                return failed(name, ErrorCode::RESOURCE_NOT_FOUND, text);
            };
            let info = |(mechanism, iterations): (&i8, &i32)| CredentialInfo {
                mechanism: *mechanism,
                iterations: *iterations,
                ..CredentialInfo::default()
            };
            DescribeUserScramCredentialsResult {
                user: name.clone(),
                credential_infos: credentials.iter().map(info).collect(),
                ..DescribeUserScramCredentialsResult::default()
            }
        };
        let mut results = Vec::new();
        for name in &names {
            let result = describe(name);
            if !results.contains(&result) {
                results.push(result);
            }
        }
        call.reply::<Self>(&DescribeUserScramCredentialsResponse { results, ..Default::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DescribeUserScramCredentialsResponse {
        DescribeUserScramCredentialsResponse { error_code: code.code(), ..Default::default() }
    }
}
