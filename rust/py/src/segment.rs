//! Log segments, which are read as Arrow data or dumped as text.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use samsarrow_arrow::decode::DecodeOptions;
use samsarrow_arrow::segment::{SegmentOptions, SegmentReadError, SegmentReader as Reader, Step};
use samsarrow_bridge::arrow_ffi;
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::interpreter_guard;
use samsarrow_client::error::Error;
use samsarrow_wire::compression::Limits;
use samsarrow_wire::segment::dump::{Dump, Format, IndexDump, IndexDumpOptions, LogDump as Log, LogDumpOptions};
use samsarrow_wire::segment::index::{Index, IndexKind};
use samsarrow_wire::segment::{SegmentErrorKind, Source};
use samsarrow_wire::sync::lock;

use crate::codec::layout_of;

/// A file whose contents are copied when they are read. Bytes that are appended after it was opened are ignored.
#[derive(Debug)]
struct FileSource {
    file: File,
    size: u64,
}

impl FileSource {
    fn open(path: &Path) -> io::Result<FileSource> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        Ok(FileSource { file, size })
    }
}

impl Source for FileSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, position: u64, len: usize) -> io::Result<Bytes> {
        let available = usize::try_from(self.size.saturating_sub(position)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len.min(available)];
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match read_at(&self.file, rest, position + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(done);
        Ok(bytes.into())
    }
}

#[cfg(unix)]
fn read_at(file: &File, into: &mut [u8], position: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, into, position)
}

#[cfg(windows)]
fn read_at(file: &File, into: &mut [u8], position: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, into, position)
}

/// Returns the source for a path or for Arrow data with one column of bytes. A file is copied piece by piece; Arrow
/// data is not copied.
fn source(data: &Bound<'_, PyAny>) -> PyResult<Box<dyn Source>> {
    if let Ok(path) = data.extract::<PathBuf>() {
        return Ok(Box::new(FileSource::open(&path)?));
    }
    Ok(Box::new(arrow_ffi::bytes_from_python(data)?))
}

/// See `samsarrow.read_segment`.
#[pyclass(frozen, module = "samsarrow._core")]
#[derive(Debug)]
pub(crate) struct SegmentReader {
    path: String,
    reader: Mutex<Reader>,
}

#[pymethods]
impl SegmentReader {
    #[new]
    #[pyo3(signature = (
        source, path, partition, layout, include_headers, include_control, check_crcs, from_offset, until_offset, batch_rows,
        batch_bytes
    ))]
    #[allow(clippy::too_many_arguments, reason = "the keyword arguments of the Python function")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = source)] source: Box<dyn Source>,
        path: String,
        partition: Option<(String, i32)>,
        layout: &str,
        include_headers: bool,
        include_control: bool,
        check_crcs: bool,
        from_offset: Option<i64>,
        until_offset: Option<i64>,
        batch_rows: Option<usize>,
        batch_bytes: usize,
    ) -> PyResult<Self> {
        let layout = layout_of(py, layout)?;
        let decode = DecodeOptions {
            layout,
            include_headers,
            include_control,
            check_crcs,
            max_bytes: batch_bytes,
            ..Default::default()
        };
        let topic_partition = partition.map(|(topic, partition)| (Arc::from(topic), partition));
        let options = SegmentOptions { decode, topic_partition, from_offset, until_offset, max_rows: batch_rows };
        Ok(Self { path, reader: Mutex::new(Reader::new(source, options)) })
    }

    /// Returns an empty batch with the reader's schema.
    fn empty<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let schema = Arc::clone(lock(&self.reader).schema());
        arrow_ffi::to_pyarrow(py, &RecordBatch::new_empty(schema))
    }

    /// Returns the next rows, or None at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            match interpreter_guard::detach(py, || lock(&self.reader).step()) {
                Ok(Step::Batch(batch)) => return arrow_ffi::to_pyarrow(py, &batch).map(Some),
                Ok(Step::More) => py.check_signals()?,
                Ok(Step::End) => return Ok(None),
                Err(error) => return Err(self.error(py, error)),
            }
        }
    }
}

impl SegmentReader {
    fn error(&self, py: Python<'_>, error: SegmentReadError) -> PyErr {
        match error {
            SegmentReadError::Segment(bad) if matches!(bad.kind, SegmentErrorKind::Io(_)) => match bad.kind {
                SegmentErrorKind::Io(io) => io::Error::new(io.kind(), format!("{}: {io}", self.path)).into(),
                _ => to_py(py, &Error::corrupt(format!("log segment {}", self.path))),
            },
            error => to_py(py, &Error::corrupt(format!("log segment {}: {error}", self.path))),
        }
    }
}

