//! Unit tests. Tests against a registry are in tests/values/test_registry.py.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn path_segments_and_uuids_are_formatted() {
    assert_eq!(percent_encode("a-b_c.d~1"), "a-b_c.d~1");
    assert_eq!(percent_encode(":.x:a/b ü"), "%3A.x%3Aa%2Fb%20%C3%BC");
    let guid = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255];
    assert_eq!(format_uuid(&guid), "00010203-0405-0607-0809-0a0b0c0d0eff");
}

#[tokio::test]
async fn request_continues_after_the_caller_stops_waiting() {
    let cache: Arc<Cache<u8, u8>> = Arc::default();
    let fetches = Arc::new(AtomicUsize::new(0));
    let get = |cache: Arc<Cache<u8, u8>>| {
        let fetches = Arc::clone(&fetches);
        async move {
            let fetch = || async move {
                fetches.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_millis(20)).await;
                Ok(7)
            };
            cache.get(1, Duration::ZERO, fetch).await
        }
    };
    let first = tokio::time::timeout(Duration::from_millis(1), get(Arc::clone(&cache))).await;
    assert!(first.is_err());
    assert_eq!(get(Arc::clone(&cache)).await.unwrap(), 7);
    assert_eq!(get(cache).await.unwrap(), 7);
    assert_eq!(fetches.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn only_missing_schemas_are_cached() {
    let cache: Cache<u8, u8> = Cache::default();
    let missing = || async { Err(Error::SchemaNotFound("x".to_owned())) };
    let outage = || async { Err(Error::connection("h:1", "refused")) };
    let ttl = Duration::from_secs(60);
    assert!(cache.get(1, ttl, missing).await.is_err());
    assert!(matches!(cache.get(1, ttl, || async { Ok(1) }).await, Err(Error::SchemaNotFound(_))));
    cache.forget_missing();
    assert_eq!(cache.get(1, ttl, || async { Ok(1) }).await.unwrap(), 1);
    assert!(cache.get(2, ttl, outage).await.is_err());
    assert_eq!(cache.get(2, ttl, || async { Ok(2) }).await.unwrap(), 2);
    assert!(cache.get(3, Duration::ZERO, missing).await.is_err());
    assert_eq!(cache.get(3, ttl, || async { Ok(3) }).await.unwrap(), 3);
}
