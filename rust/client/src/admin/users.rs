//! Users that log in by SCRAM (KIP-554).

use std::collections::HashMap;
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
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::Admin;
use super::batch::{Route, Work};
use super::engine::Asked;
use super::response_errors::check;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// RFC 7677 wants no fewer, and neither do brokers.
const LEAST_ITERATIONS: u32 = 4096;
/// Brokers take up to 16384; what is beyond this no client of ours would log in with.
const MOST_ITERATIONS: u32 = 1_000_000;
const SALT: usize = 32;

/// How passwords are proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScramMechanism {
    /// One that is newer than this client.
    Unknown,
    /// SCRAM-SHA-256.
    Sha256,
    /// SCRAM-SHA-512.
    Sha512,
}

impl ScramMechanism {
    /// That of a number in the protocol.
    pub fn of(code: i8) -> Self {
        match code {
            1 => Self::Sha256,
            2 => Self::Sha512,
            _ => Self::Unknown,
        }
    }

    /// Its number in the protocol.
    pub fn code(self) -> i8 {
        match self {
            Self::Unknown => 0,
            Self::Sha256 => 1,
            Self::Sha512 => 2,
        }
    }

    /// The name that options and brokers have for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// The algorithm, and how many bytes it gives.
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

/// What brokers show of a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScramCredential {
    /// How it is proven.
    pub mechanism: ScramMechanism,
    /// How often it was hashed.
    pub iterations: i32,
}

/// A change of one user's password for one mechanism.
#[derive(Debug, Clone)]
pub struct UserAlteration {
    /// Whose.
    pub user: String,
    /// For which.
    pub mechanism: ScramMechanism,
    /// What is set; `None` deletes.
    pub password: Option<NewPassword>,
}

/// A password to set.
#[derive(Debug, Clone)]
pub struct NewPassword {
    /// The password, which never travels.
    pub password: Secret,
    /// How often it is hashed.
    pub iterations: u32,
    /// What it is hashed with; random by default.
    pub salt: Option<Vec<u8>>,
}

/// What became of each user, in the order of their first change.
pub type PerUser<T> = Vec<(String, Result<T>)>;

impl Admin {
    /// The mechanisms that users may log in by: of these users, or of all.
    ///
    /// # Errors
    /// What brokers say that is not about one user; a timeout with its cause.
    pub async fn describe_users(
        &self,
        users: Option<&[String]>,
        timeout: Duration,
    ) -> Result<PerUser<Vec<ScramCredential>>> {
        let key = ApiKey::DescribeUserScramCredentials;
        if users.is_some_and(<[String]>::is_empty) {
            return Ok(Vec::new());
        }
        let build = |_: &Asked<'_, ()>| {
            // No names stand for all users. So does null, but brokers that would refuse it do not answer it at all.
            let named = |name: &String| UserName { name: name.clone(), ..Default::default() };
            let users = Some(users.unwrap_or_default().iter().map(named).collect());
            Ok(DescribeUserScramCredentialsRequest { users, ..Default::default() })
        };
        let read = |response: DescribeUserScramCredentialsResponse| {
            check(response.error_code, response.error_message.as_deref(), key.name(), key)?;
            let one = |result: DescribeUserScramCredentialsResult| {
                let asked = format!("{} of user {}", key.name(), result.user);
                let credential = |info: CredentialInfo| ScramCredential {
                    mechanism: ScramMechanism::of(info.mechanism),
                    iterations: info.iterations,
                };
                let found = check(result.error_code, result.error_message.as_deref(), &asked, key).map(|()| {
                    let mut found: Vec<_> = result.credential_infos.into_iter().map(credential).collect();
                    found.sort();
                    found
                });
                (result.user, found)
            };
            let mut found: PerUser<_> = response.results.into_iter().map(one).collect();
            match users {
                None => found.sort_by(|(a, _), (b, _)| a.cmp(b)),
                Some(users) => {
                    let mut by_name: HashMap<String, _> = found.into_iter().collect();
                    let answer =
                        |user: &String| (user.clone(), by_name.remove(user).unwrap_or_else(|| left_out(key, user)));
                    found = users.iter().map(answer).collect();
                }
            }
            Ok(found)
        };
        self.ask(Route::Any, timeout, build, read).await
    }

    /// Sets and deletes passwords; each user has one outcome for all of its changes. Brokers take one change a user in a
    /// request: of several, those after one that fails are not tried.
    ///
    /// # Errors
    /// A change that cannot be, before anything is sent; a timeout with its cause.
    pub async fn alter_users(&self, changes: Vec<UserAlteration>, timeout: Duration) -> Result<PerUser<()>> {
        changes.iter().try_for_each(UserAlteration::check)?;
        let deadline = Instant::now() + timeout;
        let mut done: PerUser<()> = Vec::new();
        for mut round in rounds(changes)? {
            // The first round has all users.
            let failed = |user: &String| done.iter().any(|(known, outcome)| known == user && outcome.is_err());
            round.retain(|change| !failed(&change.user));
            if round.is_empty() {
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            for (user, outcome) in self.alter_once(round, left).await? {
                match done.iter_mut().find(|(known, _)| *known == user) {
                    Some((_, before)) => *before = outcome,
                    None => done.push((user, outcome)),
                }
            }
        }
        Ok(done)
    }

    /// Makes changes of as many users, each of which has an outcome.
    async fn alter_once(&self, changes: Vec<UserAlteration>, timeout: Duration) -> Result<PerUser<()>> {
        let key = ApiKey::AlterUserScramCredentials;
        let users: Vec<String> = changes.iter().map(|change| change.user.clone()).collect();
        // To hash takes milliseconds, on purpose.
        let request = spawn_blocking(move || request(changes));
        let request = request.await.map_err(|_| Error::State("hashing passwords was interrupted".into()))??;
        let build = |asked: &Asked<'_, String>| {
            let mut request = request.clone();
            request.upsertions.retain(|change| asked.items.contains(&change.name));
            request.deletions.retain(|change| asked.items.contains(&change.name));
            Ok(request)
        };
        let read = |_: &Asked<'_, String>, response: AlterUserScramCredentialsResponse| {
            let one = |result: AlterUserScramCredentialsResult| {
                let asked = format!("{} of user {}", key.name(), result.user);
                let outcome = check(result.error_code, result.error_message.as_deref(), &asked, key);
                (result.user, outcome)
            };
            Ok(response.results.into_iter().map(one).collect())
        };
        let work = Work { what: |user| format!("user {user}"), ..Work::new(Route::Controller, timeout) };
        self.settle(&work, &users, build, read).await
    }
}

