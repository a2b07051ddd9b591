//! Arrow type and columns for a message, and the plan that decodes the message.

use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, FieldRef, Fields};

use super::plan::{Absent, Entry, Keys, Op, Plan};
use super::scalar::default;
use super::schema::{Field, Kind, Message, Pool};
use crate::arrow_types::Enums;
use crate::avro::plan::shape_growth;
use crate::avro::project::{Projection, check_names};
use crate::builders::{Columns, Count, List, Shape, Slot, add};
use crate::decoder::Options;
use crate::error::SchemaError;

/// Maximum nesting of messages, which is the same as in Protobuf's own decoders.
const MAX_DEPTH: usize = 100;
/// Maximum number of fields in all messages. If a message is used several times, its fields count each time.
const MAX_FIELDS: usize = 100_000;

/// Column and decoding plan of a message.
pub(super) struct Target {
    pub(super) shape: Shape,
    pub(super) plan: Plan,
}

pub(super) struct Builder<'a> {
    pub(super) pool: &'a Pool,
    pub(super) enums: Enums,
    /// Depth to which recursive messages are expanded.
    recursion: usize,
    pub(super) columns: &'a mut Columns,
    /// Ids of the enclosing messages.
    open: Vec<usize>,
    fields: usize,
}

pub(super) type Built<T> = Result<T, SchemaError>;

/// Parts of a plan that is being built.
#[derive(Default)]
struct PlanBuilder {
    entries: Vec<Entry>,
    absent: Vec<Absent>,
    oneofs: Vec<Vec<u16>>,
    lists: Vec<usize>,
    maps: Vec<(usize, Keys)>,
}

/// Column and decoding operation for one value of a field.
pub(super) struct FieldColumn {
    pub(super) shape: Shape,
    pub(super) op: Op,
    /// Value of an absent field whose column is not nullable.
    pub(super) default: Absent,
}

impl<'a> Builder<'a> {
    pub(super) fn new(pool: &'a Pool, options: &Options, columns: &'a mut Columns) -> Self {
        let Options { enums, recursion, .. } = *options;
        Builder { pool, enums, recursion, columns, open: Vec::new(), fields: 0 }
    }

    pub(super) fn message(&mut self, id: usize, projection: &Projection<'_>, path: &str) -> Built<Target> {
        let message = self.get(id)?;
        if self.recursion == 0 && self.open.contains(&id) {
            let text = format!("{} contains itself, which no Arrow type does", message.name);
            let advice = "leave it out of `fields`, or give `recursion` the depth to which it is read";
            return Err(SchemaError::new(path, format!("{text}: {advice}")));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(SchemaError::new(path, format!("messages are nested more than {MAX_DEPTH} deep")));
        }
        check_names(projection, message.fields.iter().map(|field| &*field.name), path)?;
        self.open.push(id);
        let made = self.fields_of(message, projection, path);
        self.open.pop();
        made
    }

