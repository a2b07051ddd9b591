//! Output of rows as text, for the command line.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use samsarrow_arrow::EncodeError;
use samsarrow_arrow::text_format::{CsvText, LineFormat, Template, Text};
use samsarrow_bridge::arrow_ffi;
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::interpreter_guard;
use samsarrow_client::error::Error;

/// Writer that converts batches to text in one format.
#[pyclass(frozen, module = "samsarrow._core")]
#[derive(Debug)]
pub(crate) struct TextWriter {
    format: Arc<LineFormat>,
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
        Ok(Self { format: Arc::new(format) })
    }

    /// Returns true if the format prints headers.
    #[getter]
    fn wants_headers(&self) -> bool {
        match self.format.as_ref() {
            LineFormat::Template(template) => template.wants_headers(),
            LineFormat::Value | LineFormat::Raw => false,
            LineFormat::Ndjson | LineFormat::JsonItems | LineFormat::Envelope => true,
        }
    }

    /// Returns an iterator over parts of the text of all rows of a batch.
    fn render(&self, batch: &Bound<'_, PyAny>) -> PyResult<TextParts> {
        TextParts::new(batch, |part| {
            let (mut text, format) = (Text::new(part)?, Arc::clone(&self.format));
            Ok(Box::new(move |out: &mut Vec<u8>| text.write(&format, PART_BYTES, out)))
        })
    }
}

/// Returns an iterator over parts of the lines of CSV of a batch. String columns are quoted. Binary columns have text
/// that is written unchanged.
#[pyfunction]
pub(crate) fn csv_lines(batch: &Bound<'_, PyAny>) -> PyResult<TextParts> {
    TextParts::new(batch, |part| {
        let mut text = CsvText::new(part)?;
        Ok(Box::new(move |out: &mut Vec<u8>| text.write(PART_BYTES, out)))
    })
}

/// Bytes of a part of the text: less than the cache of a core, so that a part is written to a file from the cache, and
/// its memory is used again for the next one instead of being returned to the system.
const PART_BYTES: usize = 1 << 18;

/// Writes the next rows of a batch. Returns false if there were no more rows.
type WriteRows = Box<dyn FnMut(&mut Vec<u8>) -> bool + Send>;

/// Iterator over the parts of a text.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct TextParts {
    state: Mutex<State>,
}

/// Batches of which rows are left, and the buffer of the parts.
#[derive(Default)]
struct State {
    batches: VecDeque<WriteRows>,
    buffer: Vec<u8>,
}

impl TextParts {
    fn new(
        batch: &Bound<'_, PyAny>,
        text_of: impl Fn(&RecordBatch) -> Result<WriteRows, EncodeError>,
    ) -> PyResult<TextParts> {
        let py = batch.py();
        let mut input = arrow_ffi::from_python(batch)?;
        let mut state = State::default();
        while let Some(part) = input.next(py)? {
            let rows = text_of(&part).map_err(|error| to_py(py, &Error::configuration(error.to_string())))?;
            state.batches.push_back(rows);
        }
        Ok(TextParts { state: Mutex::new(state) })
    }
}

#[pymethods]
impl TextParts {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Returns the next part.
    fn __next__<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let mut out = interpreter_guard::detach(py, || {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let mut out = std::mem::take(&mut state.buffer);
            while let Some(write) = state.batches.front_mut() {
                let written = write(&mut out);
                // Rows without text, such as null values, add no bytes.
                if !out.is_empty() {
                    break;
                }
                if !written {
                    state.batches.pop_front();
                }
            }
            out
        });
        let part = (!out.is_empty()).then(|| PyBytes::new(py, &out));
        out.clear();
        self.state.lock().unwrap_or_else(PoisonError::into_inner).buffer = out;
        part
    }
}
