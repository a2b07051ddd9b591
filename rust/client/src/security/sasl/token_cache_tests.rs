//! Tests of how long tokens are valid and how connections share them.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::config::credentials::Fetching;

const REFRESH: RefreshOptions = RefreshOptions {
    window_factor: 0.8,
    window_jitter: 0.05,
    min_period: Duration::from_secs(60),
    buffer: Duration::from_secs(300),
};

#[derive(Debug)]
struct Counting {
    fetched: Arc<AtomicUsize>,
    /// Lifetime of the tokens; `None` if their expiry is unknown.
    lifetime: Option<Duration>,
    /// Number of the first fetch that fails; all later fetches fail as well.
    fails_from: usize,
    delay: Duration,
}

impl TokenSource for Counting {
    fn name(&self) -> String {
        "counting".to_owned()
    }

    fn fetch(&self) -> Fetching<'_> {
        Box::pin(async {
            let number = self.fetched.fetch_add(1, Ordering::Relaxed);
            sleep(self.delay).await;
            if number >= self.fails_from {
                return Err(Error::authentication("counting", "no more"));
            }
            let expires = self.lifetime.map(|lifetime| SystemTime::now() + lifetime);
            Token::new(format!("token{number}"), expires).map_err(Error::configuration)
        })
    }
}

fn counting(lifetime: Option<Duration>) -> (Counting, Arc<AtomicUsize>) {
    let fetched = Arc::new(AtomicUsize::new(0));
    let source =
        Counting { fetched: Arc::clone(&fetched), lifetime, fails_from: usize::MAX, delay: Duration::from_millis(20) };
    (source, fetched)
}

fn text(token: &Arc<Token>) -> &str {
    token.value.reveal()
}

#[test]
fn refresh_delay_is_a_bounded_fraction_of_lifetime() {
    let after = |life, random| refresh_after(Duration::from_secs(life), &REFRESH, random).as_secs();
    assert_eq!(after(3600, 0.0), 2880);
    assert_eq!(after(3600, 1.0), 3060);
    // The refresh is neither within the last 300 s nor within the first 60 s.
    assert_eq!(after(1000, 0.0), 700);
    assert_eq!(after(361, 0.0), 61);
    // These lifetimes are too short for both bounds, so neither applies.
    assert_eq!(after(300, 0.0), 240);
    assert_eq!(after(1, 0.0), 1);
    let early = RefreshOptions { window_factor: 0.5, buffer: Duration::ZERO, ..REFRESH };
    assert_eq!(refresh_after(Duration::from_secs(80), &early, 0.0).as_secs(), 60);
}

#[tokio::test]
async fn connections_share_one_token() {
    let (source, fetched) = counting(Some(Duration::from_secs(600)));
    let tokens = TokenCache::new(Arc::new(source), REFRESH);
    let (first, second) = tokio::join!(tokens.current(), tokens.current());
    assert_eq!((text(&first.unwrap()), text(&second.unwrap())), ("token0", "token0"));
    let third = tokens.current().await.unwrap();
    assert_eq!((text(&third), fetched.load(Ordering::Relaxed)), ("token0", 1));
    tokens.invalidate(&third);
    assert_eq!(text(&tokens.current().await.unwrap()), "token1");
    // Invalidating a token that has already been replaced has no effect.
    tokens.invalidate(&third);
    assert_eq!((text(&tokens.current().await.unwrap()), fetched.load(Ordering::Relaxed)), ("token1", 2));
}

