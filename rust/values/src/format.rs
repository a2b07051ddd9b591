//! The formats that values are read in, and what is known of their writers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ArrayRef;

use crate::avro::Schema;
use crate::decoder::{Decoder, Options};
use crate::error::SchemaError;
use crate::frame::{Framing, Part, SchemaId, split};
use crate::headers::Headers;
use crate::others::Other;
use crate::plain::Plain;
use crate::writers::{Kind, Writers};
use crate::{json, proto};

/// How values are read.
#[derive(Debug)]
pub enum Format {
    /// As one of Kafka's own types.
    Plain(Plain),
    /// As Avro.
    Avro {
        /// What rows look like.
        schema: Schema,
        /// How they are read.
        options: Options,
        /// What they were written with.
        writers: Arc<Mutex<Writers>>,
    },
    /// As JSON.
    Json {
        /// What rows look like.
        schema: json::Schema,
        /// How they are read.
        options: Options,
    },
    /// As Protobuf.
    Protobuf {
        /// What has the message.
        schema: proto::Schema,
        /// What rows look like; none is the first message.
        message: Option<String>,
        /// Whether ids stand for what is said of them alone.
        by_id: bool,
        /// How they are read.
        options: Options,
        /// What they were written with.
        writers: Arc<Mutex<Writers>>,
    },
}

impl Format {
    /// One that knows no writers but those of its schema.
    ///
    /// # Errors
    /// The schema has no Arrow type, or no such field or message.
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

    /// What is known of writers, and of which kind their schemas are.
    pub fn writers(&self) -> Option<(Kind, &Arc<Mutex<Writers>>)> {
        match self {
            Format::Plain(_) | Format::Json { .. } => None,
            Format::Avro { writers, .. } => Some((Kind::Avro, writers)),
            Format::Protobuf { writers, .. } => Some((Kind::Protobuf, writers)),
        }
    }

    /// Which schema a value names.
    fn id(&self, value: &[u8], header: Option<&[u8]>) -> Option<SchemaId> {
        match self {
            Format::Plain(_) | Format::Json { .. } => None,
            Format::Avro { options, .. } => split(options.framing, value, header).ok().map(|(id, _)| id),
            Format::Protobuf { options, .. } => proto::split(options.framing, value, header).ok().map(|(id, ..)| id),
        }
    }

    /// Whether the first five bytes of a value name its schema where no header does.
    fn has_prefix(&self) -> bool {
        match self {
            Format::Plain(_) | Format::Json { .. } => false,
            Format::Avro { options, .. } => options.framing.has_prefix(),
            Format::Protobuf { options, .. } => options.framing.has_prefix(),
        }
    }

    /// The headers of records that name schemas: Confluent's, and of Avro Apicurio's. None where no record has headers.
    ///
    /// # Errors
    /// The column is of another type; the text says so.
    pub fn headers(&self, column: &ArrayRef, part: Part) -> Result<Option<Headers>, String> {
        let mut names = vec![part.header()];
        if matches!(self, Format::Avro { .. }) {
            names.push(part.content_header());
        }
        Headers::of(column, names, self.others(part))
    }

    /// The headers of other registries; a framing that is requested applies whatever headers there are.
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

    /// The ids and GUIDs that values name, and that a registry is to be asked for.
    pub fn unknown<'a>(
        &self,
        values: impl Iterator<Item = Option<&'a [u8]>>,
        headers: Option<&Headers>,
    ) -> BTreeSet<SchemaId> {
        let Some((_, writers)) = self.writers() else { return BTreeSet::new() };
        let (mut found, mut last) = (BTreeSet::new(), None);
        for (row, value) in values.enumerate() {
            let Some(value) = value else { continue };
            let header = headers.and_then(|headers| headers.of_row(row));
            // Most values have the prefix of the one before.
            let prefix = value.first_chunk::<5>().filter(|_| header.is_none() && self.has_prefix());
            if prefix.is_some() && prefix == last {
                continue;
            }
            if header.is_none() && headers.is_some_and(|headers| headers.other(row, value).is_some()) {
                continue;
            }
            let Some(id) = self.id(value, header) else { continue };
            // No registry has id 0.
            if id != SchemaId::Id(0) && matches!(id, SchemaId::Id(_) | SchemaId::Guid(_)) {
                found.insert(id);
            }
            last = prefix;
        }
        let writers = writers.lock().unwrap_or_else(PoisonError::into_inner);
        found.retain(|id| !writers.settles(*id));
        found
    }

    /// Has a decoder, which knows the first `known` of what was learned, know all; gives how much that is.
    pub fn catch_up(&self, decoder: &mut Decoder, known: usize) -> usize {
        let Some((_, writers)) = self.writers() else { return 0 };
        writers.lock().unwrap_or_else(PoisonError::into_inner).catch_up(decoder, known)
    }
}
