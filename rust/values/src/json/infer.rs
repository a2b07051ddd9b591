//! Inference of the common type of JSON values.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema as ArrowSchema};

use super::error::JsonError;
use super::reader::{payload, with_position};
use super::scan::{Scan, unescape};
use super::schema::json_field;
use crate::error::{BadValue, Reason, SchemaError, Step};
use crate::framing::Framing;

/// Maximum nesting of inferred types. Values that are nested deeper become JSON text.
const MAX_DEPTH: usize = 32;
/// Maximum number of names in an object. An object with more names probably uses them as data, so it becomes JSON text.
const MAX_NAMES: usize = 1_000;
/// Maximum number of types in the inferred schema.
const MAX_TYPES: usize = 10_000;

/// Infers a type that accepts all values pushed so far.
#[derive(Debug, Default)]
pub struct Inference {
    root: Kind,
    rows: usize,
    types: usize,
}

/// Common kind of all values at the same path.
#[derive(Debug, Default)]
enum Kind {
    /// All values are null.
    #[default]
    Nothing,
    Boolean,
    /// Integers. `negative` is true if at least one is below 0, `beyond` if at least one needs more than 63 bits.
    Whole {
        negative: bool,
        beyond: bool,
    },
    Double,
    Text,
    List(Box<Kind>),
    Object(Names),
    /// Values of several kinds, or a value that exceeds a limit.
    Any,
}

/// Members of an object, in the order of their first appearance.
#[derive(Debug, Default)]
struct Names {
    places: HashMap<Box<[u8]>, usize>,
    members: Vec<Kind>,
}

impl Inference {
    /// Adds a value, which may have the prefix of Confluent's serializers. `None` is null.
    ///
    /// # Errors
    /// Fails if the value is not valid JSON.
    pub fn push(&mut self, value: Option<&[u8]>) -> Result<(), BadValue> {
        self.rows += 1;
        let Some(value) = value else { return Ok(()) };
        let text = payload(Framing::Auto, value, None);
        let done = text.and_then(|text| self.take(text).map_err(|fault| with_position(fault, text.len())));
        done.map_err(|fault| BadValue {
            row: self.rows - 1,
            schema: None,
            path: fault.path,
            reason: fault.reason.to_string(),
        })
    }

    fn take(&mut self, text: &[u8]) -> Step {
        let mut scan = Scan::new(text);
        scan.skip_whitespace();
        if scan.remaining() == 0 {
            return Err(Reason::from(JsonError::Empty).into());
        }
        let mut end = self.root.merge(scan, &mut self.types, 0)?;
        end.skip_whitespace();
        if end.remaining() == 0 { Ok(()) } else { Err(Reason::from(JsonError::Trailing(end.remaining())).into()) }
    }

    /// Returns the columns for the members of the objects. All columns are nullable.
    ///
    /// # Errors
    /// Fails if no object with members was pushed, if a value was not an object, or if there are too many members or
    /// types.
    pub fn finish(self) -> Result<ArrowSchema, SchemaError> {
        if self.types > MAX_TYPES {
            let text = format!("the values have more than {MAX_TYPES} types: give a schema");
            return Err(SchemaError::new("", text));
        }
        match self.root {
            Kind::Object(names) if !names.members.is_empty() => Ok(ArrowSchema::new(names.fields())),
            Kind::Object(_) | Kind::Nothing => Err(SchemaError::new("", "no value has a field to infer a schema from")),
            _ => Err(SchemaError::new("", "not all values are objects with up to 1000 names: give a schema")),
        }
    }
}

impl Names {
    fn fields(self) -> Vec<Field> {
        let mut names: Vec<_> = self.places.into_iter().collect();
        names.sort_unstable_by_key(|(_, place)| *place);
        let fields = names.iter().zip(self.members);
        fields.map(|((name, _), kind)| kind.field(&String::from_utf8_lossy(name))).collect()
    }
}

impl Kind {
    fn field(self, name: &str) -> Field {
        let kind = match self {
            Kind::Boolean => DataType::Boolean,
            Kind::Whole { beyond: false, .. } => DataType::Int64,
            Kind::Whole { negative: false, .. } => DataType::UInt64,
            Kind::Whole { .. } | Kind::Double => DataType::Float64,
            Kind::Text => DataType::Utf8,
            Kind::List(item) => DataType::List(Arc::new(item.field("item"))),
            Kind::Object(names) if !names.members.is_empty() => DataType::Struct(names.fields().into()),
            // The type is not known or not uniform, so the column accepts any value.
            Kind::Nothing | Kind::Object(_) | Kind::Any => return json_field(name, true),
        };
        Field::new(name, kind, true)
    }