#[tokio::test]
async fn abandoned_fetch_serves_the_next_login() {
    let (source, fetched) = counting(Some(Duration::from_secs(600)));
    let tokens = TokenCache::new(Arc::new(Counting { delay: Duration::from_millis(300), ..source }), REFRESH);
    assert!(timeout(Duration::from_millis(10), tokens.current()).await.is_err());
    assert_eq!(text(&tokens.current().await.unwrap()), "token0");
    assert_eq!(fetched.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn late_token_without_expiry_is_kept_for_one_login() {
    let (source, fetched) = counting(None);
    let tokens = TokenCache::new(Arc::new(Counting { delay: Duration::from_millis(200), ..source }), REFRESH);
    assert!(timeout(Duration::from_millis(10), tokens.current()).await.is_err());
    sleep(Duration::from_millis(400)).await;
    assert_eq!(text(&tokens.current().await.unwrap()), "token0");
    assert_eq!(fetched.load(Ordering::Relaxed), 1);
    assert_eq!(text(&tokens.current().await.unwrap()), "token1");
}

#[tokio::test]
async fn token_without_expiry_is_used_once() {
    let (source, fetched) = counting(None);
    let tokens = TokenCache::new(Arc::new(source), REFRESH);
    for expected in ["token0", "token1"] {
        assert_eq!(text(&tokens.current().await.unwrap()), expected);
    }
    assert_eq!(fetched.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn expired_token_is_an_error_and_is_not_refetched() {
    let fetched = Arc::new(AtomicUsize::new(0));
    #[derive(Debug)]
    struct Late(Arc<AtomicUsize>);
    impl TokenSource for Late {
        fn name(&self) -> String {
            "late".to_owned()
        }
        fn fetch(&self) -> Fetching<'_> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let expires = SystemTime::now() - Duration::from_secs(30);
            Box::pin(async move { Token::new("t".to_owned(), Some(expires)).map_err(Error::configuration) })
        }
    }
    let tokens = TokenCache::new(Arc::new(Late(Arc::clone(&fetched))), REFRESH);
    let error = tokens.current().await.unwrap_err();
    assert!(error.fatal() && error.to_string().contains("late: the token had ended 30 s before"), "{error}");
    // Other connections get the same error without another fetch.
    assert_eq!(tokens.current().await.unwrap_err(), error);
    sleep(FAILURE_HOLD + Duration::from_millis(100)).await;
    assert_eq!(fetched.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn refresh_task_runs_until_the_cache_is_dropped() {
    let (source, fetched) = counting(Some(Duration::from_millis(1300)));
    let tokens = TokenCache::new(Arc::new(source), REFRESH);
    assert_eq!(text(&tokens.current().await.unwrap()), "token0");
    let deadline = Instant::now() + Duration::from_secs(20);
    while fetched.load(Ordering::Relaxed) < 3 && Instant::now() < deadline {
        sleep(Duration::from_millis(50)).await;
    }
    assert!(fetched.load(Ordering::Relaxed) >= 3, "only the refresh task fetches");
    assert_ne!(text(&tokens.current().await.unwrap()), "token0");
    drop(tokens);
    let count = fetched.load(Ordering::Relaxed);
    sleep(Duration::from_millis(2500)).await;
    assert_eq!(fetched.load(Ordering::Relaxed), count);
}

#[tokio::test]
async fn unrefreshable_token_is_used_until_expiry() {
    let (source, fetched) = counting(Some(Duration::from_secs(6)));
    let tokens = TokenCache::new(Arc::new(Counting { fails_from: 1, ..source }), REFRESH);
    let first = tokens.current().await.unwrap();
    let half = RefreshOptions { window_factor: 0.5, ..REFRESH };
    assert_eq!(refresh_after(Duration::from_secs(3), &half, 0.0), Duration::from_millis(1500));
    let deadline = Instant::now() + Duration::from_secs(20);
    while fetched.load(Ordering::Relaxed) < 2 {
        assert!(Instant::now() < deadline, "the refresh task fetches another");
        sleep(Duration::from_millis(20)).await;
    }
    assert!(Arc::ptr_eq(&first, &tokens.current().await.unwrap()), "it is still valid");
    sleep(Duration::from_millis(2000)).await;
    let count = fetched.load(Ordering::Relaxed);
    sleep(Duration::from_millis(2500)).await;
    assert_eq!(fetched.load(Ordering::Relaxed), count, "no fetch without a login");
    assert!(tokens.current().await.is_err());
}
