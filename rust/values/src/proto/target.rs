//! Which Arrow type a message becomes, the columns for it, and the plan that fills them.

use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, FieldRef, Fields, TimeUnit};

use super::plan::{Absent, Entry, Json, Keys, Names, Op, Plan, Wrapper};
use super::schema::{Enum, Field, Kind, Literal, Message, Pool, Scalar};
use crate::avro::plan::{Symbol, shape_growth};
use crate::avro::project::{Wanted, known};
use crate::builders::{Bytes, Columns, Count, List, Shape, Slot, Values, add};
use crate::error::SchemaError;
use crate::target::{Enums, symbols};

/// Messages within each other, as in Protobuf's own decoders.
const MAX_DEPTH: usize = 100;
/// Fields of all messages, those that are used in many places counted in each.
const MAX_FIELDS: usize = 100_000;

/// A column, and how it is filled.
pub(super) struct Target {
    pub(super) shape: Shape,
    pub(super) plan: Plan,
}

pub(super) struct Builder<'a> {
    pub(super) pool: &'a Pool,
    pub(super) enums: Enums,
    pub(super) columns: &'a mut Columns,
    /// Messages that this one is within.
    open: Vec<usize>,
    fields: usize,
}

type Made<T> = Result<T, SchemaError>;

/// The parts of a message's plan.
#[derive(Default)]
struct Parts {
    entries: Vec<Entry>,
    absent: Vec<Absent>,
    oneofs: Vec<Vec<u16>>,
    lists: Vec<usize>,
    maps: Vec<(usize, Keys)>,
}

/// What one value of a field becomes.
struct One {
    shape: Shape,
    op: Op,
    /// Where it has to be something although nothing came.
    default: Absent,
}

impl<'a> Builder<'a> {
    pub(super) fn new(pool: &'a Pool, enums: Enums, columns: &'a mut Columns) -> Self {
        Builder { pool, enums, columns, open: Vec::new(), fields: 0 }
    }

    pub(super) fn message(&mut self, id: usize, wanted: &Wanted<'_>, path: &str) -> Made<Target> {
        let message = self.get(id)?;
        if self.open.contains(&id) {
            let text = format!("{} contains itself, which no Arrow type does: leave it out of `fields`", message.name);
            return Err(SchemaError::new(path, text));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(SchemaError::new(path, format!("more than {MAX_DEPTH} messages are within each other")));
        }
        known(wanted, message.fields.iter().map(|field| &*field.name), path)?;
        self.open.push(id);
        let made = self.fields_of(message, wanted, path);
        self.open.pop();
        made
    }

