//! Rows as text, for the command line.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use samsarrow_arrow::text_format::{LineFormat, Template, render};
use samsarrow_bridge::arrow_ffi;
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::gate;
use samsarrow_client::error::Error;

/// Writes batches of a consumer in one format.
#[pyclass(frozen, module = "samsarrow._core")]
#[derive(Debug)]
pub(crate) struct Lines {
    format: LineFormat,
}

#[pymethods]
impl Lines {
    /// `form` is `value`, `raw`, `ndjson`, `json` or `envelope`; a template goes before it.
    #[new]
    #[pyo3(signature = (form, template))]
    fn new(py: Python<'_>, form: &str, template: Option<&str>) -> PyResult<Self> {
        let refused = |text: String| to_py(py, &Error::configuration(text));
        let format = match template {
            Some(text) => LineFormat::Template(Template::parse(text).map_err(|error| refused(error.to_string()))?),
            None => LineFormat::from_name(form).ok_or_else(|| refused(format!("no rows are written as {form:?}")))?,
        };
        Ok(Self { format })
    }

    /// Whether it shows headers: a batch without them has none.
    #[getter]
    fn wants_headers(&self) -> bool {
        match &self.format {
            LineFormat::Template(template) => template.wants_headers(),
            LineFormat::Value | LineFormat::Raw => false,
            LineFormat::Ndjson | LineFormat::JsonItems | LineFormat::Envelope => true,
        }
    }

    /// The text of all rows of a batch.
    fn render<'py>(&self, py: Python<'py>, batch: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let mut input = arrow_ffi::from_python(batch)?;
        let mut out = Vec::new();
        while let Some(part) = input.next(py)? {
            gate::detach(py, || render(&part, &self.format, &mut out))
                .map_err(|error| to_py(py, &Error::configuration(error.to_string())))?;
        }
        Ok(PyBytes::new(py, &out))
    }
}
