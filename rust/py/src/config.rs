//! Options as Python gives them.

use std::ffi::CString;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyString};
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::gate;
use samsarrow_client::config::{self, ClientKind, Kind, OPTIONS, OptionSpec, OptionValue, Options};
use samsarrow_client::error::{Error, class_name};
use samsarrow_wire::error_code::ErrorCode;

use crate::{aws, metrics, tokens};

/// Checks (name, value) pairs against the table of options.
pub(crate) fn parse(py: Python<'_>, kind: ClientKind, pairs: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Options> {
    let _pass = gate::enter(py);
    let mut given = Vec::with_capacity(pairs.len());
    let mut provider = None;
    let mut observer = None;
    for (name, value) in pairs {
        if value.is_none() {
            given.push((name, OptionValue::Default));
            continue;
        }
        if let Some(found) = metrics::of_option(py, &name, &value)? {
            observer = Some(found);
            continue;
        }
        let value = match tokens::of_option(&name, &value)? {
            Some((object, shown)) => {
                provider = Some(object);
                shown
            }
            None => value,
        };
        let value = convert(&name, &value).map_err(|error| to_py(py, &error))?;
        given.push((name, value));
    }
    let mut options = Options::parse(kind, given).map_err(|error| to_py(py, &error))?;
    if let Some(sasl) = &mut options.common.security.sasl {
        tokens::provide(py, sasl, provider)?;
        aws::provide(py, sasl)?;
    }
    options.common.metrics.observer = observer;
    for remark in options.remarks() {
        // Not by way of the core's lane, which the first client starts later than this.
        let logger = py.import("logging")?.call_method1("getLogger", ("samsarrow.config",))?;
        logger.call_method1("warning", (remark,))?;
    }
    if kind != ClientKind::Producer
        && let Some(text) = options.split_offset_storage()
    {
        warn(py, &text)?;
    }
    Ok(options)
}

/// Warns the caller that made the client, which is one frame above our own class.
fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let category = py.import("samsarrow.exceptions")?.getattr("OffsetStorageWarning")?;
    PyErr::warn(py, &category, &CString::new(text)?, 2)
}

/// A value as the core takes it.
pub(crate) fn convert(name: &str, value: &Bound<'_, PyAny>) -> Result<OptionValue, Error> {
    let bad = || {
        let kind = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        Error::configuration(format!(
            "option {name} must be text, a number, true or false, a timedelta, or a list of texts, not {kind}"
        ))
    };
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(OptionValue::Bool(flag.is_true()));
    }
    if value.is_none() {
        return Ok(OptionValue::Default);
    }
    // Also integers of NumPy, by `__index__`.
    if !value.is_instance_of::<PyFloat>() && !value.is_instance_of::<PyString>() {
        match value.extract() {
            Ok(number) => return Ok(OptionValue::Int(number)),
            Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => {
                return Err(Error::configuration(format!("option {name} is out of range: {value}")));
            }
            Err(_) => (),
        }
    }
    if value.is_instance_of::<PyFloat>() {
        return value.extract().map(OptionValue::Float).map_err(|_| bad());
    }
    if value.is_instance_of::<PyString>() {
        return value.extract().map(OptionValue::Str).map_err(|_| bad());
    }
    if let Some(length) = micros(value).map_err(|_| bad())? {
        return Ok(OptionValue::Micros(length));
    }
    // Other numbers of NumPy, and its truth values, as those of Python.
    if value.hasattr("dtype").unwrap_or(false)
        && let Ok(plain) = value.call_method0("item")
        && !plain.hasattr("dtype").unwrap_or(true)
    {
        return convert(name, &plain);
    }
    value.extract::<Vec<String>>().map(|list| OptionValue::Str(list.join(","))).map_err(|_| bad())
}

/// Returns the microseconds of a `datetime.timedelta`; None for anything else.
fn micros(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    let class = value.py().import("datetime")?.getattr("timedelta")?;
    if !value.is_instance(&class)? {
        return Ok(None);
    }
    let unit = class.call1((0, 0, 1))?;
    value.call_method1("__floordiv__", (unit,))?.extract().map(Some)
}

/// The table of options as Markdown.
#[pyfunction]
pub(crate) fn options_markdown() -> String {
    config::options_markdown()
}

/// Every option: name, other names, whether it is a `secret`, a `path` or `plain`, and the clients that have it.
#[pyfunction]
pub(crate) fn option_table() -> Vec<(&'static str, Vec<&'static str>, &'static str, Vec<String>)> {
    let kind = |spec: &OptionSpec| match spec.kind {
        Kind::Secret => "secret",
        Kind::Path => "path",
        _ => "plain",
    };
    let clients = |spec: &OptionSpec| spec.clients.iter().map(|client| format!("{client:?}").to_lowercase()).collect();
    OPTIONS.iter().map(|spec| (spec.name, spec.aliases.to_vec(), kind(spec), clients(spec))).collect()
}

/// What values each option takes, which is the name of a type or the words that may be said, and what it means.
#[pyfunction]
pub(crate) fn option_types() -> Vec<(&'static str, Vec<&'static str>, &'static str)> {
    let types = |spec: &OptionSpec| match spec.kind {
        Kind::Text => vec!["str"],
        Kind::Secret => vec!["secret"],
        Kind::Path => vec!["path"],
        Kind::List => vec!["list"],
        Kind::Bool => vec!["bool"],
        Kind::Int(..) => vec!["int"],
        Kind::Millis(..) | Kind::Seconds(..) => vec!["duration"],
        Kind::Float(..) => vec!["float"],
        Kind::Choice(words) => words.to_vec(),
    };
    OPTIONS.iter().map(|spec| (spec.name, types(spec), spec.doc)).collect()
}

/// Names and values of a properties file, in its order.
#[pyfunction]
pub(crate) fn properties(py: Python<'_>, text: &str) -> PyResult<Vec<(String, String)>> {
    let read = config::properties(text).map_err(|error| to_py(py, &Error::configuration(error)))?;
    Ok(read.into_iter().map(|(name, value)| (name, value.reveal().to_owned())).collect())
}

/// Code, name of the exception class, retriable, fatal, meaning, Kafka's name.
type ErrorRow = (i16, String, bool, bool, &'static str, &'static str);

/// Every error of the protocol.
#[pyfunction]
pub(crate) fn error_table() -> Vec<ErrorRow> {
    let errors = ErrorCode::ALL.iter().filter(|code| !code.is_none());
    let row = |code: &ErrorCode| {
        (code.code(), class_name(*code), code.retriable(), code.fatal(), code.description(), code.name())
    };
    errors.map(row).collect()
}
