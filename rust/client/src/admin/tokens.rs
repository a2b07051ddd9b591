//! Delegation tokens: logins for a while, without a password (KIP-48).

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
use super::engine::Asked;
use super::response_errors::check;
use crate::error::{Error, Result};

/// From this version on tokens can be made for others (KIP-373).
const OWNERS: i16 = 3;

/// Who a broker takes a client for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal {
    /// `User`, unless brokers have a principal builder of their own.
    pub kind: String,
    /// The name.
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

/// A token. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationToken {
    /// Its name, the user of a login.
    pub token_id: String,
    /// Its secret, the password of a login once it is written as base64.
    pub hmac: Hidden,
    /// Who a client is that logs in with it.
    pub owner: Principal,
    /// Who asked for it; brokers before 3.3 do not say.
    pub requester: Option<Principal>,
    /// Who may renew it besides its owner.
    pub renewers: Vec<Principal>,
    /// When it was made.
    pub issued: i64,
    /// When it expires unless it is renewed.
    pub expires: i64,
    /// When it expires for good.
    pub ends: i64,
}

impl Admin {
    /// Makes a token, for `owner` or anyone who is logged in, that expires for good after `lifetime` or the broker's
    /// `delegation.token.max.lifetime.ms`.
    ///
    /// # Errors
    /// What brokers say; a timeout with its cause, after which a token may have been made that nobody knows.
    pub async fn create_delegation_token(
        &self,
        owner: Option<&Principal>,
        renewers: &[Principal],
        lifetime: Option<Duration>,
        timeout: Duration,
    ) -> Result<DelegationToken> {
        let key = ApiKey::CreateDelegationToken;
        // Brokers would take it for none, and make a token that lives as long as they allow.
        if milliseconds(lifetime) == 0 {
            return Err(Error::configuration("a delegation token needs a lifetime of more than a millisecond"));
        }
        let build = |asked: &Asked<'_, ()>| {
            let version = asked.version;
            if let Some(owner) = owner
                && version < OWNERS
            {
                return Err(Error::UnsupportedVersion(format!(
                    "a token for {owner}, who is not logged in here, needs Kafka 3.3 or later, and this broker is older \
                     ({} v{version}): log in as {owner}",
                    key.name()
                )));
            }
            let renewer = |who: &Principal| CreatableRenewers {
                principal_type: who.kind.clone(),
                principal_name: who.name.clone(),
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
        self.ask(Route::Any, timeout, build, read).await
    }

    /// Makes a token expire `period` from now, or after the broker's `delegation.token.expiry.time.ms`, but not after it
    /// ends. Returns when it expires.
    ///
    /// # Errors
    /// What brokers say; a timeout with its cause.
    pub async fn renew_delegation_token(
        &self,
        hmac: &Bytes,
        period: Option<Duration>,
        timeout: Duration,
    ) -> Result<i64> {
        let key = ApiKey::RenewDelegationToken;
        let build = |_: &Asked<'_, ()>| {
            let renew_period_ms = milliseconds(period);
            Ok(RenewDelegationTokenRequest { hmac: Hidden(hmac.clone()), renew_period_ms, ..Default::default() })
        };
        let read = |response: RenewDelegationTokenResponse| {
            check(response.error_code, None, key.name(), key).map(|()| response.expiry_timestamp_ms)
        };
        self.ask(Route::Any, timeout, build, read).await
    }

    /// Makes a token expire after `period`, or at once. Returns when it expires.
    ///
    /// # Errors
    /// What brokers say; a timeout with its cause.
    pub async fn expire_delegation_token(
        &self,
        hmac: &Bytes,
        period: Option<Duration>,
        timeout: Duration,
    ) -> Result<i64> {
        let key = ApiKey::ExpireDelegationToken;
        let build = |_: &Asked<'_, ()>| {
            let expiry_time_period_ms = milliseconds(period);
            Ok(ExpireDelegationTokenRequest { hmac: Hidden(hmac.clone()), expiry_time_period_ms, ..Default::default() })
        };
        let read = |response: ExpireDelegationTokenResponse| {
            check(response.error_code, None, key.name(), key).map(|()| response.expiry_timestamp_ms)
        };
        self.ask(Route::Any, timeout, build, read).await
    }

    /// The tokens of these owners, or of all, that anyone who is logged in may see; by the time that they were made.
    ///
    /// # Errors
    /// What brokers say; a timeout with its cause.
    pub async fn describe_delegation_tokens(
        &self,
        owners: Option<&[Principal]>,
        timeout: Duration,
    ) -> Result<Vec<DelegationToken>> {
        let key = ApiKey::DescribeDelegationToken;
        let build = |_: &Asked<'_, ()>| {
            let owner = |who: &Principal| DescribeDelegationTokenOwner {
                principal_type: who.kind.clone(),
                principal_name: who.name.clone(),
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
        self.ask(Route::Any, timeout, build, read).await
    }
}

fn token(said: DescribedDelegationToken) -> DelegationToken {
    let renewers = said.renewers.into_iter();
    DelegationToken {
        token_id: said.token_id,
        hmac: said.hmac,
        owner: Principal { kind: said.principal_type, name: said.principal_name },
        requester: requester(said.token_requester_principal_type, said.token_requester_principal_name),
        renewers: renewers.map(|who| Principal { kind: who.principal_type, name: who.principal_name }).collect(),
        issued: said.issue_timestamp,
        expires: said.expiry_timestamp,
        ends: said.max_timestamp,
    }
}

fn requester(kind: String, name: String) -> Option<Principal> {
    (!kind.is_empty()).then_some(Principal { kind, name })
}

/// −1 stands for none: the broker's own time, or at once where a token is to expire.
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
    fn no_time_leaves_it_to_the_broker() {
        assert_eq!(milliseconds(None), -1);
        assert_eq!(milliseconds(Some(Duration::from_millis(1500))), 1500);
        assert_eq!(milliseconds(Some(Duration::MAX)), i64::MAX);
    }
}
