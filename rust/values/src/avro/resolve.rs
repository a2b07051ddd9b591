//! The writer's schema against the reader's: a plan, or what does not fit.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_buffer::i256;

use super::Schema;
use super::default;
use super::parse::join;
use super::plan::{Bound, Decimal, Entries, Field, Items, Op, Plan, Symbol};
use super::recursion::Definitions;
use super::schema::{Enum, Kind, Logical, Members, Node, Record, members};
use super::skip::Skip;
use crate::builders::{Shape, Slot};
use crate::error::SchemaError;

/// How values of `writer` become rows of `reader`, whose columns are `shape`.
pub(crate) fn plan(writer: &Schema, reader: &Node, shape: &Shape) -> Result<Plan, SchemaError> {
    let defs = Definitions::new(&writer.named);
    let root = resolve(&writer.root, reader, shape, &defs, "")?;
    Ok(Plan { root, raw: matches!(writer.root.kind, Kind::Bytes) })
}

/// It calls itself as deep as the reader's type is, which does not contain itself.
fn resolve(w: &Node, r: &Node, shape: &Shape, defs: &Definitions<'_>, path: &str) -> Result<Op, SchemaError> {
    match (&w.kind, &r.kind) {
        (Kind::Again(name), _) => match defs.get(&name.full) {
            Some(definition) => resolve(definition, r, shape, defs, path),
            None => Err(unfit(w, r, path)),
        },
        (Kind::Union(branches), _) => writer_union(branches, r, shape, defs, path),
        (_, Kind::Union(branches)) => reader_union(w, branches, shape, defs, path),
        (Kind::Record(of), Kind::Deeper(into, depth)) if into.stands_for(&of.name) => Ok(Op::Deeper(*depth)),
        (Kind::Array(w), Kind::Array(r)) => match &shape.slot {
            Slot::List(to, items) => {
                let item = resolve(w, r, items, defs, path)?;
                let bound = Bound { min: w.min, growth: item.growth() };
                Ok(Op::List(*to, Box::new(Items { item, bound })))
            }
            _ => Err(unfit(w, r, path)),
        },
        (Kind::Map(w), Kind::Map(r)) => match &shape.slot {
            Slot::Map(to, entries) => {
                let [Shape { slot: Slot::Bytes(keys), .. }, values] = &**entries else { return Err(unfit(w, r, path)) };
                let value = resolve(w, r, values, defs, path)?;
                let bound = Bound { min: w.min.saturating_add(1), growth: value.growth().saturating_add(4) };
                Ok(Op::Map(*to, Box::new(Entries { keys: *keys, value, bound })))
            }
            _ => Err(unfit(w, r, path)),
        },
        (Kind::Record(of), Kind::Record(into)) if into.name.stands_for(&of.name) => match &shape.slot {
            Slot::Struct(to, shapes) => record(of, into, *to, shapes, defs, path),
            _ => Err(unfit(w, r, path)),
        },
        (Kind::Enum(of), Kind::Enum(into)) if into.name.stands_for(&of.name) => match &shape.slot {
            Slot::Bytes(to) => Ok(Op::Symbols(*to, symbols(of, into, |_, symbol| Symbol::new(symbol)))),
            Slot::Symbols(to, _) => Ok(Op::Keys(*to, symbols(of, into, |at, _| at as i32))),
            _ => Err(unfit(w, r, path)),
        },
        _ => leaf(w, r, shape, path),
    }
}

