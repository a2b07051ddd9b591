//! Client of a schema registry with Confluent's API or of AWS Glue Schema Registry: schemas by id, by GUID and by subject.

mod cache;
mod glue;
mod references;
mod schema;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::Value;
use tokio::time::sleep;

use self::cache::Cache;
use self::glue::Glue;
use self::references::{Needed, context_of};
pub use self::schema::{Link, NewSchema, Reference, RegisteredSchema};
use self::transport::{ErrorResponse, Transport};
use crate::config::RegistryOptions;
use crate::error::{Error, Result};

/// Maximum number of lookups of a schema that is not found. A repeated lookup may succeed, because a replica of the
/// registry may lag behind the others.
const MAX_LOOKUPS: u32 = 3;
/// Maximum number of reasons in an incompatibility error.
const MAX_REASONS: usize = 100;
/// Text used if the registry returns no reason.
const NO_REASON: &str = "the registry returned no reason";

/// Key of a schema. A key always identifies the same schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SchemaKey {
    /// Id, which is unique within a registry context.
    Id(u64),
    /// GUID, which is unique across registries.
    Guid([u8; 16]),
}

impl std::fmt::Display for SchemaKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => write!(f, "schema id {id}"),
            Self::Guid(guid) => write!(f, "schema {}", format_uuid(guid)),
        }
    }
}

/// Client of a schema registry. Clones share their cache.
#[derive(Debug, Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    transport: Transport,
    context: String,
    missing_wait: Duration,
    missing_kept: Duration,
    /// AWS Glue Schema Registry; `None` for a registry with Confluent's API.
    glue: Option<Glue>,
    schemas: Cache<SchemaKey, Arc<RegisteredSchema>>,
    /// Schemas by subject, version, and true if the lookup includes deleted versions.
    versions: Cache<(String, i32, bool), Arc<RegisteredSchema>>,
}

