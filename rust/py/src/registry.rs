//! The schema registry client of `samsarrow._core`.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::runtime::Owned;
use samsarrow_client::config::{GlueOptions, OptionValue, RegistryOptions, glue_arguments as arguments_of_url};
use samsarrow_client::error::Error;
use samsarrow_client::schema_registry::{NewSchema, Reference, RegisteredSchema, Registry as Core, SchemaKey};
use samsarrow_values::{Part, RegistryKind};

use crate::config;
use crate::value_options::PySchemaId;

/// Name, subject and version of a reference.
type PyReference = (String, String, i32);
/// Text, kind and references of a new schema.
type PyNew = (String, String, Vec<PyReference>);

/// Returns the arguments of `GlueSchemaRegistry` for a `glue://` URL and options without a prefix, or `None` for a
/// registry with Confluent's API.
#[pyfunction]
pub(crate) fn glue_arguments(
    py: Python<'_>,
    url: &str,
    options: BTreeMap<String, String>,
) -> PyResult<Option<BTreeMap<String, String>>> {
    arguments_of_url(url, &options).map_err(|error| to_py(py, &error))
}

fn kind_of(py: Python<'_>, name: &str) -> PyResult<RegistryKind> {
    RegistryKind::from_name(name)
        .ok_or_else(|| to_py(py, &Error::configuration(format!("{name:?} is not a kind of schema registry"))))
}

/// Returns the framing of values whose schemas are in a registry of this kind.
#[pyfunction]
pub(crate) fn registry_framing(py: Python<'_>, kind: &str, framing: &str) -> PyResult<String> {
    let name = kind_of(py, kind)?.framing(framing).map(str::to_owned);
    name.map_err(|text| to_py(py, &Error::configuration(text)))
}

/// Returns the subject of keys or values of a topic in a registry of this kind.
#[pyfunction]
pub(crate) fn topic_subject(py: Python<'_>, kind: &str, topic: &str, key: bool) -> PyResult<String> {
    Ok(kind_of(py, kind)?.subject(topic, if key { Part::Key } else { Part::Value }))
}

/// See `samsarrow.SchemaRegistry`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Registry {
    core: Owned<Core>,
}

impl Registry {
    fn create(py: Python<'_>, options: Result<RegistryOptions, Error>) -> PyResult<Self> {
        let core = options.and_then(|options| Core::new(&options)).map_err(|error| to_py(py, &error))?;
        Ok(Self::of(core))
    }

    /// Wraps a client.
    pub(crate) fn of(core: Core) -> Self {
        Self { core: Owned::new("schema registry's client", core) }
    }

    /// Returns a handle of the client that can be used without the GIL.
    pub(crate) fn core(&self, py: Python<'_>) -> PyResult<Core> {
        Ok(self.core.get(py)?.clone())
    }
}