fn leaf(w: &Node, r: &Node, shape: &Shape, path: &str) -> Result<Op, SchemaError> {
    use Kind::{Boolean, Bytes, Double, Fixed, Float, Int, Long, Null, String};
    let finer = finer(w, r, path)?;
    let size = match (&w.kind, &r.kind) {
        (Fixed(name, size), Fixed(into, same)) if into.stands_for(name) && size == same => Some(*size),
        (Fixed(..), _) | (_, Fixed(..)) => return Err(unfit(w, r, path)),
        _ => None,
    };
    Ok(match (&w.kind, &shape.slot) {
        (Null, &Slot::Null(to)) => Op::Null(to),
        (Boolean, &Slot::Boolean(to)) => Op::Boolean(to),
        (Int | Long, &Slot::Long(to)) if finer > 1 => Op::Finer(to, finer),
        (Int, &Slot::Int(to)) if matches!(r.kind, Int) => Op::Int(to),
        (Int, &Slot::Long(to)) => Op::IntToLong(to),
        (Int, &Slot::Float(to)) => Op::IntToFloat(to),
        (Int, &Slot::Double(to)) => Op::IntToDouble(to),
        (Long, &Slot::Long(to)) => Op::Long(to),
        (Long, &Slot::Float(to)) => Op::LongToFloat(to),
        (Long, &Slot::Double(to)) => Op::LongToDouble(to),
        (Float, &Slot::Float(to)) => Op::Float(to),
        (Float, &Slot::Double(to)) => Op::FloatToDouble(to),
        (Double, &Slot::Double(to)) => Op::Double(to),
        (Bytes | Fixed(..), Slot::Decimal(_) | Slot::WideDecimal(_)) => decimal(r, size, &shape.slot, path)?,
        (Fixed(_, size), &Slot::Fixed(to)) => Op::Fixed(to, *size),
        (Fixed(..), &Slot::Bytes(to)) => Op::Uuid(to),
        (Fixed(..), &Slot::Interval(to)) => Op::Duration(to),
        (Bytes | String, &Slot::Bytes(to)) => match (&w.kind, &r.kind) {
            (_, Bytes) => Op::Bytes(to),
            (_, String) => Op::Text(to),
            _ => return Err(unfit(w, r, path)),
        },
        (Float | Double | Long, _) | (_, _) => return Err(unfit(w, r, path)),
    })
}

fn unfit(w: &Node, r: &Node, path: &str) -> SchemaError {
    let hint = match (w.name(), r.name()) {
        (Some(of), Some(into)) if !into.stands_for(of) => ": give the reader's an alias if it is the same",
        _ => "",
    };
    SchemaError::new(path, format!("the writer's {} cannot be read as {}{hint}", w.described(), r.described()))
}

/// How many of the reader's units one of the writer's is. The bytes do not say what a number means: what means something
/// else is refused, as is what would lose digits.
fn finer(w: &Node, r: &Node, path: &str) -> Result<i64, SchemaError> {
    use Logical::{Decimal, LocalTimestamp, Time, Timestamp};
    let (Some(of), Some(into)) = (w.logical, r.logical) else { return Ok(1) };
    let per_second = |unit| match unit {
        arrow_schema::TimeUnit::Second => 1,
        arrow_schema::TimeUnit::Millisecond => 1_000,
        arrow_schema::TimeUnit::Microsecond => 1_000_000,
        arrow_schema::TimeUnit::Nanosecond => 1_000_000_000_i64,
    };
    match (of, into) {
        (Decimal { scale: of, .. }, Decimal { scale: into, .. }) if of == into => Ok(1),
        (Time(of), Time(into)) | (Timestamp(of), Timestamp(into)) | (LocalTimestamp(of), LocalTimestamp(into))
            if per_second(of) <= per_second(into) =>
        {
            Ok(per_second(into) / per_second(of))
        }
        _ if of == into => Ok(1),
        _ => Err(SchemaError::new(path, format!("the writer's {of:?} cannot be read as {into:?}"))),
    }
}

fn decimal(r: &Node, size: Option<usize>, slot: &Slot, path: &str) -> Result<Op, SchemaError> {
    let Some(Logical::Decimal { precision, .. }) = r.logical else { return Err(unfit(r, r, path)) };
    let digits = u32::from(precision);
    match *slot {
        Slot::Decimal(to) => {
            let beyond = 10_i128.pow(digits);
            Ok(Op::Decimal(Box::new(Decimal { to, size, precision, beyond })))
        }
        Slot::WideDecimal(to) => {
            let beyond = i256::from_i128(10).wrapping_pow(digits);
            Ok(Op::WideDecimal(Box::new(Decimal { to, size, precision, beyond })))
        }
        _ => Err(unfit(r, r, path)),
    }
}