impl Registry {
    /// Creates a client. This does not send any request.
    ///
    /// # Errors
    /// Fails if an address, the login or a certificate is invalid.
    pub fn new(options: &RegistryOptions) -> Result<Self> {
        let inner = Inner {
            transport: Transport::new(options)?,
            context: options.context.clone(),
            glue: options.glue.as_ref().map(Glue::new),
            missing_wait: options.missing_wait,
            missing_kept: options.missing_kept,
            schemas: Cache::default(),
            versions: Cache::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Cancels pending requests. Later calls fail.
    pub fn close(&self) {
        self.inner.transport.close();
    }

    /// Returns the schema with an id or GUID, together with all schemas that it references. Concurrent calls for a
    /// schema share one request.
    ///
    /// # Errors
    /// Fails with [`Error::SchemaNotFound`] if the schema does not exist (this result is cached), and with
    /// [`Error::Registry`] if the registry cannot be reached.
    pub async fn schema(&self, key: SchemaKey) -> Result<Arc<RegisteredSchema>> {
        let inner = Arc::clone(&self.inner);
        let fetch = || async move {
            let mut lookups = 1;
            loop {
                match inner.by_key(key).await {
                    Err(Error::SchemaNotFound(_)) if lookups < MAX_LOOKUPS => sleep(inner.missing_wait).await,
                    done => return done.map(Arc::new),
                }
                lookups += 1;
            }
        };
        self.inner.schemas.get(key, self.inner.missing_kept, fetch).await
    }

    /// Returns a version of a subject, by default the latest, together with all schemas that it references.
    ///
    /// # Errors
    /// Fails like [`Self::schema`], except that a not-found result is not cached.
    pub async fn version(&self, subject: &str, version: Option<i32>) -> Result<Arc<RegisteredSchema>> {
        if let Some(glue) = &self.inner.glue {
            let schema = Arc::new(glue.by_name(&self.inner.transport, subject, version).await?);
            if let Some(guid) = schema.guid.as_deref().and_then(parse_uuid) {
                self.inner.schemas.put(SchemaKey::Guid(guid), Arc::clone(&schema));
            }
            return Ok(schema);
        }
        let schema = match version {
            Some(version) => self.inner.by_version(subject, version, false).await?,
            None => Arc::new(
                self.inner.fetch_schema(&self.inner.path(subject, "latest"), &format!("subject {subject}")).await?,
            ),
        };
        let Needed { texts: needed, links } = references::needed(&self.inner, &schema, subject).await?;
        let schema = Arc::new(RegisteredSchema { needed, links, ..(*schema).clone() });
        // Ids are unique only within a context, so the id of another context must not be cached for this one.
        let is_own = context_of(subject).is_none_or(|context| context == self.inner.context);
        if let Some(id) = schema.id.filter(|_| is_own) {
            // Subject and version are left out, because the same id may be registered under several subjects.
            let bare = RegisteredSchema { subject: None, version: None, ..(*schema).clone() };
            self.inner.schemas.put(SchemaKey::Id(id), Arc::new(bare));
        }
        Ok(schema)
    }

    /// Returns the versions of a subject.
    ///
    /// # Errors
    /// Fails like [`Self::version`].
    pub async fn versions(&self, subject: &str) -> Result<Vec<i32>> {
        if let Some(glue) = &self.inner.glue {
            return glue.versions(&self.inner.transport, subject).await;
        }
        let context = format!("versions of subject {subject}");
        let path = format!("/subjects/{}/versions", self.inner.percent_encode(subject));
        let response = self.inner.get(&path, &context).await?;
        let versions = response.as_array().and_then(|all| all.iter().map(schema::version).collect());
        versions.ok_or_else(|| self.inner.unexpected_response(&context))
    }

    /// Returns the subjects in the client's context.
    ///
    /// # Errors
    /// Fails with [`Error::Registry`] if the registry cannot be reached.
    pub async fn subjects(&self) -> Result<Vec<String>> {
        if let Some(glue) = &self.inner.glue {
            return glue.names(&self.inner.transport).await;
        }
        let context = &self.inner.context;
        let path = match context.as_str() {
            "" => "/subjects".to_owned(),
            context => format!("/subjects?subjectPrefix={}", percent_encode(context)),
        };
        let response = self.inner.get(&path, "subjects").await?;
        let names = response.as_array().and_then(|all| all.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        let names = names.ok_or_else(|| self.inner.unexpected_response("subjects"))?;
        // Apicurio also returns subjects of other contexts.
        Ok(names.into_iter().filter_map(|name| name.strip_prefix(context.as_str())).map(str::to_owned).collect())
    }

    /// Registers a schema and returns its id, or its UUID in AWS Glue Schema Registry. A schema that is already registered keeps its id.
    ///
    /// # Errors
    /// Fails with [`Error::SchemaIncompatible`], which contains the registry's reasons, if the schema is incompatible,
    /// and with [`Error::Registry`] if the schema is invalid or the registry cannot be reached.
    pub async fn register(&self, subject: &str, schema: &NewSchema, normalize: bool) -> Result<SchemaKey> {
        let inner = &self.inner;
        if let Some(glue) = &inner.glue {
            return glue.register(&inner.transport, subject, schema).await.map(SchemaKey::Guid);
        }
        let context = format!("a schema for subject {subject}");
        let query = if normalize { "?normalize=true" } else { "" };
        let path = format!("/subjects/{}/versions{query}", inner.percent_encode(subject));
        let error_response = match inner.transport.send(Method::POST, &path, Some(&schema.body())).await? {
            Ok(response) => {
                inner.schemas.forget_missing();
                return inner.id_in(&response, &context);
            }
            Err(error_response) => error_response,
        };
        if error_response.status != StatusCode::CONFLICT {
            return Err(error_response.error(&context));
        }
        // The response contains all reasons in a single text, whereas the compatibility check returns them as a list.
        let reasons = match self.check(subject, schema).await {
            Ok(reasons) if reasons.iter().any(|reason| reason != NO_REASON) => reasons,
            _ => vec![error_response.message],
        };
        let text =
            format!("{context}: {} rejects it, because it is incompatible with earlier versions", error_response.url);
        Err(Error::SchemaIncompatible { text, reasons })
    }

    /// Returns the id, or in AWS Glue Schema Registry the UUID, of a schema that is already registered.
    ///
    /// # Errors
    /// Fails with [`Error::SchemaNotFound`] if the subject has no such schema, and with [`Error::Registry`] if the
    /// registry cannot be reached.
    pub async fn lookup(&self, subject: &str, schema: &NewSchema, normalize: bool) -> Result<SchemaKey> {
        let inner = &self.inner;
        if let Some(glue) = &inner.glue {
            return glue.lookup(&inner.transport, subject, schema).await.map(SchemaKey::Guid);
        }
        let context = format!("a schema of subject {subject}");
        let query = if normalize { "?normalize=true" } else { "" };
        let path = format!("/subjects/{}{query}", inner.percent_encode(subject));
        let response = inner.transport.send(Method::POST, &path, Some(&schema.body())).await?;
        let response = response.map_err(|error_response: ErrorResponse| error_response.error(&context))?;
        inner.id_in(&response, &context)
    }

    /// Returns the reasons why a schema is incompatible with earlier versions. The list is empty if the schema is
    /// compatible.
    ///
    /// # Errors
    /// Fails with [`Error::Registry`] if the schema is invalid or the registry cannot be reached.
    pub async fn check(&self, subject: &str, schema: &NewSchema) -> Result<Vec<String>> {
        let inner = &self.inner;
        if inner.glue.is_some() {
            return Err(Error::configuration(
                "AWS Glue Schema Registry checks the compatibility of a version only when it is registered",
            ));
        }
        let context = format!("a schema for subject {subject}");
        let path = format!("/compatibility/subjects/{}/versions?verbose=true", inner.percent_encode(subject));
        let response = match inner.transport.send(Method::POST, &path, Some(&schema.body())).await? {
            Ok(response) => response,
            // There is no version to compare with if the subject is new.
            Err(error_response) if error_response.is_missing() => return Ok(Vec::new()),
            Err(error_response) => return Err(error_response.error(&context)),
        };
        match response.get("is_compatible").and_then(Value::as_bool) {
            Some(true) => Ok(Vec::new()),
            None => Err(inner.unexpected_response(&context)),
            Some(false) => {
                let messages =
                    response.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                // Apicurio returns a single text instead of a list.
                let messages = messages.iter().chain(response.get("reason")).filter_map(Value::as_str);
                let shown = messages.take(MAX_REASONS).map(|message| inner.transport.shown(message));
                let reasons: Vec<String> = shown.collect();
                Ok(if reasons.is_empty() { vec![NO_REASON.to_owned()] } else { reasons })
            }
        }
    }

    /// Returns the compatibility level of a subject, such as `BACKWARD`, or the global level.
    ///
    /// # Errors
    /// Fails with [`Error::Registry`] if the registry cannot be reached.
    pub async fn compatibility(&self, subject: Option<&str>) -> Result<String> {
        if let Some(glue) = &self.inner.glue {
            return glue.compatibility(&self.inner.transport, subject).await;
        }
        let path = match subject {
            Some(subject) => format!("/config/{}?defaultToGlobal=true", self.inner.percent_encode(subject)),
            None if self.inner.context.is_empty() => "/config".to_owned(),
            None => format!("/config/{}?defaultToGlobal=true", percent_encode(&self.inner.context)),
        };
        let response = self.inner.get(&path, "compatibility").await?;
        let level = response.get("compatibilityLevel").and_then(Value::as_str);
        level
            .map(|level| self.inner.transport.shown(level))
            .ok_or_else(|| self.inner.unexpected_response("compatibility"))
    }
}

impl Inner {
    async fn by_key(self: &Arc<Self>, key: SchemaKey) -> Result<RegisteredSchema> {
        if let Some(glue) = &self.glue {
            return match key {
                SchemaKey::Guid(guid) => glue.by_uuid(&self.transport, &format_uuid(&guid), &key.to_string()).await,
                SchemaKey::Id(id) => Err(Error::SchemaNotFound(format!(
                    "schema id {id}: AWS Glue Schema Registry has UUIDs instead of numbers"
                ))),
            };
        }
        let path = match key {
            SchemaKey::Id(id) if self.context.is_empty() => format!("/schemas/ids/{id}"),
            // The id is unique only within the context, so the request names the context.
            SchemaKey::Id(id) => format!("/schemas/ids/{id}?subject={}", percent_encode(&self.context)),
            SchemaKey::Guid(guid) => format!("/schemas/guids/{}", format_uuid(&guid)),
        };
        let mut schema = self.fetch_schema(&path, &key.to_string()).await?;
        match key {
            SchemaKey::Id(id) => schema.id = Some(id),
            SchemaKey::Guid(guid) => schema.guid = Some(format_uuid(&guid)),
        }
        let needed = references::needed(self, &schema, "").await;
        let needed = needed.map_err(|error| error.context(key.to_string()))?;
        (schema.needed, schema.links) = (needed.texts, needed.links);
        Ok(schema)
    }

    /// Returns a version of a subject, from the cache after the first lookup. If `deleted` is true, soft-deleted
    /// versions are found too.
    async fn by_version(self: &Arc<Self>, subject: &str, version: i32, deleted: bool) -> Result<Arc<RegisteredSchema>> {
        let inner = Arc::clone(self);
        let key = (subject.to_owned(), version, deleted);
        let fetch = || {
            let subject = subject.to_owned();
            async move {
                let query = if deleted { "?deleted=true" } else { "" };
                let path = inner.path(&subject, &format!("{version}{query}"));
                inner.fetch_schema(&path, &format!("version {version} of subject {subject}")).await.map(Arc::new)
            }
        };
        self.versions.get(key, Duration::ZERO, fetch).await
    }

    async fn fetch_schema(&self, path: &str, context: &str) -> Result<RegisteredSchema> {
        let response = self.get(path, context).await?;
        let mut schema = RegisteredSchema::from_json(&response).ok_or_else(|| self.unexpected_response(context))?;
        let bare = schema.subject.as_deref().and_then(|subject| subject.strip_prefix(self.context.as_str()));
        schema.subject = bare.map(str::to_owned).or(schema.subject);
        Ok(schema)
    }

    async fn get(&self, path: &str, context: &str) -> Result<Value> {
        let response = self.transport.send(Method::GET, path, None).await?;
        response.map_err(|error_response: ErrorResponse| error_response.error(context))
    }

    fn path(&self, subject: &str, version: &str) -> String {
        format!("/subjects/{}/versions/{version}", self.percent_encode(subject))
    }

    /// Encodes a subject as a path segment. Adds the client's context unless the subject already contains a context.
    fn percent_encode(&self, subject: &str) -> String {
        if subject.starts_with(":.") {
            percent_encode(subject)
        } else {
            percent_encode(&format!("{}{subject}", self.context))
        }
    }

    fn id_in(&self, response: &Value, context: &str) -> Result<SchemaKey> {
        let id = response.get("id").and_then(Value::as_u64);
        id.map(SchemaKey::Id).ok_or_else(|| self.unexpected_response(context))
    }

    fn unexpected_response(&self, context: &str) -> Error {
        unexpected_response(&self.transport, context)
    }
}

fn unexpected_response(transport: &Transport, context: &str) -> Error {
    Error::Registry {
        url: transport.url(),
        reason: format!("{context}: unexpected response: is this its url?"),
        status: None,
        retriable: false,
    }
}

/// Percent-encodes a text as a path segment.
fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

/// Formats a UUID as text.
fn format_uuid(bytes: &[u8; 16]) -> String {
    let number = u128::from_be_bytes(*bytes);
    let digits = format!("{number:032x}");
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// Parses the text of a UUID.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let has_hyphens = text.len() == 36 && [8, 13, 18, 23].iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
    let digits = text.replace('-', "");
    let valid = has_hyphens && digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    valid.then(|| u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)).flatten()
}

#[cfg(test)]
mod tests;
