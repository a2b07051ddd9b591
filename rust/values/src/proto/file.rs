//! What a file says, before names are looked up: from its text, or from its descriptor.

/// How fields say whether they are there, and lists how they are written; what is above holds where nothing is said.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Features {
    pub(super) presence: Option<Presence>,
    pub(super) packed: Option<bool>,
    /// Messages stand between two tags instead of behind a length.
    pub(super) delimited: Option<bool>,
}

impl Features {
    /// These, and for what they leave open those.
    pub(super) fn or(self, above: Features) -> Features {
        Features {
            presence: self.presence.or(above.presence),
            packed: self.packed.or(above.packed),
            delimited: self.delimited.or(above.delimited),
        }
    }

    /// Takes `features.NAME = VALUE`, if it matters here.
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

/// Whether a field that is not there is told from one that has its default.
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

/// A file.
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
    /// Of each oneof.
    pub(super) oneofs: Vec<Features>,
    pub(super) features: Features,
    /// It was made for a field that is a map.
    pub(super) entry: bool,
    /// It was made for a field that is a group.
    pub(super) group: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Label {
    /// None, or `optional` in proto2.
    #[default]
    Singular,
    /// `optional` where it makes a difference.
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

/// A default, as it is written.
#[derive(Debug)]
pub(super) enum Default {
    /// A number or a name; in descriptors also text.
    Word(String),
    /// What stood between quotes.
    Quoted(Vec<u8>),
}

#[derive(Debug)]
pub(super) enum Type {
    Scalar(Scalar),
    /// A message or an enum, as it is called here.
    Named(String),
    Group(String),
}

#[derive(Debug, Default)]
pub(super) struct Enum {
    pub(super) name: String,
    pub(super) values: Vec<(String, i32)>,
}

/// Types that are not made of others.
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

/// Each with its name, and its number in descriptors.
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

    /// How the wire has it: 0 for varints, 1 and 5 for 8 and 4 bytes, 2 for what has a length.
    pub(super) fn wire(self) -> u32 {
        match self {
            Scalar::Double | Scalar::Fixed64 | Scalar::Sfixed64 => 1,
            Scalar::Float | Scalar::Fixed32 | Scalar::Sfixed32 => 5,
            Scalar::String | Scalar::Bytes => 2,
            _ => 0,
        }
    }
}
