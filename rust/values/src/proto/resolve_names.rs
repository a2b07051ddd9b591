//! Name resolution: merges files into one pool of messages, and determines the types and features of fields.

use std::sync::Arc;

use super::file::{
    Default as Given, Features, Field as RawField, File, Label, Message as Raw, Presence, Scalar, Syntax, Type,
};
use super::schema::{Entity, Enum, Field, Kind, Literal, Message, Pool};
use super::{builtin_files, lexer, parse};
use crate::error::SchemaError;

/// Maximum field number.
const MAX_NUMBER: i64 = (1 << 29) - 1;

type Resolved<T> = Result<T, SchemaError>;

pub(super) fn resolve_names(own: File, others: Vec<File>) -> Resolved<Pool> {
    let mut pool = Pool::default();
    let mut files = vec![own];
    files.extend(others);
    // Add the bundled files last. If a name is declared several times, the first declaration counts, so the caller's
    // files take precedence.
    for text in builtin_files::FILES {
        let mut file = parse::parse(text)?;
        file.syntax = Syntax::Proto3;
        files.push(file);
    }
    let is_imported = |name: &str| files.iter().any(|file| file.imports.iter().any(|import| import == name));
    if builtin_files::DESCRIBING.iter().any(|(name, _)| is_imported(name)) {
        for (_, text) in builtin_files::DESCRIBING {
            files.push(parse::parse(text)?);
        }
    }
    let mut open = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let own = declare_all(&mut pool, &file.package, &file.messages, file.features, number, &mut open)?;
        declare_enums(&mut pool, &file.package, &file.enums, number)?;
        if number == 0 {
            pool.own = own;
        }
    }
    for Unresolved { id, raw, features, file } in open {
        let Some(of) = files.get(file) else {
            return Err(SchemaError::new(&raw.name, "the message's file is missing"));
        };
        let scope = pool.messages.get(id).map_or_else(Default::default, |message| Arc::clone(&message.name));
        let made = raw.fields.iter().map(|field| self::field(&pool, of, raw, field, features, &scope));
        let fields = made.collect::<Resolved<Vec<_>>>()?;
        unique(&fields, &scope)?;
        if let Some(message) = pool.messages.get_mut(id) {
            message.fields = fields;
        }
    }
    Ok(pool)
}

/// Message whose fields still have to be resolved.
struct Unresolved<'a> {
    id: usize,
    raw: &'a Raw,
    features: Features,
    file: usize,
}

fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

/// Declares messages and the types nested in them. Returns the ids of the messages that message indexes refer to.
fn declare_all<'a>(
    pool: &mut Pool,
    scope: &str,
    messages: &'a [Raw],
    above: Features,
    file: usize,
    open: &mut Vec<Unresolved<'a>>,
) -> Resolved<Vec<usize>> {
    let mut counted = Vec::new();
    for raw in messages {
        let name = join(scope, &raw.name);
        let id = pool.messages.len();
        if declare(pool, &name, Entity::Message(id), file)? {
            let features = raw.features.or(above);
            let message =
                Message { name: name.as_str().into(), fields: Vec::new(), nested: Vec::new(), entry: raw.entry };
            pool.messages.push(message);
            open.push(Unresolved { id, raw, features, file });
            declare_enums(pool, &name, &raw.enums, file)?;
            let nested = declare_all(pool, &name, &raw.messages, features, file, open)?;
            if let Some(message) = pool.messages.get_mut(id) {
                message.nested = nested;
            }
            if !raw.entry && !raw.group {
                counted.push(id);
            }
        }
    }
    Ok(counted)
}

fn declare_enums(pool: &mut Pool, scope: &str, enums: &[super::file::Enum], file: usize) -> Resolved<()> {
    for raw in enums {
        let name = join(scope, &raw.name);
        if declare(pool, &name, Entity::Enum(pool.enums.len()), file)? {
            if raw.values.is_empty() {
                return Err(SchemaError::new("", format!("enum {name} has no values")));
            }
            let values = raw.values.iter().map(|(name, number)| (name.as_str().into(), *number)).collect();
            pool.enums.push(Enum { name: name.into(), values });
        }
    }
    Ok(())
}

/// Declares a name. Returns true if the name is new. Names must be unique in the file itself, but imports may declare
/// them again.
fn declare(pool: &mut Pool, name: &str, entity: Entity, file: usize) -> Resolved<bool> {
    if pool.names.contains_key(name) {
        let text = format!("{name} is declared twice");
        return if file == 0 { Err(SchemaError::new("", text)) } else { Ok(false) };
    }
    pool.names.insert(name.to_owned(), entity);
    Ok(true)
}

fn unique(fields: &[Field], scope: &str) -> Resolved<()> {
    let mut numbers: Vec<u32> = fields.iter().map(|field| field.number).collect();
    let mut names: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
    numbers.sort_unstable();
    names.sort_unstable();
    if let Some(number) = first_duplicate(&numbers) {
        return Err(SchemaError::new("", format!("message {scope} has two fields of number {number}")));
    }
    match first_duplicate(&names) {
        Some(name) => Err(SchemaError::new("", format!("message {scope} has two fields {name}"))),
        None => Ok(()),
    }
}

fn first_duplicate<T: PartialEq>(sorted: &[T]) -> Option<&T> {
    sorted.iter().zip(sorted.iter().skip(1)).find(|(one, next)| one == next).map(|(one, _)| one)
}

