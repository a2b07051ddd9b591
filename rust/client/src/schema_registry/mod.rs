//! A schema registry's client, as Confluent's API has it: schemas by id, by GUID and by subject.

mod cache;
mod references;
mod schema;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::Value;
use tokio::time::sleep;

use self::cache::Cache;
use self::references::{Needed, context_of};
pub use self::schema::{Link, NewSchema, Reference, RegisteredSchema};
use self::transport::{Refusal, Transport};
use crate::config::RegistryOptions;
use crate::error::{Error, Result};

/// How often a schema is asked for that is not there: a registry's replicas lag behind each other.
const LOOKS: u32 = 3;
/// The most reasons that are given for one refusal.
const MOST_REASONS: usize = 100;
/// What is said in the place of a reason.
const NO_REASON: &str = "the registry gives no reason";

/// What a schema is asked for by where it is always the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SchemaKey {
    /// A number of this registry's.
    Id(u64),
    /// A number of every registry's.
    Guid([u8; 16]),
}

impl std::fmt::Display for SchemaKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => write!(f, "schema id {id}"),
            Self::Guid(guid) => write!(f, "schema {}", hyphened(guid)),
        }
    }
}

/// A registry. Clones share its cache.
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
    schemas: Cache<SchemaKey, Arc<RegisteredSchema>>,
    /// By subject, version, and whether the subject may be deleted.
    versions: Cache<(String, i32, bool), Arc<RegisteredSchema>>,
}

