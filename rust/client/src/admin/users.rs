//! SCRAM credentials of users (KIP-554).

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use aws_lc_rs::{pbkdf2, rand};
use bytes::Bytes;
use samsarrow_wire::messages::alter_user_scram_credentials::{
    AlterUserScramCredentialsResult, ScramCredentialDeletion, ScramCredentialUpsertion,
};
use samsarrow_wire::messages::describe_user_scram_credentials::{
    CredentialInfo, DescribeUserScramCredentialsResult, UserName,
};
use samsarrow_wire::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, ApiKey, DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse, Hidden,
};
use tokio::time::Instant;

use super::Admin;
use super::batch::{BatchedRequest, Route};
use super::engine::RequestBatch;
use super::response_errors::check;
use crate::blocking::blocking;
use crate::collections::HashMap;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Minimum number of iterations, required by RFC 7677 and by brokers.
const MIN_ITERATIONS: u32 = 4096;
/// Maximum number of iterations, equal to the limit of this client in a SCRAM login. Brokers accept at most 16384.
const MAX_ITERATIONS: u32 = 1_000_000;
const SALT: usize = 32;

/// SCRAM mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScramMechanism {
    /// A mechanism that is newer than this client.
    Unknown,
    /// SCRAM-SHA-256.
    Sha256,
    /// SCRAM-SHA-512.
    Sha512,
}

impl ScramMechanism {
    /// Returns the mechanism with this protocol code.
    pub fn of(code: i8) -> Self {
        match code {
            1 => Self::Sha256,
            2 => Self::Sha512,
            _ => Self::Unknown,
        }
    }

    /// Returns the protocol's code.
    pub fn code(self) -> i8 {
        match self {
            Self::Unknown => 0,
            Self::Sha256 => 1,
            Self::Sha512 => 2,
        }
    }

    /// Returns the mechanism's name in options and in Kafka.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// Returns the PBKDF2 algorithm and the length of its output in bytes.
    fn algorithm(self) -> Option<(pbkdf2::Algorithm, usize)> {
        match self {
            Self::Unknown => None,
            Self::Sha256 => Some((pbkdf2::PBKDF2_HMAC_SHA256, 32)),
            Self::Sha512 => Some((pbkdf2::PBKDF2_HMAC_SHA512, 64)),
        }
    }
}

impl fmt::Display for ScramMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// SCRAM credential of a user, without the secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScramCredential {
    /// Mechanism.
    pub mechanism: ScramMechanism,
    /// Number of iterations.
    pub iterations: i32,
}

/// Change of a user's credential for one mechanism.
#[derive(Debug, Clone)]
pub struct UserAlteration {
    /// User name.
    pub user: String,
    /// Mechanism.
    pub mechanism: ScramMechanism,
    /// New password; `None` deletes the credential.
    pub password: Option<NewPassword>,
}

/// Password of a new credential.
#[derive(Debug, Clone)]
pub struct NewPassword {
    /// The password. Only its salted hash is sent to the broker.
    pub password: Secret,
    /// Number of iterations.
    pub iterations: u32,
    /// Salt; a random salt by default.
    pub salt: Option<Vec<u8>>,
}

/// Result for each user, in the order of the users' first changes.
pub type PerUser<T> = Vec<(String, Result<T>)>;