fn field(pool: &Pool, file: &File, raw: &Raw, field: &RawField, above: Features, scope: &str) -> Resolved<Field> {
    let path = join(scope, &field.name);
    let fail = |text: String| Err(SchemaError::new(&path, text));
    let number = match u32::try_from(field.number) {
        Ok(number) if number > 0 && field.number <= MAX_NUMBER => number,
        _ => return fail(format!("{} is no field number", field.number)),
    };
    let oneof = field.oneof.and_then(|at| raw.oneofs.get(at)).copied().unwrap_or_default();
    let features = field.features.or(oneof).or(above);
    let mut kind = match &field.kind {
        Type::Scalar(scalar) => Kind::Scalar(*scalar),
        Type::Group(name) => match find(pool, scope, name) {
            Some(Entity::Message(id)) => Kind::Group(id),
            _ => return fail(format!("there is no group {name}")),
        },
        Type::Named(name) => match find(pool, scope, name) {
            Some(Entity::Message(id)) => Kind::Message(id),
            Some(Entity::Enum(id)) => Kind::Enum(id),
            None => return fail(unknown_type(name, file)),
        },
    };
    let is_entry = |id: usize| pool.messages.get(id).is_some_and(|message| message.entry);
    if let Kind::Message(id) = kind
        && file.syntax == Syntax::Editions
        && features.delimited == Some(true)
        && !is_entry(id)
        // Map entries and their values always have a length prefix, regardless of the features.
        && !raw.entry
    {
        kind = Kind::Group(id);
    }
    if raw.entry
        && matches!(
            kind,
            Kind::Scalar(Scalar::Double | Scalar::Float | Scalar::Bytes) | Kind::Enum(_) | Kind::Message(_)
        )
        && number == 1
    {
        return fail("keys of maps are integers, booleans or text".to_owned());
    }
    let repeated = field.label == Label::Repeated;
    let is_message = matches!(kind, Kind::Message(_) | Kind::Group(_));
    let (presence, required) = match file.syntax {
        Syntax::Proto2 => (true, field.label == Label::Required),
        Syntax::Proto3 => (field.label == Label::Optional, false),
        Syntax::Editions => {
            (features.presence != Some(Presence::Implicit), features.presence == Some(Presence::Required))
        }
    };
    let presence = presence || is_message || field.oneof.is_some();
    let packed = match file.syntax {
        Syntax::Proto2 => field.packed.unwrap_or(false),
        Syntax::Proto3 => field.packed.unwrap_or(true),
        Syntax::Editions => features.packed.unwrap_or(true),
    };
    let default = match &field.default {
        None => None,
        Some(default) => match literal(pool, kind, default) {
            Some(found) => Some(found),
            None => return fail(format!("the default {default:?} is not of the field's type")),
        },
    };
    Ok(Field {
        name: field.name.as_str().into(),
        number,
        kind,
        repeated,
        packed: packed && repeated,
        presence: presence && !repeated && !raw.entry,
        required: required && !repeated,
        oneof: field.oneof,
        default,
    })
}

fn unknown_type(name: &str, file: &File) -> String {
    let imports = file.imports.iter().filter(|import| !import.starts_with("google/protobuf/")).map(String::as_str);
    let imports: Vec<_> = imports.take(100).collect();
    match *imports {
        [] => format!("there is no type {name}"),
        _ => format!("there is no type {name} here, nor in the imports that are given, of {}", imports.join(", ")),
    }
}

/// Resolves a name as seen from a scope. The innermost declaration counts.
fn find(pool: &Pool, scope: &str, name: &str) -> Option<Entity> {
    if let Some(full) = name.strip_prefix('.') {
        return pool.names.get(full).copied();
    }
    let mut scope = scope;
    loop {
        if let Some(found) = pool.names.get(&join(scope, name)) {
            return Some(*found);
        }
        if scope.is_empty() {
            return None;
        }
        scope = scope.rsplit_once('.').map_or("", |(above, _)| above);
    }
}

fn literal(pool: &Pool, kind: Kind, default: &Given) -> Option<Literal> {
    let word = match default {
        Given::Word(word) => word.as_str(),
        Given::Quoted(text) => return Some(Literal::Bytes(text.clone())).filter(|_| is_bytes(kind)),
    };
    let integer = || {
        let (minus, digits) = word.strip_prefix('-').map_or((false, word), |digits| (true, digits));
        let number = parse::integer(digits)? as i64;
        Some(Literal::Integer(if minus { number.wrapping_neg() } else { number }))
    };
    match kind {
        Kind::Scalar(Scalar::Double | Scalar::Float) => word.parse().ok().map(Literal::Float),
        Kind::Scalar(Scalar::Bool) => word.parse().ok().map(Literal::Bool),
        Kind::Scalar(Scalar::String) => Some(Literal::Bytes(word.as_bytes().to_vec())),
        Kind::Scalar(Scalar::Bytes) => lexer::unescape(word).map(Literal::Bytes),
        Kind::Scalar(_) => integer(),
        Kind::Enum(id) => {
            let values = &pool.enums.get(id)?.values;
            values.iter().find(|(name, _)| **name == *word).map(|(_, number)| Literal::Integer(i64::from(*number)))
        }
        Kind::Message(_) | Kind::Group(_) => None,
    }
}

fn is_bytes(kind: Kind) -> bool {
    matches!(kind, Kind::Scalar(Scalar::String | Scalar::Bytes))
}