impl Registry {
    /// Nothing is asked for yet.
    ///
    /// # Errors
    /// An address, the login or a certificate cannot be.
    pub fn new(options: &RegistryOptions) -> Result<Self> {
        let inner = Inner {
            transport: Transport::new(options)?,
            context: options.context.clone(),
            missing_wait: options.missing_wait,
            missing_kept: options.missing_kept,
            schemas: Cache::default(),
            versions: Cache::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Ends what is being asked. Afterwards every call fails.
    pub fn close(&self) {
        self.inner.transport.close();
    }

    /// The schema of an id or GUID, with all that it needs. It is asked for once, whoever waits for it.
    ///
    /// # Errors
    /// [`Error::SchemaNotFound`] where there is none, which is remembered; [`Error::Registry`] where nobody can say.
    pub async fn schema(&self, key: SchemaKey) -> Result<Arc<RegisteredSchema>> {
        let inner = Arc::clone(&self.inner);
        let fetch = || async move {
            let mut looks = 1;
            loop {
                match inner.by_key(key).await {
                    Err(Error::SchemaNotFound(_)) if looks < LOOKS => sleep(inner.missing_wait).await,
                    done => return done.map(Arc::new),
                }
                looks += 1;
            }
        };
        self.inner.schemas.get(key, self.inner.missing_kept, fetch).await
    }

    /// A version of a subject, or its latest, with all that it needs.
    ///
    /// # Errors
    /// As [`Self::schema`]; what is not there is not remembered.
    pub async fn version(&self, subject: &str, version: Option<i32>) -> Result<Arc<RegisteredSchema>> {
        let found = match version {
            Some(version) => self.inner.by_version(subject, version, false).await?,
            None => Arc::new(self.inner.one(&self.inner.path(subject, "latest"), &format!("subject {subject}")).await?),
        };
        let Needed { texts: needed, links } = references::needed(&self.inner, &found, subject).await?;
        let found = Arc::new(RegisteredSchema { needed, links, ..(*found).clone() });
        // Ids are those of a context: another one has other schemas for them.
        let is_own = context_of(subject).is_none_or(|context| context == self.inner.context);
        if let Some(id) = found.id.filter(|_| is_own) {
            // An id alone does not say whose it is.
            let bare = RegisteredSchema { subject: None, version: None, ..(*found).clone() };
            self.inner.schemas.put(SchemaKey::Id(id), Arc::new(bare));
        }
        Ok(found)
    }

    /// The versions of a subject.
    ///
    /// # Errors
    /// As [`Self::version`].
    pub async fn versions(&self, subject: &str) -> Result<Vec<i32>> {
        let doing = format!("versions of subject {subject}");
        let path = format!("/subjects/{}/versions", self.inner.escaped(subject));
        let answer = self.inner.get(&path, &doing).await?;
        let found = answer.as_array().and_then(|all| all.iter().map(schema::version).collect());
        found.ok_or_else(|| self.inner.odd(&doing))
    }

    /// The subjects of the context.
    ///
    /// # Errors
    /// [`Error::Registry`] where nobody can say.
    pub async fn subjects(&self) -> Result<Vec<String>> {
        let context = &self.inner.context;
        let path = match context.as_str() {
            "" => "/subjects".to_owned(),
            context => format!("/subjects?subjectPrefix={}", escaped(context)),
        };
        let answer = self.inner.get(&path, "subjects").await?;
        let names = answer.as_array().and_then(|all| all.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        let names = names.ok_or_else(|| self.inner.odd("subjects"))?;
        // Apicurio gives those of other contexts, too.
        Ok(names.into_iter().filter_map(|name| name.strip_prefix(context.as_str())).map(str::to_owned).collect())
    }

    /// Registers a schema; one that is there already keeps its id.
    ///
    /// # Errors
    /// [`Error::SchemaIncompatible`] with the registry's reasons; [`Error::Registry`] where it is none, or nobody
    /// answers.
    pub async fn register(&self, subject: &str, schema: &NewSchema, normalize: bool) -> Result<u64> {
        let inner = &self.inner;
        let doing = format!("a schema for subject {subject}");
        let query = if normalize { "?normalize=true" } else { "" };
        let path = format!("/subjects/{}/versions{query}", inner.escaped(subject));
        let refusal = match inner.transport.ask(Method::POST, &path, Some(&schema.body())).await? {
            Ok(answer) => {
                inner.schemas.forget_missing();
                return answer.get("id").and_then(Value::as_u64).ok_or_else(|| inner.odd(&doing));
            }
            Err(refusal) => refusal,
        };
        if refusal.status != StatusCode::CONFLICT {
            return Err(refusal.error(&doing));
        }
        // That answer has its reasons in one text, the other one by one.
        let reasons = match self.check(subject, schema).await {
            Ok(reasons) if reasons.iter().any(|reason| reason != NO_REASON) => reasons,
            _ => vec![refusal.message],
        };
        let text = format!("{doing}: {} refuses it, because it is incompatible with earlier versions", refusal.url);
        Err(Error::SchemaIncompatible { text, reasons })
    }

    /// The id of a schema that is registered.
    ///
    /// # Errors
    /// [`Error::SchemaNotFound`] where the subject has no such schema; [`Error::Registry`] where nobody can say.
    pub async fn lookup(&self, subject: &str, schema: &NewSchema, normalize: bool) -> Result<u64> {
        let inner = &self.inner;
        let doing = format!("a schema of subject {subject}");
        let query = if normalize { "?normalize=true" } else { "" };
        let path = format!("/subjects/{}{query}", inner.escaped(subject));
        let answer = inner.transport.ask(Method::POST, &path, Some(&schema.body())).await?;
        let answer = answer.map_err(|refusal: Refusal| refusal.error(&doing))?;
        answer.get("id").and_then(Value::as_u64).ok_or_else(|| inner.odd(&doing))
    }

    /// Why a schema cannot be the next of a subject; nothing if it can.
    ///
    /// # Errors
    /// [`Error::Registry`] where nobody can say, or it is no schema.
    pub async fn check(&self, subject: &str, schema: &NewSchema) -> Result<Vec<String>> {
        let inner = &self.inner;
        let doing = format!("a schema for subject {subject}");
        let path = format!("/compatibility/subjects/{}/versions?verbose=true", inner.escaped(subject));
        let answer = match inner.transport.ask(Method::POST, &path, Some(&schema.body())).await? {
            Ok(answer) => answer,
            // Whatever is the first is compatible.
            Err(refusal) if refusal.is_missing() => return Ok(Vec::new()),
            Err(refusal) => return Err(refusal.error(&doing)),
        };
        match answer.get("is_compatible").and_then(Value::as_bool) {
            Some(true) => Ok(Vec::new()),
            None => Err(inner.odd(&doing)),
            Some(false) => {
                let messages = answer.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                // Apicurio has one text, where Confluent's has a list.
                let messages = messages.iter().chain(answer.get("reason")).filter_map(Value::as_str);
                let shown = messages.take(MOST_REASONS).map(|message| inner.transport.shown(message));
                let reasons: Vec<String> = shown.collect();
                Ok(if reasons.is_empty() { vec![NO_REASON.to_owned()] } else { reasons })
            }
        }
    }

    /// What a subject's next schema must be compatible with, `BACKWARD` for example; without a subject, by default.
    ///
    /// # Errors
    /// [`Error::Registry`] where nobody can say.
    pub async fn compatibility(&self, subject: Option<&str>) -> Result<String> {
        let path = match subject {
            Some(subject) => format!("/config/{}?defaultToGlobal=true", self.inner.escaped(subject)),
            None if self.inner.context.is_empty() => "/config".to_owned(),
            None => format!("/config/{}?defaultToGlobal=true", escaped(&self.inner.context)),
        };
        let answer = self.inner.get(&path, "compatibility").await?;
        let level = answer.get("compatibilityLevel").and_then(Value::as_str);
        level.map(|level| self.inner.transport.shown(level)).ok_or_else(|| self.inner.odd("compatibility"))
    }
}

impl Inner {
    async fn by_key(self: &Arc<Self>, key: SchemaKey) -> Result<RegisteredSchema> {
        let path = match key {
            SchemaKey::Id(id) if self.context.is_empty() => format!("/schemas/ids/{id}"),
            // An id is one of its context's.
            SchemaKey::Id(id) => format!("/schemas/ids/{id}?subject={}", escaped(&self.context)),
            SchemaKey::Guid(guid) => format!("/schemas/guids/{}", hyphened(&guid)),
        };
        let mut found = self.one(&path, &key.to_string()).await?;
        match key {
            SchemaKey::Id(id) => found.id = Some(id),
            SchemaKey::Guid(guid) => found.guid = Some(hyphened(&guid)),
        }
        let needed = references::needed(self, &found, "").await;
        let needed = needed.map_err(|error| error.context(key.to_string()))?;
        (found.needed, found.links) = (needed.texts, needed.links);
        Ok(found)
    }

    /// Returns a version, fetched once; also one that was deleted, which registries still have, if that is asked for.
    async fn by_version(self: &Arc<Self>, subject: &str, version: i32, deleted: bool) -> Result<Arc<RegisteredSchema>> {
        let inner = Arc::clone(self);
        let key = (subject.to_owned(), version, deleted);
        let fetch = || {
            let subject = subject.to_owned();
            async move {
                let query = if deleted { "?deleted=true" } else { "" };
                let path = inner.path(&subject, &format!("{version}{query}"));
                inner.one(&path, &format!("version {version} of subject {subject}")).await.map(Arc::new)
            }
        };
        self.versions.get(key, Duration::ZERO, fetch).await
    }

    async fn one(&self, path: &str, doing: &str) -> Result<RegisteredSchema> {
        let answer = self.get(path, doing).await?;
        let mut found = RegisteredSchema::of(&answer).ok_or_else(|| self.odd(doing))?;
        let bare = found.subject.as_deref().and_then(|subject| subject.strip_prefix(self.context.as_str()));
        found.subject = bare.map(str::to_owned).or(found.subject);
        Ok(found)
    }

    async fn get(&self, path: &str, doing: &str) -> Result<Value> {
        let answer = self.transport.ask(Method::GET, path, None).await?;
        answer.map_err(|refusal: Refusal| refusal.error(doing))
    }

    fn path(&self, subject: &str, version: &str) -> String {
        format!("/subjects/{}/versions/{version}", self.escaped(subject))
    }

    /// A subject as a part of a path; one that names its own context stays there.
    fn escaped(&self, subject: &str) -> String {
        if subject.starts_with(":.") { escaped(subject) } else { escaped(&format!("{}{subject}", self.context)) }
    }

    fn odd(&self, doing: &str) -> Error {
        Error::Registry {
            url: self.transport.url(),
            reason: format!("{doing}: the answer is not what a registry says: is this its url?"),
            status: None,
            passes: false,
        }
    }
}

/// A text as a part of an address.
fn escaped(text: &str) -> String {
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

/// A UUID as text.
fn hyphened(bytes: &[u8; 16]) -> String {
    let number = u128::from_be_bytes(*bytes);
    let digits = format!("{number:032x}");
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

#[cfg(test)]
mod tests;
