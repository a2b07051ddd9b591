//! ACLs, SCRAM credentials and delegation tokens that clients create. They are stored and described but not enforced:
//! only users in the broker options can log in.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;

use crate::options::BrokerOptions;
use crate::security::Mechanism;

const ANY: i8 = 1;
const MATCH: i8 = 2;
const LITERAL: i8 = 3;
const PREFIXED: i8 = 4;
/// Resource name that matches all resources in a literal pattern.
const ALL: &str = "*";

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Kafka's `delegation.token.expiry.time.ms`.
const TOKEN_EXPIRY_MS: i64 = DAY_MS;
/// Kafka's `delegation.token.max.lifetime.ms`.
const TOKEN_LIFETIME_MS: i64 = 7 * DAY_MS;

/// An ACL; enum fields have the codes of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Acl {
    pub(crate) resource_type: i8,
    pub(crate) resource_name: String,
    pub(crate) pattern_type: i8,
    pub(crate) principal: String,
    pub(crate) host: String,
    pub(crate) operation: i8,
    pub(crate) permission: i8,
}

impl Acl {
    /// Returns true if the ACL has no values that only filters may have, such as the code for "any".
    pub(crate) fn is_specific(&self) -> bool {
        let vague = [self.resource_type, self.operation, self.permission].iter().any(|code| *code <= ANY);
        !vague && matches!(self.pattern_type, LITERAL | PREFIXED) && !self.resource_name.is_empty()
    }
}

/// Filter of ACLs. A field that is `None` or has the code for "any" matches all ACLs.
#[derive(Debug, Clone)]
pub(crate) struct AclFilter<'a> {
    pub(crate) resource_type: i8,
    pub(crate) resource_name: Option<&'a str>,
    pub(crate) pattern_type: i8,
    pub(crate) principal: Option<&'a str>,
    pub(crate) host: Option<&'a str>,
    pub(crate) operation: i8,
    pub(crate) permission: i8,
}

impl AclFilter<'_> {
    pub(crate) fn matches(&self, acl: &Acl) -> bool {
        let code = |expected: i8, actual: i8| expected == ANY || expected == actual;
        let text = |expected: Option<&str>, actual: &str| expected.is_none_or(|expected| expected == actual);
        code(self.resource_type, acl.resource_type)
            && code(self.operation, acl.operation)
            && code(self.permission, acl.permission)
            && text(self.principal, &acl.principal)
            && text(self.host, &acl.host)
            && self.names(acl)
    }

    fn names(&self, acl: &Acl) -> bool {
        let Some(name) = self.resource_name else {
            return matches!(self.pattern_type, ANY | MATCH) || self.pattern_type == acl.pattern_type;
        };
        match (self.pattern_type, acl.pattern_type) {
            (MATCH, LITERAL) => acl.resource_name == name || acl.resource_name == ALL,
            (MATCH, _) => name.starts_with(&acl.resource_name),
            (ANY, _) => acl.resource_name == name,
            (expected, actual) => expected == actual && acl.resource_name == name,
        }
    }
}

/// Type and name of a principal.
pub(crate) type Principal = (String, String);

/// A delegation token.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) id: String,
    pub(crate) hmac: Bytes,
    pub(crate) owner: Principal,
    pub(crate) requester: Principal,
    pub(crate) renewers: Vec<Principal>,
    pub(crate) issued: i64,
    pub(crate) expires: i64,
    pub(crate) ends: i64,
}

impl Token {
    /// Returns true if the principal may describe, renew and expire the token.
    pub(crate) fn belongs_to(&self, principal: &Principal) -> bool {
        self.owner == *principal || self.renewers.contains(principal)
    }
}

/// ACLs, SCRAM credentials and delegation tokens of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Access {
    pub(crate) acls: BTreeSet<Acl>,
    /// SCRAM iteration counts by user name and mechanism.
    pub(crate) users: BTreeMap<String, BTreeMap<i8, i32>>,
    tokens: Vec<Token>,
}

impl Access {
    /// Creates the state with SCRAM credentials for the users in the broker options.
    pub(crate) fn new(options: &BrokerOptions) -> Self {
        let security = &options.security;
        let iterations = i32::try_from(security.scram_iterations).unwrap_or(i32::MAX);
        let scram = security.mechanisms.iter().filter_map(|mechanism| match mechanism {
            Mechanism::ScramSha256 => Some((1, iterations)),
            Mechanism::ScramSha512 => Some((2, iterations)),
            _ => None,
        });
        let scram: BTreeMap<i8, i32> = scram.collect();
        let users = security.users.names().filter(|_| !scram.is_empty());
        Access { users: users.map(|name| (name.to_owned(), scram.clone())).collect(), ..Access::default() }
    }

