//! Output of rows as text, for the command line.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use samsarrow_arrow::text_format::{LineFormat, Template, render};
use samsarrow_bridge::arrow_ffi;
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::interpreter_guard;
use samsarrow_client::error::Error;

/// Writer that converts batches to text in one format.
#[pyclass(frozen, module = "samsarrow._core")]
#[derive(Debug)]
pub(crate) struct TextWriter {
    format: LineFormat,
}

#[pymethods]
impl TextWriter {
    /// Creates a writer. `form` is `value`, `raw`, `ndjson`, `json` or `envelope`. If a template is given, it is used
    /// instead.
    #[new]
    #[pyo3(signature = (form, template))]
    fn new(py: Python<'_>, form: &str, template: Option<&str>) -> PyResult<Self> {
        let config_error = |text: String| to_py(py, &Error::configuration(text));
        let format = match template {
            Some(text) => LineFormat::Template(Template::parse(text).map_err(|error| config_error(error.to_string()))?),
            None => {
                LineFormat::from_name(form).ok_or_else(|| config_error(format!("unknown output format {form:?}")))?
            }
        };
        Ok(Self { format })
    }

    /// Returns true if the format prints headers.
    #[getter]
    fn wants_headers(&self) -> bool {
        match &self.format {
            LineFormat::Template(template) => template.wants_headers(),
            LineFormat::Value | LineFormat::Raw => false,
            LineFormat::Ndjson | LineFormat::JsonItems | LineFormat::Envelope => true,
        }
    }

    /// Returns all rows of a batch as text.
    fn render<'py>(&self, py: Python<'py>, batch: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let mut input = arrow_ffi::from_python(batch)?;
        let mut out = Vec::new();
        while let Some(part) = input.next(py)? {
            interpreter_guard::detach(py, || render(&part, &self.format, &mut out))
                .map_err(|error| to_py(py, &Error::configuration(error.to_string())))?;
        }
        Ok(PyBytes::new(py, &out))
    }
}