impl Admin {
    /// Describes the SCRAM credentials of some or all users. Returns a result for each user.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request, or with a timeout that contains the last error. Errors of
    /// individual users are returned in the list.
    pub async fn describe_users(
        &self,
        users: Option<&[String]>,
        timeout: Duration,
    ) -> Result<PerUser<Vec<ScramCredential>>> {
        let key = ApiKey::DescribeUserScramCredentials;
        if users.is_some_and(<[String]>::is_empty) {
            return Ok(Vec::new());
        }
        let build = |_: &RequestBatch<'_, ()>| {
            // An empty list requests all users. So does a null list, but then brokers send no response if they reject
            // the request.
            let named = |name: &String| UserName { name: name.clone(), ..Default::default() };
            let users = Some(users.unwrap_or_default().iter().map(named).collect());
            Ok(DescribeUserScramCredentialsRequest { users, ..Default::default() })
        };
        let read = |response: DescribeUserScramCredentialsResponse| {
            check(response.error_code, response.error_message.as_deref(), key.name(), key)?;
            let read_user = |result: DescribeUserScramCredentialsResult| {
                let context = format!("{} of user {}", key.name(), result.user);
                let credential = |info: CredentialInfo| ScramCredential {
                    mechanism: ScramMechanism::of(info.mechanism),
                    iterations: info.iterations,
                };
                let credentials = check(result.error_code, result.error_message.as_deref(), &context, key).map(|()| {
                    let mut credentials: Vec<_> = result.credential_infos.into_iter().map(credential).collect();
                    credentials.sort();
                    credentials
                });
                (result.user, credentials)
            };
            let mut results: PerUser<_> = response.results.into_iter().map(read_user).collect();
            match users {
                None => results.sort_by(|(a, _), (b, _)| a.cmp(b)),
                Some(users) => {
                    let mut by_name: HashMap<String, _> = results.into_iter().collect();
                    let result =
                        |user: &String| (user.clone(), by_name.remove(user).unwrap_or_else(|| missing_user(key, user)));
                    results = users.iter().map(result).collect();
                }
            }
            Ok(results)
        };
        self.send_single(Route::Any, timeout, build, read).await
    }

    /// Sets and deletes credentials. Returns one result for each user.
    ///
    /// Brokers accept only one change per user and request, so the changes of a user are sent one after another. After
    /// a failed change, the further changes of the same user are not sent.
    ///
    /// # Errors
    /// Fails before a request is sent if a change is invalid. Otherwise fails with an error that concerns the whole
    /// request, or with a timeout that contains the last error.
    pub async fn alter_users(&self, changes: Vec<UserAlteration>, timeout: Duration) -> Result<PerUser<()>> {
        changes.iter().try_for_each(UserAlteration::check)?;
        let deadline = Instant::now() + timeout;
        // In the first round, the remaining time is the caller's timeout, so that errors of this round name it.
        let mut remaining = timeout;
        let mut done: PerUser<()> = Vec::new();
        for mut round in rounds(changes)? {
            // The first round contains every user, so `done` has their order.
            let failed = |user: &String| done.iter().any(|(known, outcome)| known == user && outcome.is_err());
            round.retain(|change| !failed(&change.user));
            if round.is_empty() {
                continue;
            }
            for (user, outcome) in self.alter_once(round, remaining).await? {
                match done.iter_mut().find(|(known, _)| *known == user) {
                    Some((_, before)) => *before = outcome,
                    None => done.push((user, outcome)),
                }
            }
            remaining = deadline.saturating_duration_since(Instant::now());
        }
        Ok(done)
    }

    /// Sends changes that concern different users. Returns a result for each user.
    async fn alter_once(&self, changes: Vec<UserAlteration>, timeout: Duration) -> Result<PerUser<()>> {
        let key = ApiKey::AlterUserScramCredentials;
        let users: Vec<String> = changes.iter().map(|change| change.user.clone()).collect();
        // Hashing takes milliseconds by design, so it does not run on the runtime's threads.
        let request = blocking(move || request(changes)).await??;
        let build = |batch: &RequestBatch<'_, String>| {
            let mut request = request.clone();
            request.upsertions.retain(|change| batch.items.contains(&change.name));
            request.deletions.retain(|change| batch.items.contains(&change.name));
            Ok(request)
        };
        let read = |_: &RequestBatch<'_, String>, response: AlterUserScramCredentialsResponse| {
            let read_user = |result: AlterUserScramCredentialsResult| {
                let context = format!("{} of user {}", key.name(), result.user);
                let outcome = check(result.error_code, result.error_message.as_deref(), &context, key);
                (result.user, outcome)
            };
            Ok(response.results.into_iter().map(read_user).collect())
        };
        let request = BatchedRequest {
            describe: |user| format!("user {user}"),
            ..BatchedRequest::new(Route::Controller, timeout)
        };
        self.send_batched(&request, &users, build, read).await
    }
}

/// Groups changes into rounds that contain each user at most once.
fn rounds(changes: Vec<UserAlteration>) -> Result<Vec<Vec<UserAlteration>>> {
    let mut rounds: Vec<Vec<UserAlteration>> = Vec::new();
    let mut mechanisms: HashMap<String, Vec<ScramMechanism>> = HashMap::default();
    for change in changes {
        let before = mechanisms.entry(change.user.clone()).or_default();
        if before.contains(&change.mechanism) {
            let (user, mechanism) = (change.user, change.mechanism);
            return Err(Error::configuration(format!("user {user}: {mechanism} is changed twice in one call")));
        }
        before.push(change.mechanism);
        match rounds.get_mut(before.len() - 1) {
            Some(round) => round.push(change),
            None => rounds.push(vec![change]),
        }
    }
    Ok(rounds)
}

impl UserAlteration {
    /// Checks for errors that brokers would detect late or not at all.
    fn check(&self) -> Result<()> {
        let invalid = |reason: String| Err(Error::configuration(format!("user {}: {reason}", self.user)));
        if self.mechanism == ScramMechanism::Unknown {
            return invalid("the mechanism must be SCRAM-SHA-256 or SCRAM-SHA-512".into());
        }
        let Some(new) = &self.password else { return Ok(()) };
        if new.password.reveal().is_empty() {
            return invalid("the password is empty".into());
        }
        if new.salt.as_ref().is_some_and(Vec::is_empty) {
            return invalid("the salt is empty".into());
        }
        if !(MIN_ITERATIONS..=MAX_ITERATIONS).contains(&new.iterations) {
            return invalid(format!(
                "{} iterations are not between {MIN_ITERATIONS} and {MAX_ITERATIONS} (Kafka's brokers take up to \
                 16384)",
                new.iterations
            ));
        }
        Ok(())
    }
}