    /// Creates a token with a maximum lifetime of `lifetime` milliseconds, but not more than 7 days. If `lifetime` is
    /// not positive, 7 days apply.
    pub(crate) fn create_token(
        &mut self,
        (owner, requester): (Principal, Principal),
        renewers: Vec<Principal>,
        lifetime: i64,
        now: i64,
    ) -> Token {
        let random = |count: usize| std::iter::repeat_with(|| fastrand::u8(..)).take(count).collect::<Vec<u8>>();
        let lifetime = if lifetime > 0 { lifetime.min(TOKEN_LIFETIME_MS) } else { TOKEN_LIFETIME_MS };
        let ends = now.saturating_add(lifetime);
        let token = Token {
            id: std::iter::repeat_with(fastrand::alphanumeric).take(22).collect(),
            hmac: random(64).into(),
            owner,
            requester,
            renewers,
            issued: now,
            expires: ends.min(now.saturating_add(TOKEN_EXPIRY_MS)),
            ends,
        };
        self.tokens.push(token.clone());
        token
    }

    /// Removes expired tokens and returns the remaining tokens.
    pub(crate) fn tokens(&mut self, now: i64) -> &[Token] {
        self.tokens.retain(|token| token.expires > now);
        &self.tokens
    }

    /// Sets the expiry of a token to `period` milliseconds from now, or to one day from now if `period` is negative.
    pub(crate) fn renew(
        &mut self,
        hmac: &Bytes,
        principal: &Principal,
        period: i64,
        now: i64,
    ) -> Result<i64, ErrorCode> {
        let token = self.token(hmac, principal, now)?;
        let period = if period < 0 { TOKEN_EXPIRY_MS } else { period };
        token.expires = token.ends.min(now.saturating_add(period));
        Ok(token.expires)
    }

    /// Sets the expiry of a token to `period` milliseconds from now. If `period` is negative, the token expires
    /// immediately.
    pub(crate) fn expire(
        &mut self,
        hmac: &Bytes,
        principal: &Principal,
        period: i64,
        now: i64,
    ) -> Result<i64, ErrorCode> {
        let token = self.token(hmac, principal, now)?;
        token.expires = if period < 0 { now } else { token.ends.min(now.saturating_add(period)) };
        Ok(token.expires)
    }

    fn token(&mut self, hmac: &Bytes, principal: &Principal, now: i64) -> Result<&mut Token, ErrorCode> {
        let matching = self.tokens.iter_mut().find(|token| token.hmac == *hmac);
        let token = matching.ok_or(ErrorCode::DELEGATION_TOKEN_NOT_FOUND)?;
        if !token.belongs_to(principal) {
            return Err(ErrorCode::DELEGATION_TOKEN_OWNER_MISMATCH);
        }
        if token.expires <= now {
            return Err(ErrorCode::DELEGATION_TOKEN_EXPIRED);
        }
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(resource_name: &str, pattern_type: i8) -> Acl {
        Acl {
            resource_type: 2,
            resource_name: resource_name.to_owned(),
            pattern_type,
            principal: "User:a".to_owned(),
            host: "*".to_owned(),
            operation: 3,
            permission: 3,
        }
    }

    #[test]
    fn filter_matches_by_pattern_type() {
        let all = [acl("pay", PREFIXED), acl("payments", LITERAL), acl("*", LITERAL), acl("other", LITERAL)];
        let matching = |pattern_type, resource_name| {
            let filter = AclFilter {
                resource_type: ANY,
                resource_name,
                pattern_type,
                principal: None,
                host: None,
                operation: ANY,
                permission: ANY,
            };
            all.iter().filter(|acl| filter.matches(acl)).map(|acl| acl.resource_name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(matching(MATCH, Some("payments")), ["pay", "payments", "*"]);
        assert_eq!(matching(ANY, Some("pay")), ["pay"]);
        assert_eq!(matching(LITERAL, Some("pay")), Vec::<&str>::new());
        assert_eq!(matching(PREFIXED, None), ["pay"]);
        assert_eq!(matching(ANY, None).len(), 4);
        assert!(!acl("", LITERAL).is_specific() && !acl("t", MATCH).is_specific() && acl("t", LITERAL).is_specific());
    }

    #[test]
    fn token_is_renewed_up_to_max_lifetime() {
        let principal = |name: &str| ("User".to_owned(), name.to_owned());
        let mut access = Access::default();
        let token = access.create_token((principal("a"), principal("a")), vec![principal("b")], 3 * DAY_MS, 0);
        assert_eq!((token.expires, token.ends), (DAY_MS, 3 * DAY_MS));
        assert_eq!(access.renew(&token.hmac, &principal("b"), 9 * DAY_MS, 5), Ok(3 * DAY_MS));
        assert_eq!(access.renew(&token.hmac, &principal("c"), 1, 5), Err(ErrorCode::DELEGATION_TOKEN_OWNER_MISMATCH));
        assert_eq!(access.renew(&Bytes::new(), &principal("a"), 1, 5), Err(ErrorCode::DELEGATION_TOKEN_NOT_FOUND));
        assert_eq!(access.expire(&token.hmac, &principal("a"), -1, 7), Ok(7));
        assert_eq!(access.renew(&token.hmac, &principal("a"), 1, 8), Err(ErrorCode::DELEGATION_TOKEN_EXPIRED));
        assert!(access.tokens(8).is_empty());
    }
}
