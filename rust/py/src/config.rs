//! Conversion of client options from Python.

use std::ffi::CString;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyList, PyString, PyTuple};
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::interpreter_guard;
use samsarrow_client::config::{self, ClientKind, Kind, OPTIONS, OptionSpec, OptionValue, Options};
use samsarrow_client::error::{Error, class_name};
use samsarrow_wire::error_code::ErrorCode;

use crate::{metrics, token_provider};

/// Parses (name, value) pairs according to the table of options.
pub(crate) fn parse(py: Python<'_>, kind: ClientKind, pairs: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Options> {
    parse_with(py, kind, pairs, |values| Ok((Options::parse(kind, values)?, ()))).map(|(options, ())| options)
}

/// Like [`parse`], but passes the converted pairs to `parse_pairs`.
pub(crate) fn parse_with<T>(
    py: Python<'_>,
    kind: ClientKind,
    pairs: Vec<(String, Bound<'_, PyAny>)>,
    parse_pairs: impl FnOnce(Vec<(String, OptionValue)>) -> Result<(Options, T), Error>,
) -> PyResult<(Options, T)> {
    let _guard = interpreter_guard::acquire(py);
    let mut values = Vec::with_capacity(pairs.len());
    let mut provider = None;
    let mut observer = None;
    for (name, value) in pairs {
        if value.is_none() {
            values.push((name, OptionValue::Default));
            continue;
        }
        if let Some(on_event) = metrics::observer_from_option(py, &name, &value)? {
            observer = Some(on_event);
            continue;
        }
        let value = match token_provider::from_option(&name, &value)? {
            Some((object, text)) => {
                provider = Some(object);
                text
            }
            None => value,
        };
        // An invalid name is reported before an invalid value, because options of other kinds of clients may have
        // values of other types, such as functions.
        let value = convert(&name, &value).map_err(|error| config::check_name(kind, &name).err().unwrap_or(error));
        values.push((name, value.map_err(|error| to_py(py, &error))?));
    }
    let (mut options, more) = parse_pairs(values).map_err(|error| to_py(py, &error))?;
    if let Some(sasl) = &mut options.common.security.sasl {
        token_provider::provide(py, sasl, provider)?;
    }
    options.common.metrics.observer = observer;
    for remark in options.remarks() {
        // Use Python's `logging` directly, because the log queue only starts with the first client.
        let logger = py.import("logging")?.call_method1("getLogger", ("samsarrow.config",))?;
        logger.call_method1("warning", (remark,))?;
    }
    if kind != ClientKind::Producer
        && let Some(text) = options.split_offset_storage()
    {
        warn(py, &text)?;
    }
    Ok((options, more))
}

/// Emits a warning that refers to the code that created the client, which is one frame above the Python class.
fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let category = py.import("samsarrow.exceptions")?.getattr("OffsetStorageWarning")?;
    PyErr::warn(py, &category, &CString::new(text)?, 2)
}

/// Converts the value of an option from Python.
pub(crate) fn convert(name: &str, value: &Bound<'_, PyAny>) -> Result<OptionValue, Error> {
    let wrong_type = || {
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
    // The conversion also accepts NumPy integers, through `__index__`.
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
        return value.extract().map(OptionValue::Float).map_err(|_| wrong_type());
    }
    if value.is_instance_of::<PyString>() {
        return value.extract().map(OptionValue::Str).map_err(|_| wrong_type());
    }
    if let Some(length) = micros(value).map_err(|_| wrong_type())? {
        return Ok(OptionValue::Micros(length));
    }
    // Convert other NumPy numbers and booleans to Python's types first.
    if value.hasattr("dtype").unwrap_or(false)
        && let Ok(plain) = value.call_method0("item")
        && !plain.hasattr("dtype").unwrap_or(true)
    {
        return convert(name, &plain);
    }
    value.extract::<Vec<String>>().map(|list| OptionValue::Str(list.join(","))).map_err(|_| {
        let is_list = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
        let other = value.try_iter().ok().filter(|_| is_list);
        let other =
            other.and_then(|mut items| items.find_map(|item| item.ok().filter(|i| !i.is_instance_of::<PyString>())));
        match other.and_then(|item| item.get_type().name().ok()) {
            Some(kind) => {
                Error::configuration(format!("option {name} must be a list of texts, and has an item of type {kind}"))
            }
            None => wrong_type(),
        }
    })
}

/// Returns the microseconds of a `datetime.timedelta`, or None for any other object.
fn micros(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    let class = value.py().import("datetime")?.getattr("timedelta")?;
    if !value.is_instance(&class)? {
        return Ok(None);
    }
    let unit = class.call1((0, 0, 1))?;
    value.call_method1("__floordiv__", (unit,))?.extract().map(Some)
}

/// Returns the table of options as Markdown.
#[pyfunction]
pub(crate) fn options_markdown() -> String {
    config::options_markdown()
}

/// Returns for each option its name, its aliases, its kind (`secret`, `path` or `plain`), and the clients that support
/// it.
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

/// Returns for each option its name, its types or permitted values, and its description.
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

/// Returns the names and values in a properties file, in the order of the file.
#[pyfunction]
pub(crate) fn properties(py: Python<'_>, text: &str) -> PyResult<Vec<(String, String)>> {
    let read = config::properties(text).map_err(|error| to_py(py, &Error::configuration(error)))?;
    Ok(read.into_iter().map(|(name, value)| (name, value.reveal().to_owned())).collect())
}

/// Error code, name of the exception class, true if retriable, true if fatal, description, and Kafka's name of the
/// error.
type ErrorRow = (i16, String, bool, bool, &'static str, &'static str);

/// Returns all error codes of the protocol except `NONE`.
#[pyfunction]
pub(crate) fn error_table() -> Vec<ErrorRow> {
    let errors = ErrorCode::ALL.iter().filter(|code| !code.is_none());
    let row = |code: &ErrorCode| {
        (code.code(), class_name(*code), code.retriable(), code.fatal(), code.description(), code.name())
    };
    errors.map(row).collect()
}
