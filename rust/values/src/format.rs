//! Formats of values, including the writer's schemas that are known.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use arrow_array::ArrayRef;
use samsarrow_wire::sync::lock;

use crate::avro::Schema;
use crate::decoder::{Decoder, Options};
use crate::error::SchemaError;
use crate::framing::{Framing, Part, SchemaId, split};
use crate::headers::Headers;
use crate::others::Other;
use crate::primitive_serdes::Plain;
use crate::writer_schemas::{Kind, Writers};
use crate::{json, proto};

/// Format of values.
#[derive(Debug)]
pub enum Format {
    /// Values of a primitive type, in the format of Kafka's own serializers.
    Plain(Plain),
    /// Avro.
    Avro {
        /// Reader's schema.
        schema: Schema,
        /// Decoding options.
        options: Options,
        /// Known writer's schemas.
        writers: Arc<Mutex<Writers>>,
    },
    /// JSON.
    Json {
        /// Type that JSON values are read as.
        schema: json::Schema,
        /// Decoding options.
        options: Options,
    },
    /// Protobuf.
    Protobuf {
        /// Schema that contains the message.
        schema: proto::Schema,
        /// Name of the message; by default the first message of the file.
        message: Option<String>,
        /// True if only values with added schema ids can be read.
        by_id: bool,
        /// Decoding options.
        options: Options,
        /// Known writer's schemas.
        writers: Arc<Mutex<Writers>>,
    },
}

impl Format {
    /// Creates a decoder. Its only writer's schema is the schema of this format; [`Format::catch_up`] adds
    /// the others.
    ///
    /// # Errors
    /// Fails if the schema has no Arrow type, or if a selected field or the message does not exist.
    pub fn decoder(&self) -> Result<Decoder, SchemaError> {
        match self {
            Format::Plain(plain) => Ok(Decoder::plain(*plain)),
            Format::Avro { schema, options, .. } => Decoder::avro(schema, options),
            Format::Json { schema, options } => Decoder::json(schema, options),
            Format::Protobuf { schema, message, by_id, options, .. } => {
                Decoder::protobuf(schema, message.as_deref(), *by_id, options)
            }
        }
    }

    /// Returns the known writer's schemas and their kind, if the format has writer's schemas.
    pub fn writers(&self) -> Option<(Kind, &Arc<Mutex<Writers>>)> {
        match self {
            Format::Plain(_) | Format::Json { .. } => None,
            Format::Avro { writers, .. } => Some((Kind::Avro, writers)),
            Format::Protobuf { writers, .. } => Some((Kind::Protobuf, writers)),
        }
    }

    /// Returns the schema id of a value, if there is one.
    fn id(&self, value: &[u8], header: Option<&[u8]>) -> Option<SchemaId> {
        match self {
            Format::Plain(_) | Format::Json { .. } => None,
            Format::Avro { options, .. } => split(options.framing, value, header).ok().map(|(id, _)| id),
            Format::Protobuf { options, .. } => proto::id(options.framing, value, header),
        }
    }

    /// Returns true if the schema id is in the first five bytes of values without a header.
    fn has_prefix(&self) -> bool {
        match self {
            Format::Plain(_) | Format::Json { .. } => false,
            Format::Avro { options, .. } => options.framing.has_prefix(),
            Format::Protobuf { options, .. } => options.framing.has_prefix(),
        }
    }

    /// Returns the record headers with schema ids. They are headers of Confluent's serializers and, for Avro, also of
    /// Apicurio's. Returns `None` if no record has headers.
    ///
    /// # Errors
    /// Fails if the column is not a headers column as consumers return it.
    pub fn headers(&self, column: &ArrayRef, part: Part) -> Result<Option<Headers>, String> {
        let mut names = vec![part.header()];
        if matches!(self, Format::Avro { .. }) {
            names.push(part.content_header());
        }
        Headers::of(column, names, self.others(part))
    }

    /// Returns the headers of other registries to look for. There are none if the user has chosen a framing with a
    /// prefix, which then applies regardless of headers.
    fn others(&self, part: Part) -> Vec<Other> {
        match self {
            Format::Avro { options, .. } | Format::Protobuf { options, .. }
                if matches!(options.framing, Framing::Auto | Framing::Header) =>
            {
                Other::all(part, matches!(self, Format::Protobuf { .. }))
            }
            _ => Vec::new(),
        }
    }

    /// Returns the schema ids and GUIDs in the values that still have to be looked up in the registry.
    pub fn unknown<'a>(
        &self,
        values: impl Iterator<Item = Option<&'a [u8]>>,
        headers: Option<&Headers>,
    ) -> BTreeSet<SchemaId> {
        let Some((_, writers)) = self.writers() else { return BTreeSet::new() };
        let (mut found, mut last, mut last_id) = (BTreeSet::new(), None, None);
        for (row, value) in values.enumerate() {
            let Some(value) = value else { continue };
            let header = headers.and_then(|headers| headers.of_row(row));
            // Most values have the same prefix as the previous value, so their id was already handled.
            let prefix = value.first_chunk::<5>().filter(|_| header.is_none() && self.has_prefix());
            if prefix.is_some() && prefix == last {
                continue;
            }
            if header.is_none() && headers.is_some_and(|headers| headers.other(row, value).is_some()) {
                continue;
            }
            let Some(id) = self.id(value, header).filter(|id| last_id.replace(*id) != Some(*id)) else { continue };
            // Id 0 does not exist in registries.
            if id != SchemaId::Id(0) && matches!(id, SchemaId::Id(_) | SchemaId::Guid(_)) {
                found.insert(id);
            }
            last = prefix;
        }
        let writers = lock(writers);
        found.retain(|id| !writers.settles(*id));
        found
    }

    /// Adds the writer's schemas learned since `known` to a decoder. Returns the number of all learned schemas, for the
    /// next call.
    pub fn catch_up(&self, decoder: &mut Decoder, known: usize) -> usize {
        let Some((_, writers)) = self.writers() else { return 0 };
        lock(writers).catch_up(decoder, known)
    }
}
