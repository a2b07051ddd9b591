//! Parser of serialized descriptors: a FileDescriptorSet, or a single FileDescriptorProto. The field numbers are those
//! in descriptor.proto.

use super::file::{Default as Given, Enum, Features, Field, File, Label, Message, Presence, Scalar, Syntax, Type};
use super::skip;
use crate::byte_reader::ByteReader;
use crate::error::{SchemaError, Step};

/// Maximum nesting of messages.
const MAX_DEPTH: usize = 64;

pub(super) fn file_set(bytes: &[u8]) -> Result<Vec<File>, SchemaError> {
    let mut files = Vec::new();
    let read = each(bytes, |number, part| {
        if number == 1 {
            files.push(parse_file(part.bytes)?);
        }
        Ok(())
    });
    read.map_err(|fault| SchemaError::new("", format!("these bytes are no FileDescriptorSet: {}", fault.reason)))?;
    Ok(files)
}

pub(super) fn file(bytes: &[u8]) -> Result<File, SchemaError> {
    let read = parse_file(bytes);
    read.map_err(|fault| SchemaError::new("", format!("these bytes are no FileDescriptorProto: {}", fault.reason)))
}

/// Value of a descriptor's field: a number or bytes.
struct Part<'a> {
    number: u64,
    bytes: &'a [u8],
}

impl Part<'_> {
    fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes).into_owned()
    }
}

fn each<'a>(bytes: &'a [u8], mut take: impl FnMut(u32, Part<'a>) -> Step) -> Step {
    let mut input = ByteReader::new(bytes);
    while input.len() > 0 {
        let tag = skip::tag(&mut input)?;
        let part = match tag & 7 {
            0 => Part { number: input.varint()?, bytes: &[] },
            2 => Part { number: 0, bytes: input.delimited()?.0 },
            _ => {
                skip::field(&mut input, tag)?;
                continue;
            }
        };
        take(tag >> 3, part)?;
    }
    Ok(())
}

fn parse_file(bytes: &[u8]) -> Step<File> {
    let mut file = File::default();
    each(bytes, |number, part| {
        match number {
            2 => file.package = part.text(),
            3 => file.imports.push(part.text()),
            4 => file.messages.push(message(part.bytes, 0)?),
            5 => file.enums.push(enumeration(part.bytes)?),
            8 => file.features = features_at(50, part.bytes)?.or(file.features),
            12 => {
                file.syntax = match part.bytes {
                    b"proto3" => Syntax::Proto3,
                    b"editions" => Syntax::Editions,
                    _ => Syntax::Proto2,
                }
            }
            _ => (),
        }
        Ok(())
    })?;
    Ok(file)
}

fn message(bytes: &[u8], depth: usize) -> Step<Message> {
    if depth >= MAX_DEPTH {
        return Err(skip::too_deep());
    }
    let mut message = Message::default();
    each(bytes, |number, part| {
        match number {
            1 => message.name = part.text(),
            2 => message.fields.push(field(part.bytes)?),
            3 => message.messages.push(self::message(part.bytes, depth + 1)?),
            4 => message.enums.push(enumeration(part.bytes)?),
            7 => {
                message.features = features_at(12, part.bytes)?.or(message.features);
                each(part.bytes, |number, part| {
                    message.entry |= number == 7 && part.number != 0;
                    Ok(())
                })?;
            }
            8 => {
                let mut features = Features::default();
                each(part.bytes, |number, part| {
                    if number == 2 {
                        features = features_at(1, part.bytes)?;
                    }
                    Ok(())
                })?;
                message.oneofs.push(features);
            }
            _ => (),
        }
        Ok(())
    })?;
    for group in message.fields.iter().filter_map(|field| match &field.kind {
        Type::Group(name) => Some(name.rsplit('.').next().unwrap_or(name)),
        _ => None,
    }) {
        message.messages.iter_mut().filter(|inner| inner.name == group).for_each(|inner| inner.group = true);
    }
    Ok(message)
}

fn field(bytes: &[u8]) -> Step<Field> {
    let mut field = Field {
        name: String::new(),
        number: 0,
        label: Label::Singular,
        kind: Type::Named(String::new()),
        oneof: None,
        default: None,
        packed: None,
        features: Features::default(),
    };
    let (mut kind, mut type_name, mut optional) = (0, String::new(), false);
    each(bytes, |number, part| {
        match number {
            1 => field.name = part.text(),
            3 => field.number = part.number as i64,
            4 if part.number == 2 => field.label = Label::Required,
            4 if part.number == 3 => field.label = Label::Repeated,
            5 => kind = part.number,
            6 => type_name = part.text(),
            7 => field.default = Some(Given::Word(part.text())),
            8 => {
                field.features = features_at(21, part.bytes)?.or(field.features);
                each(part.bytes, |number, part| {
                    if number == 2 {
                        field.packed = Some(part.number != 0);
                    }
                    Ok(())
                })?;
            }
            9 => field.oneof = usize::try_from(part.number).ok(),
            17 => optional = part.number != 0,
            _ => (),
        }
        Ok(())
    })?;
    if optional {
        // A field that is `optional` in proto3 is the only member of a synthetic oneof, which is dropped here.
        (field.label, field.oneof) = (Label::Optional, None);
    }
    field.kind = match Scalar::from_number(kind) {
        Some(scalar) => Type::Scalar(scalar),
        None if kind == 10 => Type::Group(type_name),
        None => Type::Named(type_name),
    };
    Ok(field)
}

fn enumeration(bytes: &[u8]) -> Step<Enum> {
    let mut found = Enum::default();
    each(bytes, |number, part| {
        match number {
            1 => found.name = part.text(),
            2 => {
                let mut value = (String::new(), 0);
                each(part.bytes, |number, part| {
                    match number {
                        1 => value.0 = part.text(),
                        2 => value.1 = part.number as i32,
                        _ => (),
                    }
                    Ok(())
                })?;
                found.values.push(value);
            }
            _ => (),
        }
        Ok(())
    })?;
    Ok(found)
}

/// Returns the features in the field `at` of serialized options.
fn features_at(at: u32, options: &[u8]) -> Step<Features> {
    let mut features = Features::default();
    each(options, |number, part| {
        if number != at {
            return Ok(());
        }
        each(part.bytes, |number, part| {
            match (number, part.number) {
                (1, 1) => features.presence = Some(Presence::Explicit),
                (1, 2) => features.presence = Some(Presence::Implicit),
                (1, 3) => features.presence = Some(Presence::Required),
                (3, value @ 1..=2) => features.packed = Some(value == 1),
                (5, value @ 1..=2) => features.delimited = Some(value == 2),
                _ => (),
            }
            Ok(())
        })
    })?;
    Ok(features)
}