    fn get(&self, id: usize) -> Built<&'a Message> {
        self.pool.messages.get(id).ok_or_else(|| SchemaError::new("", "a message is missing"))
    }

    fn fields_of(&mut self, message: &'a Message, projection: &Projection<'_>, path: &str) -> Built<Target> {
        let mut parts = PlanBuilder::default();
        let (mut shapes, mut fields): (Vec<Shape>, Vec<FieldRef>) = (Vec::new(), Vec::new());
        let read = |field: &&Field| projection.is_all() || projection.below(&field.name).is_some();
        for field in message.fields.iter().filter(read) {
            let everything = Projection::default();
            let below = projection.below(&field.name).unwrap_or(&everything);
            let path = join(path, &field.name);
            let (shape, nullable) = self.field(field, below, &path, &mut parts)?;
            fields.push(Arc::new(ArrowField::new(&*field.name, shape.data_type.clone(), nullable)));
            shapes.push(shape);
        }
        // A member of a oneof that is not decoded still unsets the members that are decoded.
        let involved: Vec<usize> = message.fields.iter().filter(read).filter_map(|field| field.oneof).collect();
        for field in message.fields.iter().filter(|field| !read(field)) {
            if field.oneof.is_some_and(|oneof| involved.contains(&oneof)) {
                let at = parts.presence_index(field)?;
                parts.absent.push(Absent::Nothing);
                parts.entry(field, at, wire(field.kind), true, Op::Skip);
            }
        }
        let at = add(&mut self.columns.structs, Count::default());
        let shape = Shape { data_type: DataType::Struct(fields.into()), slot: Slot::Struct(at, shapes.into()) };
        Ok(Target { shape, plan: parts.plan() })
    }

    /// Adds a field to the plan. Returns the field's column, and true if the column is nullable.
    fn field(
        &mut self,
        field: &'a Field,
        projection: &Projection<'_>,
        path: &str,
        parts: &mut PlanBuilder,
    ) -> Built<(Shape, bool)> {
        self.fields += 1;
        if self.fields > MAX_FIELDS {
            return Err(SchemaError::new(path, format!("the message has more than {MAX_FIELDS} fields in all")));
        }
        let at = parts.presence_index(field)?;
        if let Kind::Message(id) = field.kind
            && field.repeated
            && self.get(id)?.entry
        {
            let shape = self.map(field, id, projection, path, parts)?;
            parts.absent.push(Absent::Nothing);
            return Ok((shape, false));
        }
        let one = self.one(field, projection, path)?;
        if field.repeated {
            let list = add(&mut self.columns.lists, List::default());
            let item: FieldRef = Arc::new(ArrowField::new("item", one.shape.data_type.clone(), is_null(&one.shape)));
            let growth = growth(&one);
            parts.lists.push(list);
            parts.absent.push(Absent::Nothing);
            if wire(field.kind) == 2 || matches!(field.kind, Kind::Group(_)) {
                parts.entry(field, at, wire(field.kind), false, Op::Item(list, growth, Box::new(one.op)));
            } else {
                // Decoders must accept both packed and unpacked items, regardless of the declaration.
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

    fn map(
        &mut self,
        field: &'a Field,
        id: usize,
        projection: &Projection<'_>,
        path: &str,
        parts: &mut PlanBuilder,
    ) -> Built<Shape> {
        let (mut entry, mut shapes) = (PlanBuilder::default(), Vec::new());
        let everything = Projection::default();
        for (number, part) in self.get(id)?.fields.iter().enumerate() {
            let projection = if number == 0 { &everything } else { projection };
            shapes.push(self.field(part, projection, path, &mut entry)?.0);
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
        let part = |name: &str, shape: &Shape| Arc::new(ArrowField::new(name, shape.data_type.clone(), is_null(shape)));
        let entries = DataType::Struct(Fields::from(vec![part("key", &key), part("value", &value)]));
        let data_type = DataType::Map(Arc::new(ArrowField::new("entries", entries, false)), false);
        Ok(Shape { data_type, slot: Slot::Map(list, Box::new([key, value])) })
    }

    /// Builds the column and operation for one value of a field.
    fn one(&mut self, field: &'a Field, projection: &Projection<'_>, path: &str) -> Built<FieldColumn> {
        let leaf = |described: &str| match projection.is_all() {
            true => Ok(()),
            false => Err(SchemaError::new(path, format!("{described} has no fields"))),
        };
        match field.kind {
            Kind::Scalar(scalar) => {
                leaf(scalar.name())?;
                let shape = self.scalar(scalar);
                let op = self.scalar_op(field.kind, &shape.slot)?;
                let default = default(&shape.slot, field.default.as_ref());
                Ok(FieldColumn { shape, op, default })
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
                    if matches!(field.kind, Kind::Group(_)) {
                        return Err(SchemaError::new(path, delimited(&message.name)));
                    }
                    return known;
                }
                let around = self.open.iter().filter(|open| **open == id).count();
                if self.recursion > 0 && around > self.recursion {
                    let slot = Slot::Null(add(&mut self.columns.nulls, Count::default()));
                    let (shape, op) = (Shape { data_type: DataType::Null, slot }, Op::Deeper(self.recursion));
                    return Ok(FieldColumn { shape, op, default: Absent::Empty(0) });
                }
                let Target { shape, plan } = self.message(id, projection, path)?;
                let group = matches!(field.kind, Kind::Group(_));
                let op = if group { Op::Group(Box::new(plan)) } else { Op::Message(Box::new(plan)) };
                Ok(FieldColumn { shape, op, default: Absent::Empty(0) })
            }
        }
    }
}

impl PlanBuilder {
    /// Returns the index in `absent` for the next field. Fails if there are too many fields.
    fn presence_index(&self, field: &Field) -> Built<u16> {
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
        let PlanBuilder { mut entries, mut absent, oneofs, lists, maps } = self;
        // Sort the entries, and update the references to them.
        let tags: Vec<u32> = entries.iter().map(|entry| entry.tag).collect();
        entries.sort_by_key(|entry| entry.tag);
        for one in &mut absent {
            // `at` is the index of the entry before sorting. Find the new index by the entry's tag.
            if let Absent::Empty(at) = one {
                let tag = tags.get(*at).copied().unwrap_or_default();
                *at = entries.binary_search_by_key(&tag, |entry| entry.tag).unwrap_or_default();
            }
        }
        let mut short = Box::new([0; 128]);
        for (at, entry) in (1..).zip(entries.iter().take(short.len())) {
            if let Some(presence_index) = short.get_mut(entry.tag as usize) {
                *presence_index = at;
            }
        }
        let mut absent_mask = vec![0_u64; absent.len().div_ceil(64).max(1)];
        for (at, one) in absent.iter().enumerate() {
            if !matches!(one, Absent::Nothing)
                && let Some(word) = absent_mask.get_mut(at / 64)
            {
                *word |= 1 << (at % 64);
            }
        }
        let oneofs = oneofs.into_iter().filter(|members| members.len() > 1).map(Into::into).collect();
        Plan {
            short,
            entries: entries.into(),
            absent: absent.into(),
            absent_mask: absent_mask.into(),
            oneofs,
            lists: lists.into(),
            maps: maps.into(),
        }
    }
}

impl Plan {
    /// Returns the number of bytes that the default values of a message occupy in the columns.
    fn growth(&self) -> u64 {
        let of = |absent: &Absent| if let Absent::Text(_, symbol) = absent { symbol.piece().len() as u64 } else { 0 };
        let below = |entry: &Entry| match &entry.op {
            Op::Message(plan) | Op::Group(plan) => plan.growth(),
            _ => 0,
        };
        self.absent.iter().map(of).chain(self.entries.iter().map(below)).fold(0, u64::saturating_add)
    }
}

/// Returns the number of bytes that an item occupies in the columns in addition to the size of its encoding. Returns 0
/// if the encoding is never smaller.
fn growth(one: &FieldColumn) -> u64 {
    match &one.op {
        Op::Message(plan) | Op::Group(plan) => shape_growth(&one.shape).saturating_add(plan.growth()),
        Op::Name(_, names) => {
            let sparse = names.sparse.iter().map(|(_, symbol)| symbol);
            names.dense.iter().chain(sparse).map(|symbol| symbol.piece().len() as u64).max().unwrap_or(0)
        }
        _ => 0,
    }
}

/// Returns the error message for a delimited message of a type that does not become a struct. Such messages are neither
/// decoded nor encoded.
pub(super) fn delimited(message: &str) -> String {
    format!(
        "{message} is delimited here, which samsarrow supports for messages that become structs: leave the field out \
             of `fields`, or give it the feature message_encoding = LENGTH_PREFIXED"
    )
}

/// Returns true for the column of nulls that represents messages below the expansion depth.
fn is_null(shape: &Shape) -> bool {
    shape.data_type == DataType::Null
}

fn wire(kind: Kind) -> u32 {
    match kind {
        Kind::Scalar(scalar) => scalar.wire(),
        Kind::Enum(_) => 0,
        Kind::Message(_) => 2,
        Kind::Group(_) => 3,
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
