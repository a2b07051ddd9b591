//! The formats that values are read in.

use std::sync::{Arc, Mutex, PoisonError};

use samsarrow_values::avro::Schema;
use samsarrow_values::frame::split;
use samsarrow_values::plain::Plain;
use samsarrow_values::{Decoder, Enums, Framing, Options, SchemaId, json, proto};

use crate::writers::{Kind, Writers};

/// How values are read.
pub(crate) enum Format {
    Plain(Plain),
    Avro {
        schema: Schema,
        options: Options,
        writers: Arc<Mutex<Writers>>,
    },
    Json {
        schema: json::Schema,
        options: Options,
    },
    Protobuf {
        schema: proto::Schema,
        message: Option<String>,
        by_id: bool,
        options: Options,
        writers: Arc<Mutex<Writers>>,
    },
}

impl Format {
    /// One that knows no writers but those of its schema.
    pub(crate) fn decoder(&self) -> Result<Decoder, String> {
        let made = match self {
            Format::Plain(plain) => Ok(Decoder::plain(*plain)),
            Format::Avro { schema, options, .. } => Decoder::avro(schema, options),
            Format::Json { schema, options } => Decoder::json(schema, options),
            Format::Protobuf { schema, message, by_id, options, .. } => {
                Decoder::protobuf(schema, message.as_deref(), *by_id, options)
            }
        };
        made.map_err(|error| error.to_string())
    }

    /// What is known of writers, and of which kind their schemas are.
    pub(crate) fn writers(&self) -> Option<(Kind, &Arc<Mutex<Writers>>)> {
        match self {
            Format::Plain(_) | Format::Json { .. } => None,
            Format::Avro { writers, .. } => Some((Kind::Avro, writers)),
            Format::Protobuf { writers, .. } => Some((Kind::Protobuf, writers)),
        }
    }

    /// Which schema a value names.
    pub(crate) fn id(&self, value: &[u8], header: Option<&[u8]>) -> Option<SchemaId> {
        match self {
            Format::Plain(_) | Format::Json { .. } => None,
            Format::Avro { options, .. } => split(options.framing, value, header).ok().map(|(id, _)| id),
            Format::Protobuf { options, .. } => proto::split(options.framing, value, header).ok().map(|(id, ..)| id),
        }
    }

    /// Has a decoder know what was learned since.
    pub(crate) fn catch_up(&self, decoder: &mut Decoder, known: usize) -> usize {
        let Some((_, writers)) = self.writers() else { return 0 };
        writers.lock().unwrap_or_else(PoisonError::into_inner).catch_up(decoder, known)
    }
}

pub(crate) fn framing_of(name: &str, names: &[&str]) -> Result<Framing, String> {
    let known = names.contains(&name).then(|| Framing::from_name(name)).flatten();
    let (last, others) = names.split_last().map_or(("", &[][..]), |(last, others)| (*last, others));
    known.ok_or_else(|| format!("framing must be {} or {last}, not {name:?}", others.join(", ")))
}

pub(crate) fn enums_of(name: &str) -> Result<Enums, String> {
    match name {
        "string" => Ok(Enums::Strings),
        "dictionary" => Ok(Enums::Dictionary),
        other => Err(format!("enums must be string or dictionary, not {other:?}")),
    }
}
