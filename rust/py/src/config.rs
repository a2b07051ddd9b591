//! Options as Python gives them.

use std::ffi::CString;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use samsarrow_client::config::{self, ClientKind, OptionValue, Options};
use samsarrow_client::error::{Error, class_name};
use samsarrow_wire::error_code::ErrorCode;

use crate::error::to_py;

/// Checks (name, value) pairs against the table of options.
pub(crate) fn parse(py: Python<'_>, kind: ClientKind, pairs: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Options> {
    let mut given = Vec::with_capacity(pairs.len());
    for (name, value) in pairs {
        let value = convert(&name, &value).map_err(|error| to_py(py, &error))?;
        given.push((name, value));
    }
    let options = Options::parse(kind, given).map_err(|error| to_py(py, &error))?;
    if kind != ClientKind::Producer
        && let Some(text) = options.split_offset_storage()
    {
        warn(py, &text)?;
    }
    Ok(options)
}

/// Tells whoever made the client, who is one frame above our own class.
fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let category = py.import("samsarrow.exceptions")?.getattr("OffsetStorageWarning")?;
    PyErr::warn(py, &category, &CString::new(text)?, 2)
}

fn convert(name: &str, value: &Bound<'_, PyAny>) -> Result<OptionValue, Error> {
    let bad = || {
        let kind = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        Error::configuration(format!(
            "option {name} must be text, a number, true or false, or a list of texts, not {kind}"
        ))
    };
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(OptionValue::Bool(flag.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return value.extract().map(OptionValue::Int).map_err(|_| bad());
    }
    if value.is_instance_of::<PyFloat>() {
        return value.extract().map(OptionValue::Float).map_err(|_| bad());
    }
    if value.is_instance_of::<PyString>() {
        return value.extract().map(OptionValue::Str).map_err(|_| bad());
    }
    value.extract::<Vec<String>>().map(|list| OptionValue::Str(list.join(","))).map_err(|_| bad())
}

/// The table of options as Markdown.
#[pyfunction]
pub(crate) fn options_markdown() -> String {
    config::options_markdown()
}

/// Every error of the protocol: code, name of the exception class, retriable, fatal, meaning.
#[pyfunction]
pub(crate) fn error_table() -> Vec<(i16, String, bool, bool, &'static str)> {
    let errors = ErrorCode::ALL.iter().filter(|code| !code.is_none());
    errors.map(|code| (code.code(), class_name(*code), code.retriable(), code.fatal(), code.description())).collect()
}