/// For each of the writer's symbols what the reader has for it, or its name.
fn symbols<T>(of: &Enum, into: &Enum, make: impl Fn(usize, &str) -> T) -> Box<[Result<T, Box<str>>]> {
    let places: HashMap<&str, usize> = into.symbols.iter().enumerate().map(|(at, symbol)| (&**symbol, at)).collect();
    let place = |symbol: &str| {
        let default = || into.default.as_ref().and_then(|default| places.get_key_value(&**default));
        match places.get_key_value(symbol).or_else(default) {
            Some((symbol, &at)) => Ok(make(at, symbol)),
            None => Err(symbol.into()),
        }
    };
    of.symbols.iter().map(|symbol| place(symbol)).collect()
}

fn record(
    w: &Record,
    r: &Record,
    to: usize,
    shapes: &[Shape],
    defs: &Definitions<'_>,
    path: &str,
) -> Result<Op, SchemaError> {
    let mut sources = sources(w, r);
    let mut steps = Vec::new();
    let mut skipped: Vec<&super::schema::Field> = Vec::new();
    for (at, field) in w.fields.iter().enumerate() {
        let Some(target) = sources.by_writer.remove(&at) else {
            skipped.push(field);
            continue;
        };
        steps.extend(skip(&mut skipped, defs));
        let (Some(into), Some(shape)) = (r.fields.get(target), shapes.get(target)) else { continue };
        let op = resolve(&field.node, &into.node, shape, defs, &join(path, &into.name))?;
        steps.push(Field { name: Arc::clone(&into.name), op });
    }
    steps.extend(skip(&mut skipped, defs));
    for (target, (field, shape)) in r.fields.iter().zip(shapes).enumerate() {
        if sources.read.contains(&target) {
            continue;
        }
        let at = join(path, &field.name);
        let Some(json) = &field.default else {
            return Err(SchemaError::new(&at, "the writer has no such field, and the reader's has no default"));
        };
        let bytes = default::encoded(&field.node, json, &at)?;
        let op = resolve(&field.node, &field.node, shape, defs, &at)?;
        let op = Op::Default(Box::new((bytes.into(), op)));
        steps.push(Field { name: Arc::clone(&field.name), op });
    }
    Ok(Op::Record(to, steps.into()))
}

/// One step over fields that are not read.
fn skip(fields: &mut Vec<&super::schema::Field>, defs: &Definitions<'_>) -> Option<Field> {
    let name = match &**fields {
        [] => return None,
        [one] => Arc::clone(&one.name),
        [first, .., last] => format!("{} to {}", first.name, last.name).into(),
    };
    let op = Op::Skip(Skip::over(fields.drain(..).map(|field| &*field.node), defs));
    Some(Field { name, op })
}

/// Which of the reader's fields a writer's field is for.
struct Sources {
    by_writer: HashMap<usize, usize>,
    /// The reader's fields that the writer has.
    read: std::collections::HashSet<usize>,
}

fn sources(w: &Record, r: &Record) -> Sources {
    let places: HashMap<&str, usize> = w.fields.iter().enumerate().map(|(at, field)| (&*field.name, at)).collect();
    let mut sources = Sources { by_writer: HashMap::new(), read: std::collections::HashSet::new() };
    let mut take = |target: usize, name: &str| {
        if let Some(&at) = places.get(name)
            && !sources.read.contains(&target)
            && !sources.by_writer.contains_key(&at)
        {
            sources.by_writer.insert(at, target);
            sources.read.insert(target);
        }
    };
    // Names first: an alias must not take what another field is called.
    for (target, field) in r.fields.iter().enumerate() {
        take(target, &field.name);
    }
    for (target, field) in r.fields.iter().enumerate() {
        field.aliases.iter().for_each(|alias| take(target, alias));
    }
    sources
}

