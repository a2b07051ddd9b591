//! Conversion between topic names and the topic ids in OffsetCommit and OffsetFetch.

use std::sync::{Arc, Mutex};

use samsarrow_wire::messages::Uuid;
use samsarrow_wire::sync::lock;

use crate::collections::HashMap;
use crate::error::{Error, Result};

/// First version of OffsetCommit and OffsetFetch that contains topic ids instead of names (KIP-848).
pub(crate) const TOPIC_IDS: i16 = 10;

/// Lookup of a topic's id.
type IdOf<'a> = dyn Fn(&str) -> Result<Option<Uuid>> + Send + Sync + 'a;

/// Topic ids of a request, and the topic names for its response.
///
/// The names are kept here, because the topics may be missing from the metadata when the response arrives.
pub(crate) struct TopicIdMap<'a> {
    id_of: Box<IdOf<'a>>,
    names: Mutex<HashMap<Uuid, Arc<str>>>,
}

impl<'a> TopicIdMap<'a> {
    /// Creates a map that looks up topic ids with `id_of`, which returns `None` for topics that do not exist.
    pub(crate) fn new(id_of: impl Fn(&str) -> Result<Option<Uuid>> + Send + Sync + 'a) -> Self {
        Self { id_of: Box::new(id_of), names: Mutex::default() }
    }

    /// Creates a map of all topics of a cluster, which also converts ids of topics that were not requested by name.
    pub(crate) fn of_all(ids: HashMap<String, Uuid>) -> Self {
        let names = ids.iter().map(|(name, id)| (*id, name.as_str().into())).collect();
        Self { names: Mutex::new(names), ..Self::new(move |topic| Ok(ids.get(topic).copied())) }
    }

    /// Returns the id of a topic in requests of `version`: zero in versions with topic names, and `None` if the topic
    /// does not exist.
    pub(crate) fn id(&self, version: i16, topic: &Arc<str>) -> Result<Option<Uuid>> {
        if version < TOPIC_IDS {
            return Ok(Some(Uuid::ZERO));
        }
        let id = (self.id_of)(topic)?;
        if let Some(id) = id {
            lock(&self.names).insert(id, Arc::clone(topic));
        }
        Ok(id)
    }

    /// Returns the name of a topic in a response. If the response contains only the id, looks up the name by the id.
    pub(crate) fn name(&self, name: &str, id: &Uuid) -> Result<Arc<str>> {
        if !name.is_empty() {
            return Ok(name.into());
        }
        let known = lock(&self.names).get(id).cloned();
        known.ok_or_else(|| {
            Error::protocol("the coordinator", format!("the response contains topic id {id:?}, which is unknown"))
        })
    }
}