fn request(changes: Vec<UserAlteration>) -> Result<AlterUserScramCredentialsRequest> {
    let mut request = AlterUserScramCredentialsRequest::default();
    for UserAlteration { user, mechanism, password } in changes {
        let Some(new) = password else {
            let deletion = ScramCredentialDeletion { name: user, mechanism: mechanism.code(), ..Default::default() };
            request.deletions.push(deletion);
            continue;
        };
        let salt = match new.salt {
            Some(salt) => salt,
            None => random_salt()?,
        };
        request.upsertions.push(ScramCredentialUpsertion {
            salted_password: Hidden(salted(mechanism, &new.password, &salt, new.iterations)?),
            name: user,
            mechanism: mechanism.code(),
            iterations: i32::try_from(new.iterations).unwrap_or(i32::MAX),
            salt: salt.into(),
            ..Default::default()
        });
    }
    Ok(request)
}

fn random_salt() -> Result<Vec<u8>> {
    let mut salt = vec![0; SALT];
    rand::fill(&mut salt)
        .map_err(|_| Error::State("cannot create a salt: the random number generator of the system failed".into()))?;
    Ok(salt)
}

/// Computes the function `Hi` of RFC 5802, which is PBKDF2. Like in Kafka, the password is not normalized by SASLprep.
fn salted(mechanism: ScramMechanism, password: &Secret, salt: &[u8], iterations: u32) -> Result<Bytes> {
    let known = mechanism.algorithm().zip(NonZeroU32::new(iterations));
    let ((algorithm, length), iterations) =
        known.ok_or_else(|| Error::configuration("a password is salted by SCRAM-SHA-256 or SCRAM-SHA-512"))?;
    let mut salted = vec![0; length];
    pbkdf2::derive(algorithm, iterations, salt, password.reveal().as_bytes(), &mut salted);
    Ok(salted.into())
}

fn missing_user<T>(key: ApiKey, user: &str) -> Result<T> {
    Err(Error::protocol("a broker", format!("the response to {} leaves out user {user}", key.name())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(user: &str, iterations: u32, password: &str, salt: Option<&[u8]>) -> UserAlteration {
        UserAlteration {
            user: user.into(),
            mechanism: ScramMechanism::Sha256,
            password: Some(NewPassword {
                password: Secret::from(password.to_owned()),
                iterations,
                salt: salt.map(<[u8]>::to_vec),
            }),
        }
    }

    /// The SHA-256 value belongs to the example of RFC 7677, whose proof follows from it. The SHA-512 value was
    /// computed with Python's hashlib.
    #[test]
    fn salted_password_matches_rfc_7677() {
        let salt = [0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa, 0x81];
        let hex = |bytes: Bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let pencil = Secret::from("pencil".to_owned());
        let sha256 = salted(ScramMechanism::Sha256, &pencil, &salt, 4096).unwrap();
        assert_eq!(hex(sha256), "c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d");
        let sha512 = salted(ScramMechanism::Sha512, &pencil, &salt, 4096).unwrap();
        assert_eq!(
            hex(sha512),
            "f16efe1be67f1d09502ebd5ed9262fddffba5a377ab4f0b687e5ed5ba0f50686b8a4ae166476da8ab3b951d2fa9238b63998f45461bc33a464814949cec9631d"
        );
    }

    #[test]
    fn salts_are_random_and_debug_output_is_redacted() {
        let made = request(vec![set("a", 4096, "hunter2", None), set("b", 4096, "hunter2", None)]).unwrap();
        let [a, b] = made.upsertions.as_slice() else { panic!("{made:?}") };
        assert_eq!((a.salt.len(), b.salt.len()), (SALT, SALT));
        assert_ne!(a.salt, b.salt);
        assert_ne!(a.salted_password, b.salted_password);
        let text = format!("{:?} {made:?}", set("a", 4096, "hunter2", None));
        assert!(!text.contains("hunter2") && text.contains("salted_password: [hidden]"), "{text}");
    }

    #[test]
    fn invalid_alterations_are_rejected() {
        let text = |change: UserAlteration| change.check().unwrap_err().to_string();
        assert_eq!(text(set("u", 4096, "", None)), "user u: the password is empty");
        assert_eq!(text(set("u", 4096, "p", Some(b""))), "user u: the salt is empty");
        for few in [0, 1, 4095, 1_000_001, u32::MAX] {
            assert!(text(set("u", few, "p", None)).contains("are not between 4096 and 1000000"));
        }
        let unknown = UserAlteration { user: "u".into(), mechanism: ScramMechanism::Unknown, password: None };
        assert!(text(unknown).contains("must be SCRAM-SHA-256 or SCRAM-SHA-512"));
        assert_eq!(set("u", 4096, "p", None).check(), Ok(()));
        let twice = rounds(vec![set("u", 4096, "p", None), set("v", 4096, "p", None), set("u", 8192, "p", None)]);
        assert_eq!(twice.unwrap_err().to_string(), "user u: SCRAM-SHA-256 is changed twice in one call");
    }
}
