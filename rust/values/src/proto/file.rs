//! A `.proto` file before name resolution, parsed from text or from a descriptor.

/// Features of fields. A feature that is not set is inherited from the enclosing scope.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Features {
    pub(super) presence: Option<Presence>,
    pub(super) packed: Option<bool>,
    /// True if messages are delimited by two tags instead of having a length prefix.
    pub(super) delimited: Option<bool>,
}

impl Features {
    /// Returns these features. Features that are not set are taken from `above`.
    pub(super) fn or(self, above: Features) -> Features {
        Features {
            presence: self.presence.or(above.presence),
            packed: self.packed.or(above.packed),
            delimited: self.delimited.or(above.delimited),
        }
    }

    /// Sets a feature from `features.NAME = VALUE`. Features that do not affect decoding are ignored.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        match (name, value) {
            ("field_presence", "EXPLICIT") => self.presence = Some(Presence::Explicit),
            ("field_presence", "IMPLICIT") => self.presence = Some(Presence::Implicit),
            ("field_presence", "LEGACY_REQUIRED") => self.presence = Some(Presence::Required),
            ("repeated_field_encoding", value) => self.packed = Some(value == "PACKED"),
            ("message_encoding", value) => self.delimited = Some(value == "DELIMITED"),
            _ => (),
        }
    }
}

/// Field presence: determines whether a missing field differs from a field with the default value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Explicit,
    Implicit,
    Required,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Syntax {
    #[default]
    Proto2,
    Proto3,
    Editions,
}

/// A `.proto` file.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) syntax: Syntax,
    pub(super) package: String,
    pub(super) imports: Vec<String>,
    pub(super) messages: Vec<Message>,
    pub(super) enums: Vec<Enum>,
    pub(super) features: Features,
}

#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
    pub(super) messages: Vec<Message>,
    pub(super) enums: Vec<Enum>,
    /// Features of each oneof in the message.
    pub(super) oneofs: Vec<Features>,
    pub(super) features: Features,
    /// True for the synthetic message that represents the entry of a map.
    pub(super) entry: bool,
    /// True for the synthetic message that represents a group.
    pub(super) group: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Label {
    /// No label, or `optional` in proto2.
    #[default]
    Singular,
    /// `optional` in proto3, which means explicit presence.
    Optional,
    Required,
    Repeated,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) number: i64,
    pub(super) label: Label,
    pub(super) kind: Type,
    pub(super) oneof: Option<usize>,
    pub(super) default: Option<Default>,
    pub(super) packed: Option<bool>,
    pub(super) features: Features,
}

/// A default value as it is written in the file.
#[derive(Debug)]
pub(super) enum Default {
    /// A number or a name. In descriptors, also the text of a string.
    Word(String),
    /// Content of a quoted string.
    Quoted(Vec<u8>),
}

#[derive(Debug)]
pub(super) enum Type {
    Scalar(Scalar),
    /// Message or enum, by a name that is not resolved yet.
    Named(String),
    Group(String),
}

#[derive(Debug, Default)]
pub(super) struct Enum {
    pub(super) name: String,
    pub(super) values: Vec<(String, i32)>,
}

/// Scalar types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Double,
    Float,
    Int64,
    Uint64,
    Int32,
    Fixed64,
    Fixed32,
    Bool,
    String,
    Bytes,
    Uint32,
    Sfixed32,
    Sfixed64,
    Sint32,
    Sint64,
}

/// Scalar types with their names in files and their numbers in descriptors.
const SCALARS: [(Scalar, &str, u64); 15] = [
    (Scalar::Double, "double", 1),
    (Scalar::Float, "float", 2),
    (Scalar::Int64, "int64", 3),
    (Scalar::Uint64, "uint64", 4),
    (Scalar::Int32, "int32", 5),
    (Scalar::Fixed64, "fixed64", 6),
    (Scalar::Fixed32, "fixed32", 7),
    (Scalar::Bool, "bool", 8),
    (Scalar::String, "string", 9),
    (Scalar::Bytes, "bytes", 12),
    (Scalar::Uint32, "uint32", 13),
    (Scalar::Sfixed32, "sfixed32", 15),
    (Scalar::Sfixed64, "sfixed64", 16),
    (Scalar::Sint32, "sint32", 17),
    (Scalar::Sint64, "sint64", 18),
];

impl Scalar {
    pub(super) fn from_name(name: &str) -> Option<Scalar> {
        SCALARS.iter().find(|(_, other, _)| *other == name).map(|(scalar, ..)| *scalar)
    }

    pub(super) fn from_number(number: u64) -> Option<Scalar> {
        SCALARS.iter().find(|(.., other)| *other == number).map(|(scalar, ..)| *scalar)
    }

    pub(super) fn name(self) -> &'static str {
        SCALARS.iter().find(|(other, ..)| *other == self).map_or("", |(_, name, _)| name)
    }

    /// Returns the wire type: 0 for varints, 1 for 8 bytes, 5 for 4 bytes, 2 for data with a length prefix.
    pub(super) fn wire(self) -> u32 {
        match self {
            Scalar::Double | Scalar::Fixed64 | Scalar::Sfixed64 => 1,
            Scalar::Float | Scalar::Fixed32 | Scalar::Sfixed32 => 5,
            Scalar::String | Scalar::Bytes => 2,
            _ => 0,
        }
    }
}