    fn get(&self, id: usize) -> Made<&'a Message> {
        self.pool.messages.get(id).ok_or_else(|| SchemaError::new("", "a message is missing"))
    }

    fn fields_of(&mut self, message: &'a Message, wanted: &Wanted<'_>, path: &str) -> Made<Target> {
        let mut parts = Parts::default();
        let (mut shapes, mut fields): (Vec<Shape>, Vec<FieldRef>) = (Vec::new(), Vec::new());
        let read = |field: &&Field| wanted.is_all() || wanted.below(&field.name).is_some();
        for field in message.fields.iter().filter(read) {
            let everything = Wanted::default();
            let below = wanted.below(&field.name).unwrap_or(&everything);
            let path = join(path, &field.name);
            let (shape, nullable) = self.field(field, below, &path, &mut parts)?;
            fields.push(Arc::new(ArrowField::new(&*field.name, shape.data_type.clone(), nullable)));
            shapes.push(shape);
        }
        // Other members of a oneof end those that are read.
        let involved: Vec<usize> = message.fields.iter().filter(read).filter_map(|field| field.oneof).collect();
        for field in message.fields.iter().filter(|field| !read(field)) {
            if field.oneof.is_some_and(|oneof| involved.contains(&oneof)) {
                let at = parts.place(field)?;
                parts.absent.push(Absent::Nothing);
                parts.entry(field, at, wire(field.kind), true, Op::Skip);
            }
        }
        let at = add(&mut self.columns.structs, Count::default());
        let shape = Shape { data_type: DataType::Struct(fields.into()), slot: Slot::Struct(at, shapes.into()) };
        Ok(Target { shape, plan: parts.plan() })
    }

    /// Adds what a field needs to the plan; gives its column.
    fn field(&mut self, field: &'a Field, wanted: &Wanted<'_>, path: &str, parts: &mut Parts) -> Made<(Shape, bool)> {
        self.fields += 1;
        if self.fields > MAX_FIELDS {
            return Err(SchemaError::new(path, format!("the message has more than {MAX_FIELDS} fields in all")));
        }
        let at = parts.place(field)?;
        if let Kind::Message(id) = field.kind
            && field.repeated
            && self.get(id)?.entry
        {
            let shape = self.map(field, id, wanted, path, parts)?;
            parts.absent.push(Absent::Nothing);
            return Ok((shape, false));
        }
        let one = self.one(field, wanted, path)?;
        if field.repeated {
            let list = add(&mut self.columns.lists, List::default());
            let item: FieldRef = Arc::new(ArrowField::new("item", one.shape.data_type.clone(), false));
            let growth = growth(&one);
            parts.lists.push(list);
            parts.absent.push(Absent::Nothing);
            if wire(field.kind) == 2 || matches!(field.kind, Kind::Group(_)) {
                parts.entry(field, at, wire(field.kind), false, Op::Item(list, growth, Box::new(one.op)));
            } else {
                // Both ways of writing them are to be read, whichever is declared.
                let again = self.scalar_op(field.kind, &one.shape.slot)?;
                parts.entry(field, at, wire(field.kind), false, Op::Item(list, growth, Box::new(one.op)));
                parts.entry(field, at, 2, false, Op::Packed(list, growth, Box::new(again)));
            }
            let shape = Shape { data_type: DataType::List(item), slot: Slot::List(list, Box::new(one.shape)) };
            return Ok((shape, false));
        }
        let nullable = field.presence && !field.required && field.default.is_none();
        parts.absent.push(match () {
            () if field.required => Absent::Required(Arc::clone(&field.name)),
            () if nullable => Absent::Null,
            () => match one.default {
                Absent::Empty(_) => Absent::Empty(parts.entries.len()),
                other => other,
            },
        });
        parts.entry(field, at, wire(field.kind), true, one.op);
        Ok((one.shape, nullable))
    }

    fn map(&mut self, field: &'a Field, id: usize, wanted: &Wanted<'_>, path: &str, parts: &mut Parts) -> Made<Shape> {
        let (mut entry, mut shapes) = (Parts::default(), Vec::new());
        let everything = Wanted::default();
        for (number, part) in self.get(id)?.fields.iter().enumerate() {
            let wanted = if number == 0 { &everything } else { wanted };
            shapes.push(self.field(part, wanted, path, &mut entry)?.0);
        }
        let [key, value] = <[Shape; 2]>::try_from(shapes).map_err(|_| SchemaError::new(path, "it is no map"))?;
        let keys = match key.slot {
            Slot::Int(at) => Keys::Ints(at),
            Slot::Long(at) => Keys::Longs(at),
            Slot::Boolean(at) => Keys::Booleans(at),
            Slot::Bytes(at) => Keys::Texts(at),
            _ => return Err(SchemaError::new(path, "keys of maps are integers, booleans or text")),
        };
        let plan = entry.plan();
        let growth = shape_growth(&key).saturating_add(shape_growth(&value)).saturating_add(plan.growth());
        let list = add(&mut self.columns.lists, List::default());
        parts.maps.push((list, keys));
        let at = parts.absent.len() as u16;
        parts.entry(field, at, 2, false, Op::Entry(list, growth, Box::new(plan)));
        let part = |name: &str, shape: &Shape| Arc::new(ArrowField::new(name, shape.data_type.clone(), false));
        let entries = DataType::Struct(Fields::from(vec![part("key", &key), part("value", &value)]));
        let data_type = DataType::Map(Arc::new(ArrowField::new("entries", entries, false)), false);
        Ok(Shape { data_type, slot: Slot::Map(list, Box::new([key, value])) })
    }

    /// What one value of a field becomes.
    fn one(&mut self, field: &'a Field, wanted: &Wanted<'_>, path: &str) -> Made<One> {
        let leaf = |described: &str| match wanted.is_all() {
            true => Ok(()),
            false => Err(SchemaError::new(path, format!("{described} has no fields"))),
        };
        match field.kind {
            Kind::Scalar(scalar) => {
                leaf(scalar.name())?;
                let shape = self.scalar(scalar);
                let op = self.scalar_op(field.kind, &shape.slot)?;
                let default = default(&shape.slot, field.default.as_ref());
                Ok(One { shape, op, default })
            }
            Kind::Enum(id) => {
                let of = self.pool.enums.get(id).ok_or_else(|| SchemaError::new(path, "the enum is missing"))?;
                leaf(&format!("enum {}", of.name))?;
                self.enumeration(of, field, path)
            }
            Kind::Message(id) | Kind::Group(id) => {
                let message = self.get(id)?;
                if let Some(known) = self.known(message) {
                    leaf(&message.name)?;
                    return known;
                }
                let Target { shape, plan } = self.message(id, wanted, path)?;
                let group = matches!(field.kind, Kind::Group(_));
                let op = if group { Op::Group(Box::new(plan)) } else { Op::Message(Box::new(plan)) };
                Ok(One { shape, op, default: Absent::Empty(0) })
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar) -> Shape {
        let columns = &mut *self.columns;
        let (data_type, slot) = match scalar {
            Scalar::Double => (DataType::Float64, Slot::Double(add(&mut columns.doubles, Values::default()))),
            Scalar::Float => (DataType::Float32, Slot::Float(add(&mut columns.floats, Values::default()))),
            Scalar::Bool => (DataType::Boolean, Slot::Boolean(add(&mut columns.booleans, Values::default()))),
            Scalar::String => (DataType::Utf8, Slot::Bytes(add(&mut columns.bytes, Bytes::default()))),
            Scalar::Bytes => (DataType::Binary, Slot::Bytes(add(&mut columns.bytes, Bytes::default()))),
            Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => {
                (DataType::Int32, Slot::Int(add(&mut columns.ints, Values::default())))
            }
            // The same bits as signed ones.
            Scalar::Uint32 | Scalar::Fixed32 => {
                (DataType::UInt32, Slot::Int(add(&mut columns.ints, Values::default())))
            }
            Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => {
                (DataType::Int64, Slot::Long(add(&mut columns.longs, Values::default())))
            }
            Scalar::Uint64 | Scalar::Fixed64 => {
                (DataType::UInt64, Slot::Long(add(&mut columns.longs, Values::default())))
            }
        };
        Shape { data_type, slot }
    }

    fn scalar_op(&self, kind: Kind, slot: &Slot) -> Made<Op> {
        let scalar = match kind {
            Kind::Scalar(scalar) => scalar,
            Kind::Enum(id) => {
                let of = self.pool.enums.get(id).ok_or_else(|| SchemaError::new("", "the enum is missing"))?;
                return Ok(match slot {
                    Slot::Symbols(at, _) => Op::Key(*at, Box::new(keys(of))),
                    Slot::Bytes(at) => Op::Name(*at, Box::new(names(of))),
                    _ => Op::Skip,
                });
            }
            _ => return Ok(Op::Skip),
        };
        Ok(match (scalar, slot) {
            (Scalar::Int32 | Scalar::Uint32, Slot::Int(at)) => Op::Int(*at),
            (Scalar::Sint32, Slot::Int(at)) => Op::ZigzagInt(*at),
            (Scalar::Fixed32 | Scalar::Sfixed32, Slot::Int(at)) => Op::FixedInt(*at),
            (Scalar::Int64 | Scalar::Uint64, Slot::Long(at)) => Op::Long(*at),
            (Scalar::Sint64, Slot::Long(at)) => Op::ZigzagLong(*at),
            (Scalar::Fixed64 | Scalar::Sfixed64, Slot::Long(at)) => Op::FixedLong(*at),
            (Scalar::Float, Slot::Float(at)) => Op::Float(*at),
            (Scalar::Double, Slot::Double(at)) => Op::Double(*at),
            (Scalar::Bool, Slot::Boolean(at)) => Op::Boolean(*at),
            (Scalar::String, Slot::Bytes(at)) => Op::Text(*at),
            (Scalar::Bytes, Slot::Bytes(at)) => Op::Bytes(*at),
            _ => Op::Skip,
        })
    }

    fn enumeration(&mut self, of: &Enum, field: &Field, path: &str) -> Made<One> {
        let number = match (&field.default, of.values.first()) {
            (Some(Literal::Integer(number)), _) => *number as i32,
            (_, Some((_, number))) => *number,
            (_, None) => 0,
        };
        let (shape, default) = match self.enums {
            Enums::Strings => {
                let at = add(&mut self.columns.bytes, Bytes::default());
                let name = of.values.iter().find(|(_, other)| *other == number).map_or("", |(name, _)| name);
                (Shape { data_type: DataType::Utf8, slot: Slot::Bytes(at) }, Absent::Text(at, Symbol::new(name)))
            }
            Enums::Dictionary => {
                let at = add(&mut self.columns.ints, Values::default());
                let all: Vec<Box<str>> = of.values.iter().map(|(name, _)| name.clone()).collect();
                let all = symbols(&all).map_err(|error| SchemaError::new(path, error.to_string()))?;
                let data_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
                let key = keys(of).get(number).copied().unwrap_or(0);
                (Shape { data_type, slot: Slot::Symbols(at, Box::new(all)) }, Absent::Int(at, key))
            }
        };
        let op = self.scalar_op(field.kind, &shape.slot)?;
        Ok(One { shape, op, default })
    }

    /// Messages that have Arrow types of their own.
    fn known(&mut self, message: &'a Message) -> Option<Made<One>> {
        let name = message.name.strip_prefix("google.protobuf.")?;
        let json = |columns: &mut Columns, what| {
            let at = add(&mut columns.bytes, Bytes::default());
            (Shape { data_type: DataType::Utf8, slot: Slot::Bytes(at) }, Op::Json(at, what))
        };
        let (shape, op) = match name {
            "Timestamp" => {
                let at = add(&mut self.columns.longs, Values::default());
                let data_type = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
                (Shape { data_type, slot: Slot::Long(at) }, Op::Timestamp(at))
            }
            "Duration" => {
                let at = add(&mut self.columns.longs, Values::default());
                let data_type = DataType::Duration(TimeUnit::Microsecond);
                (Shape { data_type, slot: Slot::Long(at) }, Op::Duration(at))
            }
            "Struct" => json(self.columns, Json::Struct),
            "Value" => json(self.columns, Json::Value),
            "ListValue" => json(self.columns, Json::List),
            "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value" | "UInt32Value"
            | "BoolValue" | "StringValue" | "BytesValue" => {
                let field = message.fields.first()?;
                let Kind::Scalar(scalar) = field.kind else { return None };
                let shape = self.scalar(scalar);
                let op = match self.scalar_op(field.kind, &shape.slot) {
                    Ok(op) => op,
                    Err(error) => return Some(Err(error)),
                };
                let absent = default(&shape.slot, None);
                let tag = field.number << 3 | scalar.wire();
                (shape, Op::Wrapper(Box::new(Wrapper { tag, op, absent })))
            }
            _ => return None,
        };
        Some(Ok(One { shape, op, default: Absent::Empty(0) }))
    }
}

impl Parts {
    /// The place of the next field.
    fn place(&self, field: &Field) -> Made<u16> {
        let at = self.absent.len();
        u16::try_from(at).map_err(|_| SchemaError::new(&field.name, "a message has more than 65,536 fields"))
    }

    fn entry(&mut self, field: &Field, at: u16, wire: u32, single: bool, op: Op) {
        let tag = field.number << 3 | wire;
        self.entries.push(Entry { tag, field: at, single, name: Arc::clone(&field.name), op });
        if let Some(oneof) = field.oneof {
            if self.oneofs.len() <= oneof {
                self.oneofs.resize_with(oneof + 1, Vec::new);
            }
            if let Some(members) = self.oneofs.get_mut(oneof) {
                members.push(at);
            }
        }
    }

    fn plan(self) -> Plan {
        let Parts { mut entries, mut absent, oneofs, lists, maps } = self;
        // In order, and with what points to them.
        let tags: Vec<u32> = entries.iter().map(|entry| entry.tag).collect();
        entries.sort_by_key(|entry| entry.tag);
        for one in &mut absent {
            if let Absent::Empty(at) = one {
                let tag = tags.get(*at).copied().unwrap_or_default();
                *at = entries.binary_search_by_key(&tag, |entry| entry.tag).unwrap_or_default();
            }
        }
        let mut short = Box::new([0; 128]);
        for (at, entry) in (1..).zip(entries.iter().take(short.len())) {
            if let Some(place) = short.get_mut(entry.tag as usize) {
                *place = at;
            }
        }
        let mut wanted = vec![0_u64; absent.len().div_ceil(64).max(1)];
        for (at, one) in absent.iter().enumerate() {
            if !matches!(one, Absent::Nothing)
                && let Some(word) = wanted.get_mut(at / 64)
            {
                *word |= 1 << (at % 64);
            }
        }
        let oneofs = oneofs.into_iter().filter(|members| members.len() > 1).map(Into::into).collect();
        Plan {
            short,
            entries: entries.into(),
            absent: absent.into(),
            wanted: wanted.into(),
            oneofs,
            lists: lists.into(),
            maps: maps.into(),
        }
    }
}

impl Plan {
    /// Bytes that the defaults of a message are.
    fn growth(&self) -> u64 {
        let of = |absent: &Absent| if let Absent::Text(_, symbol) = absent { symbol.piece().len() as u64 } else { 0 };
        let below = |entry: &Entry| match &entry.op {
            Op::Message(plan) | Op::Group(plan) => plan.growth(),
            _ => 0,
        };
        self.absent.iter().map(of).chain(self.entries.iter().map(below)).fold(0, u64::saturating_add)
    }
}

/// Bytes that an item becomes beside those that it has; 0 where these are always more than that.
fn growth(one: &One) -> u64 {
    match &one.op {
        Op::Message(plan) | Op::Group(plan) => shape_growth(&one.shape).saturating_add(plan.growth()),
        Op::Name(_, names) => {
            let sparse = names.sparse.iter().map(|(_, symbol)| symbol);
            names.dense.iter().chain(sparse).map(|symbol| symbol.piece().len() as u64).max().unwrap_or(0)
        }
        _ => 0,
    }
}

fn names(of: &Enum) -> Names<Symbol> {
    Names::new(of.values.iter().map(|(name, number)| (*number, Symbol::new(name))))
}

/// Numbers of values among all, by those in messages.
fn keys(of: &Enum) -> Names<i32> {
    Names::new(of.values.iter().zip(0..).map(|((_, number), key)| (*number, key)))
}

fn wire(kind: Kind) -> u32 {
    match kind {
        Kind::Scalar(scalar) => scalar.wire(),
        Kind::Enum(_) => 0,
        Kind::Message(_) => 2,
        Kind::Group(_) => 3,
    }
}

fn default(slot: &Slot, given: Option<&Literal>) -> Absent {
    match (slot, given) {
        (Slot::Int(at), Some(Literal::Integer(value))) => Absent::Int(*at, *value as i32),
        (Slot::Int(at), _) => Absent::Int(*at, 0),
        (Slot::Long(at), Some(Literal::Integer(value))) => Absent::Long(*at, *value),
        (Slot::Long(at), _) => Absent::Long(*at, 0),
        (Slot::Float(at), Some(Literal::Float(value))) => Absent::Float(*at, *value as f32),
        (Slot::Float(at), _) => Absent::Float(*at, 0.0),
        (Slot::Double(at), Some(Literal::Float(value))) => Absent::Double(*at, *value),
        (Slot::Double(at), _) => Absent::Double(*at, 0.0),
        (Slot::Boolean(at), Some(Literal::Bool(value))) => Absent::Boolean(*at, *value),
        (Slot::Boolean(at), _) => Absent::Boolean(*at, false),
        (Slot::Bytes(at), Some(Literal::Bytes(value))) => Absent::Text(*at, Symbol::of_bytes(value)),
        (Slot::Bytes(at), _) => Absent::Text(*at, Symbol::new("")),
        _ => Absent::Null,
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
