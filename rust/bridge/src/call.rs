//! Calls of the Rust client that Python can wait for or await.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use samsarrow_client::error::Result;
use samsarrow_client::sync::lock;
use tokio::task::AbortHandle;

use crate::aio;
use crate::interpreter_guard;
use crate::runtime::{run, run_to_completion, run_until, runtime};

/// Converts a result to a Python object, on an attached thread. The closure must hold no Python object, because threads
/// of the client may drop it.
pub type Convert = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;
/// Result of the client's work: a converter to a Python object, or an error.
pub type Outcome = Result<Convert>;
type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Work that has not started, and the conversion of its result. The first `wait` or await starts the work; it cannot be
/// started again. Cancelling the await does not cancel the work.
#[pyclass(frozen, module = "samsarrow._core")]
pub struct Call {
    work: Mutex<Option<Work>>,
    /// Python function that is applied to the result.
    then: Option<Py<PyAny>>,
    /// True if the work continues in the background when a signal handler raises during `wait`.
    continues: bool,
    /// True if an await runs all of the work on threads of the runtime. Otherwise it first polls the work on the
    /// calling thread.
    offloaded: bool,
    /// Time at which the call ends without a result.
    deadline: Option<Instant>,
    /// Task that an await or `start` has started.
    started: Mutex<Option<AbortHandle>>,
}

impl Call {
    /// Creates a call. `convert` turns the result of `work` into a Python object.
    pub fn new<T, F, C>(work: F, convert: C) -> Self
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
        C: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    {
        let work = async move {
            let value = work.await?;
            Ok(Box::new(move |py: Python<'_>| convert(py, value)) as Convert)
        };
        Self {
            work: Mutex::new(Some(Box::pin(work))),
            then: None,
            continues: false,
            offloaded: false,
            deadline: None,
            started: Mutex::default(),
        }
    }

    /// Creates a call that returns None.
    pub fn without_result<F>(work: F) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        Self::new(work, |py, ()| Ok(py.None()))
    }

    /// Creates a call that returns None after `limit` at the latest. The work has no limit of its own: a blocking wait
    /// then needs no timer of the runtime, whose registration would wake the thread that polls the sockets.
    pub fn at_most<F>(limit: Duration, work: F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let deadline = Instant::now().checked_add(limit);
        let work = async move {
            work.await;
            Ok(())
        };
        Self { deadline, ..Self::without_result(work) }
    }

    /// Makes the work continue in the background if a signal handler raises during `wait`.
    pub fn continue_if_interrupted(self) -> Self {
        Self { continues: true, ..self }
    }

    /// Makes an await run all of the work on threads of the runtime, because the work takes longer than an event loop
    /// may block.
    pub fn offloaded(self) -> Self {
        Self { offloaded: true, ..self }
    }

    fn take(&self) -> PyResult<Work> {
        let taken = lock(&self.work).take();
        taken.ok_or_else(|| PyRuntimeError::new_err("this call was already started"))
    }

    /// Returns the work with its deadline, for a task that can use timers of the runtime.
    fn take_timed(&self) -> PyResult<Work> {
        let work = self.take()?;
        let Some(deadline) = self.deadline else { return Ok(work) };
        Ok(Box::pin(async move {
            let limited = tokio::time::timeout_at(deadline.into(), work).await;
            limited.unwrap_or_else(|_| Ok(without_value()))
        }))
    }
}

fn without_value() -> Convert {
    Box::new(|py: Python<'_>| Ok(py.None()))
}

/// Converts the result and applies `then`.
fn finish(py: Python<'_>, convert: Convert, then: Option<&Py<PyAny>>) -> PyResult<Py<PyAny>> {
    let value = convert(py)?;
    match then {
        Some(function) => function.call1(py, (value,)),
        None => Ok(value),
    }
}

#[pymethods]
impl Call {
    /// Returns a call whose result is `function(result)`.
    fn then(&self, function: Py<PyAny>) -> PyResult<Self> {
        if self.then.is_some() {
            return Err(PyRuntimeError::new_err("this call already has a function for its result"));
        }
        let work = Mutex::new(Some(self.take()?));
        let (continues, offloaded, deadline) = (self.continues, self.offloaded, self.deadline);
        Ok(Self { work, then: Some(function), continues, offloaded, deadline, started: Mutex::default() })
    }

    /// Runs the work, and waits without the GIL until it is done.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let _guard = interpreter_guard::acquire(py);
        let convert = match self.deadline {
            _ if self.continues => run_to_completion(py, self.take_timed()?)?,
            Some(deadline) => run_until(py, deadline, self.take()?)?.unwrap_or_else(without_value),
            None => run(py, self.take()?)?,
        };
        finish(py, convert, self.then.as_ref())
    }

    /// Starts the work on this thread, continues it on a thread of the runtime, and awaits its result on the running
    /// loop. Cancelling the await does not cancel the work.
    fn __await__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let _guard = interpreter_guard::acquire(py);
        let (runtime, mut work) = (runtime(py)?, self.take_timed()?);
        // Poll the work once on this thread, so that calls take effect in the order in which they were made. For
        // example, the first poll of a commit queues the commit.
        let mut begin = || {
            let _inside = runtime.enter();
            work.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        };
        if !self.offloaded
            && let Poll::Ready(outcome) = begin()
        {
            return aio::Ready::iterator(py, finish(py, aio::converter(py, Some(outcome))?, self.then.as_ref())?);
        }
        let then = self.then.as_ref().map(|function| function.clone_ref(py));
        let take = move |py: Python<'_>, outcome| finish(py, aio::converter(py, outcome)?, then.as_ref());
        let (completion, iterator) = aio::wait(py, Box::new(take))?;
        let task = runtime.spawn(async move { completion.complete(Some(work.await)) });
        *lock(&self.started) = Some(task.abort_handle());
        Ok(iterator)
    }

    /// Starts the work on a thread of the runtime and discards its result.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let (runtime, work) = (runtime(py)?, self.take_timed()?);
        let task = runtime.spawn(async move { drop(work.await) });
        *lock(&self.started) = Some(task.abort_handle());
        Ok(())
    }

    /// Returns true if the started work has ended.
    fn ended(&self) -> bool {
        lock(&self.started).as_ref().is_none_or(AbortHandle::is_finished)
    }

    /// Cancels the started work.
    fn cancel(&self) {
        if let Some(task) = lock(&self.started).take() {
            task.abort();
        }
    }
}
