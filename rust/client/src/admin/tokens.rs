//! Delegation tokens: temporary credentials with which a client can log in without its own password (KIP-48).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use samsarrow_wire::messages::create_delegation_token::CreatableRenewers;
use samsarrow_wire::messages::describe_delegation_token::{DescribeDelegationTokenOwner, DescribedDelegationToken};
use samsarrow_wire::messages::{
    ApiKey, CreateDelegationTokenRequest, CreateDelegationTokenResponse, DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse, ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, Hidden,
    RenewDelegationTokenRequest, RenewDelegationTokenResponse,
};

use super::Admin;
use super::batch::Route;
use super::engine::RequestBatch;
use super::response_errors::check;
use crate::error::{Error, Result};

/// First version of CreateDelegationToken that contains an owner (KIP-373).
const OWNERS: i16 = 3;

/// Principal of a client, as authenticated by a broker.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal {
    /// Principal type: `User`, unless brokers use a custom principal builder.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl FromStr for Principal {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once(':') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() => {
                Ok(Self { kind: kind.to_owned(), name: name.to_owned() })
            }
            _ => {
                Err(Error::configuration(format!("{text:?} is no principal: write TYPE:NAME, for example User:alice")))
            }
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.name)
    }
}

/// Delegation token. All times are in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationToken {
    /// Token id, which is the user name for a login.
    pub token_id: String,
    /// HMAC. Its base64 encoding is the password for a login.
    pub hmac: Hidden,
    /// Principal as which clients are authenticated if they log in with the token.
    pub owner: Principal,
    /// Principal that requested the token; brokers before 3.3 do not report it.
    pub requester: Option<Principal>,
    /// Principals that may renew the token in addition to its owner.
    pub renewers: Vec<Principal>,
    /// Time of creation.
    pub issued: i64,
    /// Time at which the token expires unless it is renewed.
    pub expires: i64,
    /// Latest time of expiry, even if the token is renewed.
    pub ends: i64,
}

