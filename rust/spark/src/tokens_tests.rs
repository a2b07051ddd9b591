//! Tests of delegation tokens.

use std::cell::Cell;

use samsarrow_client::admin::Principal;

use super::*;
use crate::options::{ReadOptions, Reading};

fn raw(options: &[(&str, &str)]) -> RawOptions {
    let base = [("kafka.bootstrap.servers", "h:1"), ("subscribe", "t"), ("delegationtoken", "true")];
    let login = [("kafka.security_protocol", "sasl_ssl")];
    base.iter().chain(&login).chain(options).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn created(number: usize, life_ms: i64) -> DelegationToken {
    let owner: Principal = "User:alice".parse().unwrap();
    let (issued, expires) = (5_000, 5_000 + life_ms);
    let hmac = samsarrow_wire::messages::Hidden(vec![7; 4].into());
    let (token_id, renewers) = (format!("token-{number}"), Vec::new());
    DelegationToken { token_id, hmac, owner, requester: None, renewers, issued, expires, ends: i64::MAX }
}

#[test]
fn mechanism_is_checked_with_all_options() {
    let read = |options: &[(&str, &str)]| ReadOptions::parse(&raw(options), Reading::Any).map(drop);
    assert!(read(&[]).is_ok() && read(&[("delegationtokenmechanism", " scram-sha-256 ")]).is_ok());
    assert!(read(&[("delegationtoken", "false"), ("delegationtokenmechanism", "PLAIN")]).is_ok());
    for (name, value, text) in [
        ("delegationtoken", "yes", "delegationToken must be true or false, not 'yes'"),
        ("delegationtokenmechanism", "PLAIN", "must be one of SCRAM-SHA-256, SCRAM-SHA-512, not 'PLAIN'"),
        ("kafka.security_protocol", "SSL", "needs kafka.security.protocol=SASL_SSL, not SSL: tasks log in with SCRAM"),
        ("delegationtokens", "true", "did you mean delegationToken"),
    ] {
        let error = read(&[(name, value)]).unwrap_err();
        assert!(error.kind() == "configuration" && error.to_string().contains(text), "{error}");
    }
}

#[tokio::test]
async fn token_is_reused_for_three_quarters_of_its_lifetime() {
    let (cache, count) = (TokenCache::default(), Cell::new(0));
    let token = async |life_ms| {
        let create = || async {
            count.set(count.get() + 1);
            Ok(created(count.get(), life_ms))
        };
        cache.token(create).await.unwrap()
    };
    assert!(cache.is_expired());
    assert_eq!(token(4000).await.id, "token-1");
    assert_eq!(token(4000).await.hmac.reveal(), "BwcHBw==");
    assert!(!cache.is_expired());
    tokio::time::sleep(Duration::from_millis(3001)).await;
    assert!(cache.is_expired());
    assert_eq!((token(4000).await.id.as_str(), count.get()), ("token-2", 2));
}

#[tokio::test]
async fn queries_with_the_same_login_share_tokens() {
    let kafka = |options: &[(&str, &str)]| kafka_options(&raw(options), &[]).unwrap();
    let first = token_cache(&kafka(&[]));
    assert!(Arc::ptr_eq(&first, &token_cache(&kafka(&[("startingoffsets", "latest")]))));
    assert!(!Arc::ptr_eq(&first, &token_cache(&kafka(&[("kafka.sasl.username", "bob")]))));
    let nothing = token_response(&raw(&[("delegationtoken", "false")])).await.unwrap();
    assert_eq!(nothing, r#"{"token":null,"login":[]}"#);
}