/// Changes in an order in which each round has a user once.
fn rounds(changes: Vec<UserAlteration>) -> Result<Vec<Vec<UserAlteration>>> {
    let mut rounds: Vec<Vec<UserAlteration>> = Vec::new();
    let mut seen: HashMap<String, Vec<ScramMechanism>> = HashMap::new();
    for change in changes {
        let before = seen.entry(change.user.clone()).or_default();
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
    /// What no broker would find out, or only after the work is done.
    fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::configuration(format!("user {}: {what}", self.user)));
        if self.mechanism == ScramMechanism::Unknown {
            return wrong("the mechanism must be SCRAM-SHA-256 or SCRAM-SHA-512".into());
        }
        let Some(new) = &self.password else { return Ok(()) };
        if new.password.reveal().is_empty() {
            return wrong("the password is empty".into());
        }
        if new.salt.as_ref().is_some_and(Vec::is_empty) {
            return wrong("the salt is empty".into());
        }
        if !(LEAST_ITERATIONS..=MOST_ITERATIONS).contains(&new.iterations) {
            return wrong(format!(
                "{} iterations are not between {LEAST_ITERATIONS} and {MOST_ITERATIONS} (Kafka's brokers take up to \
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
    rand::fill(&mut salt).map_err(|_| Error::State("the system gives no random numbers for a salt".into()))?;
    Ok(salt)
}

/// RFC 5802's `Hi`, which is PBKDF2; as Kafka has it, without SASLprep.
fn salted(mechanism: ScramMechanism, password: &Secret, salt: &[u8], iterations: u32) -> Result<Bytes> {
    let known = mechanism.algorithm().zip(NonZeroU32::new(iterations));
    let ((algorithm, length), iterations) =
        known.ok_or_else(|| Error::configuration("a password is salted by SCRAM-SHA-256 or SCRAM-SHA-512"))?;
    let mut salted = vec![0; length];
    pbkdf2::derive(algorithm, iterations, salt, password.reveal().as_bytes(), &mut salted);
    Ok(salted.into())
}

fn left_out<T>(key: ApiKey, user: &str) -> Result<T> {
    Err(Error::protocol("a broker", format!("the answer to {} leaves out user {user}", key.name())))
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

    /// From RFC 7677's example, whose proof follows from this; the other made with Python's hashlib.
    #[test]
    fn passwords_are_salted_as_the_rfc_says() {
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
    fn salts_are_random_and_nothing_shows() {
        let made = request(vec![set("a", 4096, "hunter2", None), set("b", 4096, "hunter2", None)]).unwrap();
        let [a, b] = made.upsertions.as_slice() else { panic!("{made:?}") };
        assert_eq!((a.salt.len(), b.salt.len()), (SALT, SALT));
        assert_ne!(a.salt, b.salt);
        assert_ne!(a.salted_password, b.salted_password);
        let text = format!("{:?} {made:?}", set("a", 4096, "hunter2", None));
        assert!(!text.contains("hunter2") && text.contains("salted_password: [hidden]"), "{text}");
    }

    #[test]
    fn what_cannot_be_is_refused_before_it_is_sent() {
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
