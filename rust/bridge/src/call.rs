//! One call of the core, for programs that wait for it and for programs that await it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use samsarrow_client::error::Result;
use tokio::task::AbortHandle;

use crate::aio;
use crate::gate;
use crate::runtime::{run, run_to_its_end, runtime};

/// Makes Python's result, on a thread that is attached. It holds no object of Python's: threads of the core drop it.
pub type Convert = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;
/// What the core's work ended in.
pub type Outcome = Result<Convert>;
type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Work that has not begun, and what Python makes of its result. It is begun once: by `wait`, or by an await, which may
/// be cancelled while the work goes on.
#[pyclass(frozen, module = "samsarrow._core")]
pub struct Call {
    work: Mutex<Option<Work>>,
    /// Called with the result; what it returns is the result then.
    then: Option<Py<PyAny>>,
    /// It goes on if the wait for it is interrupted.
    goes_on: bool,
    /// An await does none of it in the loop's own thread.
    elsewhere: bool,
    /// The work that an await has begun.
    begun: Mutex<Option<AbortHandle>>,
}

impl Call {
    /// `convert` makes Python's result of the core's.
    pub fn new<T, F, C>(work: F, convert: C) -> Self
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
        C: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    {
        let work = async move {
            let found = work.await?;
            Ok(Box::new(move |py: Python<'_>| convert(py, found)) as Convert)
        };
        Self {
            work: Mutex::new(Some(Box::pin(work))),
            then: None,
            goes_on: false,
            elsewhere: false,
            begun: Mutex::default(),
        }
    }

    /// Work without a result.
    pub fn done<F>(work: F) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        Self::new(work, |py, ()| Ok(py.None()))
    }

    /// The same call, whose work goes on in the background if a signal's handler raises.
    pub fn going_on(self) -> Self {
        Self { goes_on: true, ..self }
    }

    /// The same call, whose work takes a core for longer than a loop should wait.
    pub fn elsewhere(self) -> Self {
        Self { elsewhere: true, ..self }
    }

    fn take(&self) -> PyResult<Work> {
        let taken = self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or_else(|| PyRuntimeError::new_err("a call is made once"))
    }
}

/// The result as Python gets it.
fn finish(py: Python<'_>, convert: Convert, then: Option<&Py<PyAny>>) -> PyResult<Py<PyAny>> {
    let found = convert(py)?;
    match then {
        Some(function) => function.call1(py, (found,)),
        None => Ok(found),
    }
}

#[pymethods]
impl Call {
    /// The same call, whose result is `function(result)`.
    fn then(&self, function: Py<PyAny>) -> PyResult<Self> {
        if self.then.is_some() {
            return Err(PyRuntimeError::new_err("a call has one function that makes its result"));
        }
        let work = Mutex::new(Some(self.take()?));
        let (goes_on, elsewhere) = (self.goes_on, self.elsewhere);
        Ok(Self { work, then: Some(function), goes_on, elsewhere, begun: Mutex::default() })
    }

    /// Does it, and waits without the GIL until it is done.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let _pass = gate::enter(py);
        let work = self.take()?;
        let convert = if self.goes_on { run_to_its_end(py, work)? } else { run(py, work)? };
        finish(py, convert, self.then.as_ref())
    }

    /// Begins it at once, has a thread of the core go on with it, and awaits its end in the loop that runs here. A
    /// caller that stops waiting does not stop the work.
    fn __await__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let _pass = gate::enter(py);
        let (runtime, mut work) = (runtime(py)?, self.take()?);
        // Calls keep the order in which they are made: commits take their places in it here.
        let mut begin = || {
            let _inside = runtime.enter();
            work.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        };
        if !self.elsewhere
            && let Poll::Ready(outcome) = begin()
        {
            return aio::There::iterator(py, finish(py, aio::outcome(py, Some(outcome))?, self.then.as_ref())?);
        }
        let then = self.then.as_ref().map(|function| function.clone_ref(py));
        let take = move |py: Python<'_>, outcome| finish(py, aio::outcome(py, outcome)?, then.as_ref());
        let (ticket, iterator) = aio::wait(py, Box::new(take))?;
        let task = runtime.spawn(async move { ticket.settle(Some(work.await)) });
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.abort_handle());
        Ok(iterator)
    }

    /// Begins it on a thread of the core, and lets it go: nobody learns how it ends.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let (runtime, work) = (runtime(py)?, self.take()?);
        let task = runtime.spawn(async move { drop(work.await) });
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.abort_handle());
        Ok(())
    }

    /// Whether the work that was begun has ended.
    fn ended(&self) -> bool {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_none_or(AbortHandle::is_finished)
    }

    /// Gives up the work that was begun, if it has not ended.
    fn cancel(&self) {
        if let Some(task) = self.begun.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}
