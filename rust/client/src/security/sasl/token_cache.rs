//! Tokens of one client: fetched once for all its connections, and again before they end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::config::RefreshOptions;
use crate::config::credentials::{Token, TokenSource};
use crate::error::{Error, Result};
use crate::retry::backoff::Backoff;

/// The longest that a login waits for a token: less than calls and connections have, so that errors name what is late.
/// The token is still waited for, and the next login has it.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a token that came too late for its login, and whose end nobody knows, is kept for the next one.
const SPARE: Duration = Duration::from_secs(30);
/// What failed is not tried again at once, however many connections want a token.
const HELD: Duration = Duration::from_millis(500);
/// Tokens are not fetched more often than this, however short they live.
const SHORTEST: Duration = Duration::from_secs(1);
/// Sleeps are cut, because a machine may sleep, too: the end of a token is a time of the wall clock.
const SLICE: Duration = Duration::from_secs(60);

/// How long to wait before a token that lives for `life` is replaced, by the rules of Java's client: a part of its life,
/// but neither too soon nor too late, where its life is long enough for both. `random` is from 0 to 1.
fn refresh_after(life: Duration, options: &RefreshOptions, random: f64) -> Duration {
    let part = (options.window_factor + options.window_jitter * random).clamp(0.0, 1.0);
    let wait = life.mul_f64(part);
    let wait = match life.checked_sub(options.buffer) {
        Some(latest) if options.min_period <= latest => wait.clamp(options.min_period, latest),
        _ => wait,
    };
    wait.max(SHORTEST)
}

type Fetched = Result<Arc<Token>>;

#[derive(Debug, Default)]
struct State {
    token: Option<Arc<Token>>,
    /// One for a single login.
    spare: Option<(Instant, Arc<Token>)>,
    failed: Option<(Instant, Error)>,
    /// What is being fetched, for all who want one.
    fetch: Option<watch::Receiver<Option<Fetched>>>,
    fetcher: Option<AbortHandle>,
    refresher: Option<AbortHandle>,
}

#[derive(Debug)]
struct Shared {
    source: Arc<dyn TokenSource>,
    refresh: RefreshOptions,
    state: Mutex<State>,
}

/// The token of a client, whichever of its connections wants it.
#[derive(Debug)]
pub(super) struct Tokens(Arc<Shared>);

impl Drop for Tokens {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        for task in [state.fetcher.take(), state.refresher.take()].into_iter().flatten() {
            task.abort();
        }
    }
}

impl Tokens {
    pub(super) fn new(source: Arc<dyn TokenSource>, refresh: RefreshOptions) -> Self {
        Self(Arc::new(Shared { source, refresh, state: Mutex::default() }))
    }

    /// A token that holds now: the one that is there, or a new one.
    ///
    /// # Errors
    /// Those of the source; [`Error::Connection`] where it takes too long.
    pub(super) async fn current(&self) -> Fetched {
        let fetch = {
            let mut state = self.0.lock();
            let now = SystemTime::now();
            if let Some(token) = &state.token
                && token.expires.is_none_or(|expires| expires > now)
            {
                return Ok(Arc::clone(token));
            }
            if let Some((when, token)) = state.spare.take()
                && when.elapsed() < SPARE
            {
                return Ok(token);
            }
            if let Some((when, error)) = &state.failed
                && when.elapsed() < HELD
            {
                return Err(error.clone());
            }
            self.0.begin(&mut state)
        };
        timeout(PATIENCE, self.0.result(fetch)).await.unwrap_or_else(|_| {
            Err(self.0.source.trouble().unwrap_or_else(|| {
                let reason = format!("no token within {} s; it is still waited for", PATIENCE.as_secs());
                Error::connection(self.0.source.name(), reason)
            }))
        })
    }

    /// A broker does not take it: the next login has another.
    pub(super) fn refused(&self, token: &Arc<Token>) {
        let mut state = self.0.lock();
        if state.token.as_ref().is_some_and(|current| Arc::ptr_eq(current, token)) {
            state.token = None;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fetch that is under way, or a new one. It goes on whether or not it is waited for.
    fn begin(self: &Arc<Self>, state: &mut State) -> watch::Receiver<Option<Fetched>> {
        // One whose task is gone without a result brings none.
        if let Some(fetch) = state.fetch.as_ref().filter(|fetch| fetch.has_changed().is_ok()) {
            return fetch.clone();
        }
        let (sender, receiver) = watch::channel(None);
        let shared = Arc::clone(self);
        let task = tokio::spawn(async move {
            let fetched = shared.source.fetch().await.and_then(|token| token.alive(&shared.source.name()));
            let fetched = fetched.map(Arc::new);
            shared.keep(&fetched, || sender.receiver_count() > 0);
            sender.send_replace(Some(fetched));
        });
        state.fetcher = Some(task.abort_handle());
        state.fetch = Some(receiver.clone());
        receiver
    }

    async fn result(&self, mut fetch: watch::Receiver<Option<Fetched>>) -> Fetched {
        let found = fetch.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        found.unwrap_or_else(|| Err(Error::connection(self.source.name(), "the token was given up")))
    }

    fn keep(self: &Arc<Self>, fetched: &Fetched, is_awaited: impl FnOnce() -> bool) {
        let mut state = self.lock();
        state.fetch = None;
        match fetched {
            Ok(token) => {
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

    /// The token there is, and how long it lives; without one the task that asks is over, and the next token begins
    /// another.
    fn living(&self) -> Option<(Arc<Token>, Duration)> {
        let mut state = self.lock();
        let now = SystemTime::now();
        let found = state.token.as_ref().and_then(|token| {
            let life = token.expires?.duration_since(now).ok()?;
            Some((Arc::clone(token), life))
        });
        if found.is_none() {
            (state.token, state.refresher) = (None, None);
        }
        found
    }

    /// Replaces tokens in time. Once one has ended, only logins ask for another: they wait longer from failure to failure.
    async fn keep_fresh(self: Arc<Self>) {
        let mut backoff = Backoff::new(SHORTEST, SLICE);
        while let Some((token, life)) = self.living() {
            let wait = refresh_after(life, &self.refresh, fastrand::f64());
            if !self.rest(&token, wait).await {
                continue;
            }
            loop {
                let fetch = self.begin(&mut self.lock());
                let Err(error) = self.result(fetch).await else {
                    backoff.reset();
                    break;
                };
                tracing::warn!(%error, "the token cannot be replaced, and is used as long as it holds");
                if !self.rest(&token, backoff.next_delay()).await {
                    break;
                }
            }
        }
    }

    /// Sleeps as long as `token` is the one that is used and holds; whether it slept for all of `wait`.
    async fn rest(&self, token: &Arc<Token>, wait: Duration) -> bool {
        let due = SystemTime::now() + wait;
        loop {
            let used = self.lock().token.as_ref().is_some_and(|current| Arc::ptr_eq(current, token));
            if !used || token.expires.is_some_and(|expires| expires <= SystemTime::now()) {
                return false;
            }
            match due.duration_since(SystemTime::now()) {
                Ok(left) if !left.is_zero() => sleep(left.min(SLICE)).await,
                _ => return true,
            }
        }
    }
}

#[cfg(test)]
#[path = "token_cache_tests.rs"]
mod tests;
