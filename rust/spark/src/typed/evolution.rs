//! Checks for newer versions of the schemas that a streaming query reads with.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use samsarrow_client::schema_registry::Registry;

use super::ReaderSchemas;
use crate::error::{Error, Result};
use crate::options::ReadOptions;

/// Limits of the time for which a registry that does not respond can delay a micro-batch.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Periodic checks of one streaming query.
#[derive(Debug, Default)]
pub(crate) struct Evolution {
    registry: Option<Registry>,
    /// Time of the next check, by the name of the key or value.
    due: BTreeMap<&'static str, Instant>,
}

impl Evolution {
    /// Checks the schemas whose interval has passed. Logs a warning if the registry cannot be reached.
    ///
    /// # Errors
    /// [`Error::SchemaEvolved`] if a subject has a newer version than the query reads with.
    pub(crate) async fn check(&mut self, options: &ReadOptions, schemas: &ReaderSchemas) -> Result<()> {
        for typed in &options.typed {
            let name = typed.part.name();
            let version = schemas.get(name).and_then(|schema| schema.version.as_ref());
            let (Some(interval), Some((subject, version))) = (typed.evolution, version) else { continue };
            let now = Instant::now();
            if self.due.get(name).is_some_and(|due| now < *due) {
                continue;
            }
            self.due.insert(name, now + interval);
            let registry = match &self.registry {
                Some(registry) => registry,
                None => match options.registry_within(CONNECT_TIMEOUT, READ_TIMEOUT)? {
                    Some(registry) => self.registry.insert(registry),
                    None => return Ok(()),
                },
            };
            let latest = match registry.versions(subject).await {
                Ok(versions) => versions.into_iter().max().unwrap_or(*version),
                Err(error) => {
                    tracing::warn!(
                        "whether subject {subject} has a newer version than {version} cannot be found out: {error}"
                    );
                    continue;
                }
            };
            if latest > *version {
                return Err(Error::SchemaEvolved(format!(
                    "subject {subject} has version {latest}, and this query reads {name}s as version {version} has \
                     them: load the stream again and restart it from its checkpoint, and it reads them as version \
                     {latest} has them ({name}.evolution=restart)"
                )));
            }
        }
        Ok(())
    }

    /// Cancels pending requests.
    pub(crate) fn close(&self) {
        if let Some(registry) = &self.registry {
            registry.close();
        }
    }
}