fn writer_union(
    branches: &[Arc<Node>],
    r: &Node,
    shape: &Shape,
    defs: &Definitions<'_>,
    path: &str,
) -> Result<Op, SchemaError> {
    let branch =
        |w: &Arc<Node>| resolve(w, r, shape, defs, path).unwrap_or_else(|error| Op::Never(error.to_string().into()));
    let mut ops: Vec<Op> = branches.iter().map(branch).collect();
    if ops.iter().all(|op| matches!(op, Op::Never(_))) {
        let names: Vec<_> = branches.iter().map(|branch| branch.described()).collect();
        let text = format!("the writer's union of {} cannot be read as {}", names.join(", "), r.described());
        return Err(SchemaError::new(path, text));
    }
    let null = ops.iter().position(|op| matches!(op, Op::PushNull(_)));
    match (null, ops.len()) {
        (Some(at), 2) => {
            let value = ops.swap_remove(1 - at);
            Ok(Op::Nullable(at as i64, Box::new((shape.clone(), value))))
        }
        _ => Ok(Op::Union(ops.into())),
    }
}

fn reader_union(
    w: &Node,
    branches: &[Arc<Node>],
    shape: &Shape,
    defs: &Definitions<'_>,
    path: &str,
) -> Result<Op, SchemaError> {
    let is_null = matches!(w.kind, Kind::Null);
    match members(branches) {
        (Members::Null, _) => {
            branches.first().map_or_else(|| Err(unfit(w, w, path)), |r| resolve(w, r, shape, defs, path))
        }
        (_, true) if is_null => Ok(Op::PushNull(Box::new(shape.clone()))),
        (Members::One(r), _) => resolve(w, r, shape, defs, path),
        (Members::Many(members), _) => {
            let Slot::Struct(to, shapes) = &shape.slot else { return Err(unfit(w, w, path)) };
            // What needs no promotion comes first, as Java has it: no value loses digits.
            let fits = |wanted: Fit| members.iter().position(|r| fit(w, r) == wanted);
            let Some(at) = fits(Fit::Same).or_else(|| fits(Fit::Promoted)) else {
                let names: Vec<_> = members.iter().map(|r| r.described()).collect();
                let text = format!("the writer's {} is none of the reader's {}", w.described(), names.join(", "));
                return Err(SchemaError::new(path, text));
            };
            let (Some(r), Some(of)) = (members.get(at), shapes.get(at)) else { return Err(unfit(w, w, path)) };
            let op = resolve(w, r, of, defs, path)?;
            let others = shapes.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, shape)| shape.clone());
            Ok(Op::Member(*to, Box::new((op, others.collect()))))
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    None,
    Promoted,
    Same,
}

/// Whether a writer's type matches a reader's, as the specification defines it: not what is in records.
fn fit(w: &Node, r: &Node) -> Fit {
    use Kind::{Array, Bytes, Double, Fixed, Float, Int, Long, Map, String, Union};
    match (&w.kind, &r.kind) {
        (Union(_), _) | (_, Union(_)) => Fit::Same,
        (Array(w), Array(r)) | (Map(w), Map(r)) => fit(w, r),
        (Fixed(_, size), Fixed(_, other)) if size != other => Fit::None,
        (Int, Long | Float | Double) | (Long, Float | Double) | (Float, Double) => Fit::Promoted,
        (String, Bytes) | (Bytes, String) => Fit::Promoted,
        _ => match (w.name(), r.name()) {
            (Some(of), Some(into)) if into.stands_for(of) && same_kind(w, r) => Fit::Same,
            (None, None) if same_kind(w, r) => Fit::Same,
            _ => Fit::None,
        },
    }
}

fn same_kind(w: &Node, r: &Node) -> bool {
    let is_record = |node: &Node| matches!(node.kind, Kind::Record(_) | Kind::Again(_) | Kind::Deeper(..));
    is_record(w) && is_record(r) || std::mem::discriminant(&w.kind) == std::mem::discriminant(&r.kind)
}
