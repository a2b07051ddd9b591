//! Token cache of a client. Tokens are fetched once for all connections and refreshed before they expire.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use samsarrow_wire::sync::lock;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::config::RefreshOptions;
use crate::config::credentials::{Token, TokenSource};
use crate::error::{Error, Result};
use crate::retry::backoff::Backoff;

/// Maximum time for which a login waits for a token. It is shorter than the timeouts of calls and connections, so that
/// errors name the token source as the cause. The fetch continues, and the next login uses its token.
const LOGIN_WAIT: Duration = Duration::from_secs(2);
/// Time for which a token without a known expiry is kept for the next login if the login that requested the token
/// stopped waiting.
const SPARE_LIFETIME: Duration = Duration::from_secs(30);
/// Time after a failed fetch during which all logins get its error without another fetch.
const FAILURE_HOLD: Duration = Duration::from_millis(500);
/// Minimum interval between fetches, even if the lifetime of the tokens is shorter.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum duration of a single sleep. Tokens expire by the wall clock, which differs from the time slept if the
/// machine is suspended.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// Returns the delay before a token with this lifetime is refreshed, by the rules of Java's client: a fraction of the
/// lifetime, bounded by `min_period` and `buffer` if the lifetime is long enough for both. `random` is in 0..=1.
fn refresh_after(lifetime: Duration, options: &RefreshOptions, random: f64) -> Duration {
    let fraction = (options.window_factor + options.window_jitter * random).clamp(0.0, 1.0);
    let wait = lifetime.mul_f64(fraction);
    let wait = match lifetime.checked_sub(options.buffer) {
        Some(latest) if options.min_period <= latest => wait.clamp(options.min_period, latest),
        _ => wait,
    };
    wait.max(MIN_INTERVAL)
}

type FetchResult = Result<Arc<Token>>;

#[derive(Debug, Default)]
struct State {
    token: Option<Arc<Token>>,
    /// Token without a known expiry, for a single login, and the time at which it arrived.
    spare: Option<(Instant, Arc<Token>)>,
    failed: Option<(Instant, Error)>,
    /// The fetch in progress, which all waiting logins share.
    fetch: Option<watch::Receiver<Option<FetchResult>>>,
    fetcher: Option<AbortHandle>,
    refresher: Option<AbortHandle>,
}

#[derive(Debug)]
struct Shared {
    source: Arc<dyn TokenSource>,
    refresh: RefreshOptions,
    state: Mutex<State>,
}

/// The token of a client, which all its connections share.
#[derive(Debug)]
pub(super) struct TokenCache(Arc<Shared>);

impl Drop for TokenCache {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        for task in [state.fetcher.take(), state.refresher.take()].into_iter().flatten() {
            task.abort();
        }
    }
}

impl TokenCache {
    pub(super) fn new(source: Arc<dyn TokenSource>, refresh: RefreshOptions) -> Self {
        Self(Arc::new(Shared { source, refresh, state: Mutex::default() }))
    }

    /// Returns the cached token, or a new token if the cached token is missing or has expired.
    ///
    /// # Errors
    /// Fails if the source fails to fetch a token, and with [`Error::Connection`] if the fetch takes too long.
    pub(super) async fn current(&self) -> FetchResult {
        let fetch = {
            let mut state = lock(&self.0.state);
            let now = SystemTime::now();
            if let Some(token) = &state.token
                && token.expires.is_none_or(|expires| expires > now)
            {
                return Ok(Arc::clone(token));
            }
            if let Some((when, token)) = state.spare.take()
                && when.elapsed() < SPARE_LIFETIME
            {
                return Ok(token);
            }
            if let Some((when, error)) = &state.failed
                && when.elapsed() < FAILURE_HOLD
            {
                return Err(error.clone());
            }
            self.0.start_fetch(&mut state)
        };
        timeout(LOGIN_WAIT, self.0.wait_for_fetch(fetch)).await.unwrap_or_else(|_| {
            Err(self.0.source.last_error().unwrap_or_else(|| {
                let reason = format!("no token within {} s; the request continues", LOGIN_WAIT.as_secs());
                Error::connection(self.0.source.name(), reason)
            }))
        })
    }

    /// Discards a token that a broker rejected, so that the next login fetches a new token.
    pub(super) fn invalidate(&self, token: &Arc<Token>) {
        let mut state = lock(&self.0.state);
        if state.token.as_ref().is_some_and(|current| Arc::ptr_eq(current, token)) {
            state.token = None;
        }
    }
}

