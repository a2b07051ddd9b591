//! Errors of the core as Python exceptions: one mapping, by the name of the class.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyString;
use samsarrow_client::error::Error;

use crate::gate;

/// The exception for an error; the classes and the choice among them live in `samsarrow.exceptions`.
pub fn to_py(py: Python<'_>, error: &Error) -> PyErr {
    let made = make(py, &error.name(), &error.to_string(), error.code(), Flags::of(error));
    match error {
        Error::Registry { url, status, .. } => {
            describe(py, &made, [("url", Some(url).into_py_any(py)), ("status", status.into_py_any(py))])
        }
        Error::SchemaIncompatible { reasons, .. } => describe(py, &made, [("reasons", reasons.into_py_any(py))]),
        _ => (),
    }
    if let Some(raised) = error.foreign().and_then(|cause| cause.0.downcast_ref::<Py<PyAny>>()) {
        made.set_cause(py, Some(PyErr::from_value(raised.bind(py).clone())));
    }
    made
}

/// Gives an exception attributes. One without them is better than none.
fn describe<const N: usize>(py: Python<'_>, made: &PyErr, attributes: [(&str, PyResult<Py<PyAny>>); N]) {
    for (name, value) in attributes {
        let _ = value.and_then(|value| made.value(py).setattr(name, value));
    }
}

/// For a handle that crossed a fork.
pub fn fork_error(py: Python<'_>, what: &str, pid: u32) -> PyErr {
    let text = format!(
        "this {what} was created in process {pid} and cannot be used in process {}: make a new one in this process",
        std::process::id()
    );
    make(py, "ForkError", &text, None, Flags { fatal: true, ..Flags::default() })
}

/// What a program can do about an error.
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
    let _pass = gate::enter(py);
    let built = py.import("samsarrow.exceptions").and_then(|module| module.getattr("error_of")).and_then(|build| {
        build.call1((class, PyString::new(py, text), code, flags.retriable, flags.fatal, flags.abortable))
    });
    match built {
        Ok(exception) => PyErr::from_value(exception),
        Err(failure) => failure,
    }
}

/// Exception objects for callbacks, which get them as values.
pub fn to_py_value(py: Python<'_>, error: &Error) -> Py<PyAny> {
    to_py(py, error).into_value(py).into_any()
}
