//! Pool of messages and enums, identified by index.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

pub(crate) use super::file::Scalar;
use super::resolve_names::resolve_names;
use super::{descriptor, parse};
use crate::error::SchemaError;

/// Suffix of the names of map entries in parsed text. It contains a space, so that no declared message has such a name.
pub(super) const MAP_ENTRY: &str = " (an entry)";

/// Messages declared in a `.proto` file and its imports.
#[derive(Debug, Clone)]
pub struct Schema {
    pub(super) pool: Arc<Pool>,
}

#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(super) messages: Vec<Message>,
    pub(super) enums: Vec<Enum>,
    /// Messages and enums by full name.
    pub(super) names: HashMap<String, Entity>,
    /// Ids of the top-level messages in the file itself, to which message indexes refer.
    pub(super) own: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Entity {
    Message(usize),
    Enum(usize),
}

#[derive(Debug)]
pub(crate) struct Message {
    /// Full name, including the package.
    pub(super) name: Arc<str>,
    pub(super) fields: Vec<Field>,
    /// Ids of the messages declared within this message, to which message indexes refer.
    pub(super) nested: Vec<usize>,
    /// True if the message represents the entry of a map.
    pub(super) entry: bool,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(super) name: Arc<str>,
    pub(super) number: u32,
    pub(super) kind: Kind,
    pub(super) repeated: bool,
    pub(super) packed: bool,
    pub(super) presence: bool,
    pub(super) required: bool,
    pub(super) oneof: Option<usize>,
    pub(super) default: Option<Literal>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Scalar(Scalar),
    Enum(usize),
    Message(usize),
    /// Message that is delimited by two tags.
    Group(usize),
}

/// Explicit default.
#[derive(Debug, Clone)]
pub(crate) enum Literal {
    Integer(i64),
    Float(f64),
    Bool(bool),
    Bytes(Vec<u8>),
}

#[derive(Debug)]
pub(crate) struct Enum {
    pub(super) name: Arc<str>,
    pub(super) values: Vec<(Box<str>, i32)>,
}

impl Message {
    /// Returns the full name under which protoc declares the message: `Order.ItemCountsEntry` for the entries of the map
    /// `item_counts`.
    fn declared_name(&self) -> Arc<str> {
        let Some(map) = self.name.strip_suffix(MAP_ENTRY) else { return Arc::clone(&self.name) };
        let (parent, field) = map.rsplit_once('.').unwrap_or(("", map));
        let words = field.split('_').map(|word| {
            let mut letters = word.chars();
            letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
        });
        format!("{parent}.{}Entry", words.collect::<String>()).into()
    }
}

impl Schema {
    /// Parses the text of a `.proto` file. Also accepts a descriptor in base64, which some clients register.
    ///
    /// # Errors
    /// Fails if the text is neither a valid file nor a descriptor. The error contains the line or the field.
    pub fn parse(text: &str) -> Result<Schema, SchemaError> {
        Self::parse_with(text, &[])
    }

    /// Parses a file with its imports, which may be in any order. Imports from `google/protobuf` and `google/type` are
    /// bundled.
    ///
    /// # Errors
    /// Fails if a file is invalid, or if a type is missing. The error contains the line or the field.
    pub fn parse_with(text: &str, imports: &[String]) -> Result<Schema, SchemaError> {
        let own = one_file(text)?;
        let others = imports.iter().map(|text| one_file(text)).collect::<Result<Vec<_>, _>>()?;
        Ok(Schema { pool: Arc::new(resolve_names(own, others)?) })
    }

    /// Parses a serialized FileDescriptorSet. Its last file is the one that was passed to `protoc`.
    ///
    /// # Errors
    /// Fails if the bytes are not a FileDescriptorSet, or if a type is missing.
    pub fn from_descriptors(bytes: &[u8]) -> Result<Schema, SchemaError> {
        let mut files = descriptor::file_set(bytes)?;
        let own = files.pop().ok_or_else(|| SchemaError::new("", "the FileDescriptorSet has no file"))?;
        Ok(Schema { pool: Arc::new(resolve_names(own, files)?) })
    }

    /// Returns the id of the message with this name. The name may omit the package if it is unambiguous. Without a
    /// name, returns the first message of the file.
    pub(super) fn message(&self, name: Option<&str>) -> Result<usize, SchemaError> {
        let Some(name) = name else {
            return self.pool.own.first().copied().ok_or_else(|| SchemaError::new("", "the file has no message"));
        };
        if let Some(Entity::Message(id)) = self.pool.names.get(name.trim_start_matches('.')) {
            return Ok(*id);
        }
        let suffix = format!(".{name}");
        let messages = || self.pool.messages.iter().enumerate().filter(|(_, message)| !message.entry);
        let found: Vec<_> = messages().filter(|(_, message)| message.name.ends_with(&suffix)).collect();
        match *found {
            [(id, _)] => Ok(id),
            [] => {
                let own = self.pool.own.iter().filter_map(|id| Some(&*self.pool.messages.get(*id)?.name));
                let own: Vec<_> = own.take(100).collect();
                Err(SchemaError::new("", format!("there is no message {name}; the file has {}", own.join(", "))))
            }
            _ => {
                let names: Vec<_> = found.iter().map(|(_, message)| &*message.name).take(100).collect();
                Err(SchemaError::new("", format!("message {name} may be any of {}", names.join(", "))))
            }
        }
    }

    /// Returns the name of the message that the indexes lead to. The first index counts the messages of the file; each
    /// further index counts the messages nested in the previous message.
    pub(super) fn at_indexes(&self, indexes: &[i64]) -> Option<&Arc<str>> {
        let mut among = &self.pool.own;
        let mut found = None;
        for index in indexes {
            let message = self.pool.messages.get(*among.get(usize::try_from(*index).ok()?)?)?;
            among = &message.nested;
            found = Some(&message.name);
        }
        found
    }

    /// Returns the full names of all messages of the file in lexicographic order: top-level and nested messages, groups
    /// and map entries. Serializers of AWS Glue Schema Registry identify a message by its index in this list.
    pub(super) fn sorted_names(&self) -> Vec<Arc<str>> {
        let own = || self.pool.own.iter().filter_map(|id| self.pool.messages.get(*id));
        let is_own = |name: &str| {
            own().any(|message| {
                name.strip_prefix(&*message.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
        };
        let messages = self.pool.messages.iter().filter(|message| is_own(&message.name));
        let mut names: Vec<Arc<str>> = messages.map(Message::declared_name).collect();
        names.sort();
        names
    }

    /// Returns the full name of the message with this index in [`Self::sorted_names`].
    pub(super) fn sorted(&self, index: usize) -> Option<Arc<str>> {
        self.sorted_names().get(index).cloned()
    }

    /// Returns the full name of the top-level message with this name, which does not contain the package.
    pub(super) fn named(&self, name: &str) -> Option<&Arc<str>> {
        let own = self.pool.own.iter().filter_map(|at| self.pool.messages.get(*at));
        own.map(|message| &message.name).find(|whole| whole.rsplit('.').next() == Some(name))
    }
}

fn one_file(text: &str) -> Result<super::file::File, SchemaError> {
    let text = text.trim();
    if !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
        && let Ok(bytes) = STANDARD.decode(text)
    {
        return descriptor::file(&bytes);
    }
    parse::parse(text)
}
