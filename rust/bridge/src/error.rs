//! Maps errors of the client to Python exceptions by class name.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyString;
use samsarrow_client::error::Error;

use crate::interpreter_guard;

/// Returns the exception for an error. `samsarrow.exceptions` selects the exception class.
pub fn to_py(py: Python<'_>, error: &Error) -> PyErr {
    let exception = make(py, &error.name(), &error.to_string(), error.code(), Flags::of(error));
    match error {
        Error::Registry { url, status, .. } => {
            set_attributes(py, &exception, [("url", Some(url).into_py_any(py)), ("status", status.into_py_any(py))])
        }
        Error::SchemaIncompatible { reasons, .. } => {
            set_attributes(py, &exception, [("reasons", reasons.into_py_any(py))])
        }
        _ => (),
    }
    if let Some(raised) = error.foreign().and_then(|cause| cause.0.downcast_ref::<Py<PyAny>>()) {
        exception.set_cause(py, Some(PyErr::from_value(raised.bind(py).clone())));
    }
    exception
}

/// Sets attributes of an exception. Failures are ignored, because an exception with fewer attributes is better than no
/// exception.
fn set_attributes<const N: usize>(py: Python<'_>, exception: &PyErr, attributes: [(&str, PyResult<Py<PyAny>>); N]) {
    for (name, value) in attributes {
        let _ = value.and_then(|value| exception.value(py).setattr(name, value));
    }
}

/// Returns a `ForkError` for an object that was created in process `pid`.
pub fn fork_error(py: Python<'_>, what: &str, pid: u32) -> PyErr {
    let text = format!(
        "this {what} was created in process {pid} and cannot be used in process {}: make a new one in this process",
        std::process::id()
    );
    make(py, "ForkError", &text, None, Flags { fatal: true, ..Flags::default() })
}

/// Properties of an error by which an application decides how to handle it.
#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    retriable: bool,
    abortable: bool,
    fatal: bool,
}

impl Flags {
    fn of(error: &Error) -> Self {
        Self { retriable: error.retriable(), abortable: error.abortable(), fatal: error.fatal() }
    }
}

fn make(py: Python<'_>, class: &str, text: &str, code: Option<i16>, flags: Flags) -> PyErr {
    let _guard = interpreter_guard::acquire(py);
    let built = py.import("samsarrow.exceptions").and_then(|module| module.getattr("error_of")).and_then(|build| {
        build.call1((class, PyString::new(py, text), code, flags.retriable, flags.fatal, flags.abortable))
    });
    match built {
        Ok(exception) => PyErr::from_value(exception),
        Err(failure) => failure,
    }
}

/// Returns the exception object for an error, for callbacks that receive it as an argument.
pub fn to_py_value(py: Python<'_>, error: &Error) -> Py<PyAny> {
    to_py(py, error).into_value(py).into_any()
}