impl Admin {
    /// Creates a token for `owner`, or for the current user if `owner` is `None`. The maximum lifetime of the token is
    /// `lifetime`, or the broker's `delegation.token.max.lifetime.ms` if `lifetime` is `None`.
    ///
    /// # Errors
    /// Fails with the error that a broker returns, or with a timeout that contains the last error. If the request was
    /// sent and no response arrived, a token may exist that the caller does not know; the error says so, and the request
    /// is not repeated.
    pub async fn create_delegation_token(
        &self,
        owner: Option<&Principal>,
        renewers: &[Principal],
        lifetime: Option<Duration>,
        timeout: Duration,
    ) -> Result<DelegationToken> {
        let key = ApiKey::CreateDelegationToken;
        // A lifetime of 0 is rejected, because brokers would ignore it and create a token with the maximum lifetime.
        if milliseconds(lifetime) == 0 {
            return Err(Error::configuration("a delegation token needs a lifetime of more than a millisecond"));
        }
        let build = |batch: &RequestBatch<'_, ()>| {
            let version = batch.version;
            if let Some(owner) = owner
                && version < OWNERS
            {
                return Err(Error::UnsupportedVersion(format!(
                    "a token for {owner}, who is not logged in here, needs Kafka 3.3 or later, and this broker is older \
                     ({} v{version}): log in as {owner}",
                    key.name()
                )));
            }
            let renewer = |principal: &Principal| CreatableRenewers {
                principal_type: principal.kind.clone(),
                principal_name: principal.name.clone(),
                ..Default::default()
            };
            Ok(CreateDelegationTokenRequest {
                owner_principal_type: owner.map(|owner| owner.kind.clone()),
                owner_principal_name: owner.map(|owner| owner.name.clone()),
                renewers: renewers.iter().map(renewer).collect(),
                max_lifetime_ms: milliseconds(lifetime),
                ..Default::default()
            })
        };
        let read = |response: CreateDelegationTokenResponse| {
            check(response.error_code, None, key.name(), key)?;
            Ok(DelegationToken {
                token_id: response.token_id,
                hmac: response.hmac,
                owner: Principal { kind: response.principal_type, name: response.principal_name },
                requester: requester(response.token_requester_principal_type, response.token_requester_principal_name),
                renewers: renewers.to_vec(),
                issued: response.issue_timestamp_ms,
                expires: response.expiry_timestamp_ms,
                ends: response.max_timestamp_ms,
            })
        };
        // One broker, because a request to any broker is sent to a second one if the first is slow. Each creates a token.
        self.send_single(Route::Controller, timeout, build, read).await
    }

    /// Renews a token, so that it expires after `period`, or after the broker's `delegation.token.expiry.time.ms` if
    /// `period` is `None`, but not after its maximum lifetime. Returns the time of expiry.
    ///
    /// # Errors
    /// Fails with the error that a broker returns, or with a timeout that contains the last error.
    pub async fn renew_delegation_token(
        &self,
        hmac: &Bytes,
        period: Option<Duration>,
        timeout: Duration,
    ) -> Result<i64> {
        let key = ApiKey::RenewDelegationToken;
        let build = |_: &RequestBatch<'_, ()>| {
            let renew_period_ms = milliseconds(period);
            Ok(RenewDelegationTokenRequest { hmac: Hidden(hmac.clone()), renew_period_ms, ..Default::default() })
        };
        let read = |response: RenewDelegationTokenResponse| {
            check(response.error_code, None, key.name(), key).map(|()| response.expiry_timestamp_ms)
        };
        self.send_single(Route::Any, timeout, build, read).await
    }

    /// Makes a token expire after `period`, or immediately if `period` is `None`. Returns the time of expiry.
    ///
    /// # Errors
    /// Fails with the error that a broker returns, or with a timeout that contains the last error.
    pub async fn expire_delegation_token(
        &self,
        hmac: &Bytes,
        period: Option<Duration>,
        timeout: Duration,
    ) -> Result<i64> {
        let key = ApiKey::ExpireDelegationToken;
        let build = |_: &RequestBatch<'_, ()>| {
            let expiry_time_period_ms = milliseconds(period);
            Ok(ExpireDelegationTokenRequest { hmac: Hidden(hmac.clone()), expiry_time_period_ms, ..Default::default() })
        };
        let read = |response: ExpireDelegationTokenResponse| {
            check(response.error_code, None, key.name(), key).map(|()| response.expiry_timestamp_ms)
        };
        self.send_single(Route::Any, timeout, build, read).await
    }

    /// Describes the tokens of `owners` or of all owners, sorted by time of creation. The list contains only tokens
    /// that the current user is allowed to describe.
    ///
    /// # Errors
    /// Fails with the error that a broker returns, or with a timeout that contains the last error.
    pub async fn describe_delegation_tokens(
        &self,
        owners: Option<&[Principal]>,
        timeout: Duration,
    ) -> Result<Vec<DelegationToken>> {
        let key = ApiKey::DescribeDelegationToken;
        let build = |_: &RequestBatch<'_, ()>| {
            let owner = |principal: &Principal| DescribeDelegationTokenOwner {
                principal_type: principal.kind.clone(),
                principal_name: principal.name.clone(),
                ..Default::default()
            };
            let owners = owners.map(|owners| owners.iter().map(owner).collect());
            Ok(DescribeDelegationTokenRequest { owners, ..Default::default() })
        };
        let read = |response: DescribeDelegationTokenResponse| {
            check(response.error_code, None, key.name(), key)?;
            let mut tokens: Vec<DelegationToken> = response.tokens.into_iter().map(token).collect();
            tokens.sort_by(|a, b| (a.issued, &a.token_id).cmp(&(b.issued, &b.token_id)));
            Ok(tokens)
        };
        self.send_single(Route::Any, timeout, build, read).await
    }
}

fn token(token: DescribedDelegationToken) -> DelegationToken {
    let renewers = token.renewers.into_iter();
    DelegationToken {
        token_id: token.token_id,
        hmac: token.hmac,
        owner: Principal { kind: token.principal_type, name: token.principal_name },
        requester: requester(token.token_requester_principal_type, token.token_requester_principal_name),
        renewers: renewers
            .map(|principal| Principal { kind: principal.principal_type, name: principal.principal_name })
            .collect(),
        issued: token.issue_timestamp,
        expires: token.expiry_timestamp,
        ends: token.max_timestamp,
    }
}

fn requester(kind: String, name: String) -> Option<Principal> {
    (!kind.is_empty()).then_some(Principal { kind, name })
}

/// Returns a duration in milliseconds. For `None`, returns −1, which stands for the broker's default or for immediate
/// expiry.
fn milliseconds(time: Option<Duration>) -> i64 {
    time.map_or(-1, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_has_a_type_and_a_name() {
        let who: Principal = "User:CN=a:b,O=c".parse().unwrap();
        assert_eq!(
            (who.kind.as_str(), who.name.as_str(), who.to_string().as_str()),
            ("User", "CN=a:b,O=c", "User:CN=a:b,O=c")
        );
        for bad in ["", "alice", ":alice", "User:"] {
            let text = bad.parse::<Principal>().unwrap_err().to_string();
            assert!(text.contains("write TYPE:NAME, for example User:alice"), "{text}");
        }
    }

    #[test]
    fn unset_durations_are_minus_one() {
        assert_eq!(milliseconds(None), -1);
        assert_eq!(milliseconds(Some(Duration::from_millis(1500))), 1500);
        assert_eq!(milliseconds(Some(Duration::MAX)), i64::MAX);
    }
}