    /// Adds a value to the inferred kind. The recursion is limited by [`MAX_DEPTH`].
    fn merge<'a>(&mut self, mut scan: Scan<'a>, types: &mut usize, depth: usize) -> Step<Scan<'a>> {
        let from = scan;
        match scan.peek() {
            Some(b'{') if depth < MAX_DEPTH => {
                if matches!(self, Kind::Nothing) {
                    *self = Kind::Object(Names::default());
                }
                match self {
                    Kind::Object(names) => {
                        let (end, fits) = names.merge(scan, types, depth)?;
                        if !fits {
                            *self = Kind::Any;
                        }
                        Ok(end)
                    }
                    _ => self.mixed(from),
                }
            }
            Some(b'[') if depth < MAX_DEPTH => {
                if matches!(self, Kind::Nothing) {
                    *types += 1;
                    *self = Kind::List(Box::default());
                }
                match self {
                    Kind::List(item) => items(item, scan, types, depth),
                    _ => self.mixed(from),
                }
            }
            Some(b'{' | b'[') => self.mixed(from),
            Some(b'-' | b'0'..=b'9') => {
                let number = scan.number()?;
                // -0 counts as 0, which is not negative.
                let negative = number.text.starts_with('-') && number.text != "-0";
                let found = match number.is_plain() {
                    true if number.text.parse::<i64>().is_ok() => Kind::Whole { negative, beyond: false },
                    true if number.text.parse::<u64>().is_ok() => Kind::Whole { negative, beyond: true },
                    _ => Kind::Double,
                };
                self.number(found);
                Ok(scan)
            }
            Some(first) => {
                let end = scan.skip()?;
                match (first, &mut *self) {
                    (b'n', _) | (b'"', Kind::Text) | (b't' | b'f', Kind::Boolean) => (),
                    (b'"', Kind::Nothing) => *self = Kind::Text,
                    (_, Kind::Nothing) => *self = Kind::Boolean,
                    _ => *self = Kind::Any,
                }
                Ok(end)
            }
            None => scan.unexpected("a value"),
        }
    }

    fn number(&mut self, found: Kind) {
        *self = match (std::mem::take(self), found) {
            (Kind::Nothing, found) => found,
            (Kind::Whole { negative, beyond }, Kind::Whole { negative: n, beyond: b }) => {
                Kind::Whole { negative: negative || n, beyond: beyond || b }
            }
            (Kind::Whole { .. } | Kind::Double, _) => Kind::Double,
            _ => Kind::Any,
        };
    }

    /// Handles a value whose kind differs from the kind of earlier values.
    fn mixed<'a>(&mut self, scan: Scan<'a>) -> Step<Scan<'a>> {
        *self = Kind::Any;
        scan.skip()
    }
}

fn items<'a>(item: &mut Kind, mut scan: Scan<'a>, types: &mut usize, depth: usize) -> Step<Scan<'a>> {
    scan.eat(b'[');
    scan.skip_whitespace();
    if !scan.eat(b']') {
        loop {
            scan = item.merge(scan, types, depth + 1)?;
            if !scan.more(b']')? {
                break;
            }
        }
    }
    Ok(scan)
}

impl Names {
    /// Adds an object. Returns false if the object, or the whole schema, has too many members.
    fn merge<'a>(&mut self, mut scan: Scan<'a>, types: &mut usize, depth: usize) -> Step<(Scan<'a>, bool)> {
        let start = scan;
        scan.eat(b'{');
        scan.skip_whitespace();
        if scan.eat(b'}') {
            return Ok((scan, true));
        }
        loop {
            if !scan.eat(b'"') {
                return scan.unexpected("a name in quotes");
            }
            let mut name = Vec::new();
            unescape(scan.quoted()?.raw, &mut name)?;
            scan.colon()?;
            let place = match self.places.get(&*name) {
                Some(place) => *place,
                None if self.members.len() == MAX_NAMES || *types > MAX_TYPES => return Ok((start.skip()?, false)),
                None => {
                    *types += 1;
                    self.places.insert(name.into(), self.members.len());
                    self.members.push(Kind::Nothing);
                    self.members.len() - 1
                }
            };
            if let Some(member) = self.members.get_mut(place) {
                scan = member.merge(scan, types, depth + 1)?;
            }
            if !scan.more(b'}')? {
                return Ok((scan, true));
            }
        }
    }
}