#[pymethods]
impl Registry {
    #[new]
    #[pyo3(signature = (urls, context, options))]
    fn new(
        py: Python<'_>,
        urls: Vec<String>,
        context: Option<String>,
        options: Vec<(String, Bound<'_, PyAny>)>,
    ) -> PyResult<Self> {
        let options = RegistryOptions::parse(urls, context, option_values(py, &options)?);
        Self::create(py, options)
    }

    /// Creates a client of AWS Glue Schema Registry. `aws` are options of MSK's login module, which select credentials.
    #[staticmethod]
    #[pyo3(signature = (region, registry, compatibility, endpoint, aws, options))]
    fn glue(
        py: Python<'_>,
        region: Option<String>,
        registry: &str,
        compatibility: &str,
        endpoint: Option<String>,
        aws: Vec<(String, String)>,
        options: Vec<(String, Bound<'_, PyAny>)>,
    ) -> PyResult<Self> {
        let aws = aws.into_iter().map(|(name, value)| (name, value.into())).collect();
        let glue = GlueOptions::new(region, registry, compatibility, aws).map_err(|error| to_py(py, &error))?;
        let options = RegistryOptions::glue(glue, endpoint, option_values(py, &options)?);
        Self::create(py, options)
    }

    fn schema_of_id(&self, py: Python<'_>, schema_id: u64) -> PyResult<Call> {
        let core = self.core(py)?;
        Ok(Call::new(async move { core.schema(SchemaKey::Id(schema_id)).await }, schema_tuple))
    }

    fn schema_of_guid(&self, py: Python<'_>, guid: [u8; 16]) -> PyResult<Call> {
        let core = self.core(py)?;
        Ok(Call::new(async move { core.schema(SchemaKey::Guid(guid)).await }, schema_tuple))
    }

    #[pyo3(signature = (subject, version))]
    fn schema_of_subject(&self, py: Python<'_>, subject: String, version: Option<i32>) -> PyResult<Call> {
        let core = self.core(py)?;
        Ok(Call::new(async move { core.version(&subject, version).await }, schema_tuple))
    }

    fn versions(&self, py: Python<'_>, subject: String) -> PyResult<Call> {
        let core = self.core(py)?;
        Ok(Call::new(async move { core.versions(&subject).await }, |py, result| result.into_py_any(py)))
    }

    fn subjects(&self, py: Python<'_>) -> PyResult<Call> {
        let core = self.core(py)?;
        Ok(Call::new(async move { core.subjects().await }, |py, result| result.into_py_any(py)))
    }

    fn register(&self, py: Python<'_>, subject: String, schema: PyNew, normalize: bool) -> PyResult<Call> {
        let (core, schema) = (self.core(py)?, new_schema(schema));
        let work = async move { core.register(&subject, &schema, normalize).await };
        Ok(Call::new(work, |py, key| py_key(key).into_py_any(py)))
    }

    fn lookup(&self, py: Python<'_>, subject: String, schema: PyNew, normalize: bool) -> PyResult<Call> {
        let (core, schema) = (self.core(py)?, new_schema(schema));
        let work = async move { core.lookup(&subject, &schema, normalize).await };
        Ok(Call::new(work, |py, key| py_key(key).into_py_any(py)))
    }

    /// Returns the reasons why a schema is incompatible with the registered schemas of a subject.
    fn check(&self, py: Python<'_>, subject: String, schema: PyNew) -> PyResult<Call> {
        let (core, schema) = (self.core(py)?, new_schema(schema));
        let work = async move { core.check(&subject, &schema).await };
        Ok(Call::new(work, |py, reasons| reasons.into_py_any(py)))
    }

    #[pyo3(signature = (subject))]
    fn compatibility(&self, py: Python<'_>, subject: Option<String>) -> PyResult<Call> {
        let core = self.core(py)?;
        let work = async move { core.compatibility(subject.as_deref()).await };
        Ok(Call::new(work, |py, level| level.into_py_any(py)))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.core.get(py)?.close();
        Ok(())
    }
}

fn option_values(py: Python<'_>, options: &[(String, Bound<'_, PyAny>)]) -> PyResult<Vec<(String, OptionValue)>> {
    let values = options.iter().map(|(name, value)| Ok((name.clone(), config::convert(name, value)?)));
    values.collect::<Result<_, Error>>().map_err(|error| to_py(py, &error))
}

fn py_key(key: SchemaKey) -> PySchemaId {
    match key {
        SchemaKey::Id(id) => PySchemaId::Number(id),
        SchemaKey::Guid(guid) => PySchemaId::Guid(guid),
    }
}

fn new_schema((text, kind, references): PyNew) -> NewSchema {
    let convert = |(name, subject, version)| Reference { name, subject, version };
    NewSchema { text, kind, references: references.into_iter().map(convert).collect() }
}

/// Converts a schema to a tuple: text, kind, id, GUID, subject, version, references, texts of the referenced schemas,
/// links between these schemas, and true if the schema has rules.
fn schema_tuple(py: Python<'_>, schema: Arc<RegisteredSchema>) -> PyResult<Py<PyAny>> {
    let references: Vec<PyReference> = schema
        .references
        .iter()
        .map(|reference| (reference.name.clone(), reference.subject.clone(), reference.version))
        .collect();
    let named = (&schema.text, &schema.kind, schema.id, &schema.guid, &schema.subject, schema.version);
    let (text, kind, id, guid, subject, version) = named;
    (text, kind, id, guid, subject, version, references, &schema.needed, &schema.links, schema.has_rules)
        .into_py_any(py)
}