impl Shared {
    /// Returns the fetch in progress, or starts a fetch. A fetch runs to its end even if no login waits for it.
    fn start_fetch(self: &Arc<Self>, state: &mut State) -> watch::Receiver<Option<FetchResult>> {
        // A fetch is not in progress if its task ended without a result.
        if let Some(fetch) = state.fetch.as_ref().filter(|fetch| fetch.has_changed().is_ok()) {
            return fetch.clone();
        }
        let (sender, receiver) = watch::channel(None);
        let shared = Arc::clone(self);
        let task = tokio::spawn(async move {
            let result = shared.source.fetch().await.and_then(|token| token.check_expiry(&shared.source.name()));
            let result = result.map(Arc::new);
            shared.store(&result, || sender.receiver_count() > 0);
            sender.send_replace(Some(result));
        });
        state.fetcher = Some(task.abort_handle());
        state.fetch = Some(receiver.clone());
        receiver
    }

    async fn wait_for_fetch(&self, mut fetch: watch::Receiver<Option<FetchResult>>) -> FetchResult {
        let result = fetch.wait_for(Option::is_some).await.ok().and_then(|result| result.clone());
        result.unwrap_or_else(|| Err(Error::connection(self.source.name(), "the token request was cancelled")))
    }

    fn store(self: &Arc<Self>, result: &FetchResult, is_awaited: impl FnOnce() -> bool) {
        let mut state = lock(&self.state);
        state.fetch = None;
        match result {
            Ok(token) => {
                tracing::debug!("a token was obtained from {}", self.source.name());
                state.failed = None;
                if token.expires.is_some() {
                    state.token = Some(Arc::clone(token));
                    if state.refresher.is_none() {
                        state.refresher = Some(tokio::spawn(Arc::clone(self).keep_fresh()).abort_handle());
                    }
                } else if !is_awaited() {
                    state.spare = Some((Instant::now(), Arc::clone(token)));
                }
            }
            Err(error) => state.failed = Some((Instant::now(), error.clone())),
        }
    }

    /// Returns the current token and its remaining lifetime. If no token is valid, the refresh task ends, and a new
    /// task starts with the next token.
    fn current_with_lifetime(&self) -> Option<(Arc<Token>, Duration)> {
        let mut state = lock(&self.state);
        let now = SystemTime::now();
        let result = state.token.as_ref().and_then(|token| {
            let lifetime = token.expires?.duration_since(now).ok()?;
            Some((Arc::clone(token), lifetime))
        });
        if result.is_none() {
            (state.token, state.refresher) = (None, None);
        }
        result
    }

    /// Refreshes tokens before they expire, and retries with exponential backoff. After a token has expired, a new
    /// token is fetched only by the next login.
    async fn keep_fresh(self: Arc<Self>) {
        let mut backoff = Backoff::new(MIN_INTERVAL, MAX_SLEEP);
        while let Some((token, lifetime)) = self.current_with_lifetime() {
            let wait = refresh_after(lifetime, &self.refresh, fastrand::f64());
            if !self.sleep_while_current(&token, wait).await {
                continue;
            }
            loop {
                let fetch = self.start_fetch(&mut lock(&self.state));
                let Err(error) = self.wait_for_fetch(fetch).await else {
                    backoff.reset();
                    break;
                };
                tracing::warn!("the token cannot be refreshed, and is used until it expires: {error}");
                if !self.sleep_while_current(&token, backoff.next_delay()).await {
                    break;
                }
            }
        }
    }

    /// Sleeps for `wait`. Returns false, before `wait` has passed, if `token` is replaced or expires.
    async fn sleep_while_current(&self, token: &Arc<Token>, wait: Duration) -> bool {
        let due = SystemTime::now() + wait;
        loop {
            let used = lock(&self.state).token.as_ref().is_some_and(|current| Arc::ptr_eq(current, token));
            if !used || token.expires.is_some_and(|expires| expires <= SystemTime::now()) {
                return false;
            }
            match due.duration_since(SystemTime::now()) {
                Ok(remaining) if !remaining.is_zero() => sleep(remaining.min(MAX_SLEEP)).await,
                _ => return true,
            }
        }
    }
}

#[cfg(test)]
#[path = "token_cache_tests.rs"]
mod tests;