type Problem = (u64, i64, String);
type Findings = (Vec<Problem>, usize, Vec<(i64, i64)>, usize, Vec<String>);

/// Dump of a log segment or one of its indexes as lines of text (see `samsarrow dump-log`).
#[pyclass(frozen, module = "samsarrow._core")]
#[derive(Debug)]
pub(crate) struct LogDump {
    dump: Mutex<Box<dyn Dump>>,
}

#[pymethods]
impl LogDump {
    /// Creates a dump of a `.log` file.
    #[staticmethod]
    #[pyo3(signature = (source, base_offset, json, deep, print_data, max_bytes))]
    fn log(
        #[pyo3(from_py_with = source)] source: Box<dyn Source>,
        base_offset: Option<i64>,
        json: bool,
        deep: bool,
        print_data: bool,
        max_bytes: Option<u64>,
    ) -> Self {
        let options = LogDumpOptions {
            format: format_of(json),
            deep,
            print_data,
            max_bytes,
            limits: Limits::default(),
            base_offset,
        };
        Self { dump: Mutex::new(Box::new(Log::new(source, options))) }
    }

    /// Creates a dump of an `.index`, `.timeindex` or `.txnindex` file.
    #[staticmethod]
    #[pyo3(signature = (data, kind, base_offset, log, offsets, json, verify_only))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of one Python call")]
    fn index(
        py: Python<'_>,
        data: &[u8],
        kind: &str,
        base_offset: i64,
        log: Option<&Bound<'_, PyAny>>,
        offsets: Option<&[u8]>,
        json: bool,
        verify_only: bool,
    ) -> PyResult<Self> {
        let index = Index::new(index_kind(py, kind)?, Bytes::copy_from_slice(data), base_offset);
        let log = log.map(source).transpose()?;
        let offsets = offsets.map(|data| Index::new(IndexKind::Offset, Bytes::copy_from_slice(data), base_offset));
        let options = IndexDumpOptions { format: format_of(json), verify_only, limits: Limits::default() };
        Ok(Self { dump: Mutex::new(Box::new(IndexDump::new(index, log, offsets, options))) })
    }

    /// Returns the next lines, or None at the end. The text has at most about one megabyte, and may be empty before the
    /// end.
    fn next<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let (text, more) = interpreter_guard::detach(py, || {
            let mut text = String::new();
            let more = lock(&self.dump).step(&mut text);
            (text, more)
        });
        (more || !text.is_empty()).then(|| PyBytes::new(py, text.as_bytes()))
    }

    /// Returns the number of processed bytes and the total number of bytes.
    fn progress(&self) -> (u64, u64) {
        let dump = lock(&self.dump);
        (dump.position(), dump.size())
    }

    /// Returns the problems (position, offset, cause) and their number, the gaps (offset, next offset) and their
    /// number, and the notes.
    fn findings(&self) -> Findings {
        let dump = lock(&self.dump);
        let findings = dump.findings();
        let problems = findings.problems.iter().map(|p| (p.position, p.offset, p.cause.clone())).collect();
        (problems, findings.problem_count, findings.gaps.clone(), findings.gap_count, findings.notes.clone())
    }
}

/// Returns the number of entries of an index, and the reason if the sanity check of brokers fails.
#[pyfunction]
#[pyo3(signature = (data, kind, base_offset))]
pub(crate) fn check_index(
    py: Python<'_>,
    data: &[u8],
    kind: &str,
    base_offset: i64,
) -> PyResult<(usize, Option<String>)> {
    let index = Index::new(index_kind(py, kind)?, Bytes::copy_from_slice(data), base_offset);
    Ok((index.len(), index.sanity_check().err()))
}

fn index_kind(py: Python<'_>, kind: &str) -> PyResult<IndexKind> {
    match kind {
        "index" => Ok(IndexKind::Offset),
        "timeindex" => Ok(IndexKind::Time),
        "txnindex" => Ok(IndexKind::Transaction),
        other => Err(to_py(py, &Error::configuration(format!("unknown kind of index {other:?}")))),
    }
}

fn format_of(json: bool) -> Format {
    if json { Format::Json } else { Format::Text }
}
