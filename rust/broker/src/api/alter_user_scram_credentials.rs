//! AlterUserScramCredentials, v0. The changes of a user are applied together or not at all. Passwords are not stored,
//! only their iteration counts.

use std::collections::BTreeMap;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::AlterUserScramCredentialsRequest;
use samsarrow_wire::messages::alter_user_scram_credentials::{
    AlterUserScramCredentialsResponse, AlterUserScramCredentialsResult,
};
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};

/// Kafka's limits.
const ITERATIONS: std::ops::RangeInclusive<i32> = 4096..=16384;
/// SCRAM-SHA-256 and SCRAM-SHA-512.
const MECHANISMS: std::ops::RangeInclusive<i8> = 1..=2;

/// Change of a credential: the mechanism, and the iteration count of the new password or `None` to delete the
/// credential.
type Change = (i8, Option<i32>);

/// Returns the credentials of a user after the changes.
fn apply_changes(
    user: &str,
    mut credentials: BTreeMap<i8, i32>,
    changes: &[Change],
) -> Result<BTreeMap<i8, i32>, (ErrorCode, &'static str)> {
    if user.is_empty() {
        return Err((ErrorCode::UNACCEPTABLE_CREDENTIAL, "Username must not be empty"));
    }
    for (index, (mechanism, iterations)) in changes.iter().enumerate() {
        if changes.iter().skip(index + 1).any(|(other, _)| other == mechanism) {
            return Err((
                ErrorCode::DUPLICATE_RESOURCE,
                "A user credential cannot be altered twice in the same request",
            ));
        }
        if !MECHANISMS.contains(mechanism) {
            return Err((ErrorCode::UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"));
        }
        match iterations {
            Some(count) if count < ITERATIONS.start() => {
                return Err((ErrorCode::UNACCEPTABLE_CREDENTIAL, "Too few iterations"));
            }
            Some(count) if count > ITERATIONS.end() => {
                return Err((ErrorCode::UNACCEPTABLE_CREDENTIAL, "Too many iterations"));
            }
            Some(count) => drop(credentials.insert(*mechanism, *count)),
            None if credentials.remove(mechanism).is_none() => {
                return Err((ErrorCode::RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"));
            }
            None => {}
        }
    }
    Ok(credentials)
}

impl Handler for AlterUserScramCredentialsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        if call.node != call.state.controller() {
            return call.reply::<Self>(&self.error_response(call.version, ErrorCode::NOT_CONTROLLER));
        }
        let mut by_user: BTreeMap<&str, Vec<Change>> = BTreeMap::new();
        for deletion in &self.deletions {
            by_user.entry(&deletion.name).or_default().push((deletion.mechanism, None));
        }
        for upsertion in &self.upsertions {
            by_user.entry(&upsertion.name).or_default().push((upsertion.mechanism, Some(upsertion.iterations)));
        }
        let mut access = lock(&call.state.access);
        let mut results = Vec::new();
        for (user, changes) in by_user {
            let credentials = access.users.get(user).cloned().unwrap_or_default();
            let (code, text) = match apply_changes(user, credentials, &changes) {
                Ok(credentials) => {
                    access.users.remove(user);
                    if !credentials.is_empty() {
                        access.users.insert(user.to_owned(), credentials);
                    }
                    (ErrorCode::NONE, None)
                }
                Err((code, text)) => (code, Some(text.to_owned())),
            };
            results.push(AlterUserScramCredentialsResult {
                user: user.to_owned(),
                error_code: code.code(),
                error_message: text,
                ..AlterUserScramCredentialsResult::default()
            });
        }
        drop(access);
        call.reply::<Self>(&AlterUserScramCredentialsResponse { results, ..Default::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> AlterUserScramCredentialsResponse {
        let deleted = self.deletions.iter().map(|change| &change.name);
        let users: std::collections::BTreeSet<&String> =
            deleted.chain(self.upsertions.iter().map(|change| &change.name)).collect();
        let result = |user: &String| AlterUserScramCredentialsResult {
            user: user.clone(),
            error_code: code.code(),
            ..AlterUserScramCredentialsResult::default()
        };
        AlterUserScramCredentialsResponse { results: users.into_iter().map(result).collect(), ..Default::default() }
    }
}
