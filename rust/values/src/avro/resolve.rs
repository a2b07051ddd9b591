//! Schema resolution: creates a plan from the writer's and the reader's schema, or reports why the schemas do not
//! match.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_buffer::i256;
use arrow_schema::TimeUnit;

use super::Schema;
use super::default;
use super::parse::join;
use super::plan::{Bound, Decimal, Entries, Field, Items, Op, Plan, Symbol, Time};
use super::recursion::Definitions;
use super::schema::{Enum, Kind, Logical, Members, Node, Record, members};
use super::skip::Skip;
use crate::builders::{Shape, Slot};
use crate::error::SchemaError;

/// Returns the plan that decodes values of `writer` into rows of `reader`, whose columns are described by `shape`.
pub(crate) fn plan(writer: &Schema, reader: &Schema, shape: &Shape) -> Result<Plan, SchemaError> {
    let defs = Definitions::new(&writer.named, &reader.named);
    let root = resolve(&writer.root, &reader.root, shape, &defs, "");
    // Check this first. If the limit was exceeded within a branch of a union, the error looks like a mismatch of this
    // branch.
    defs.attempts_left()?;
    let root = root?;
    Ok(Plan { root, raw: matches!(writer.root.kind, Kind::Bytes) })
}

/// Resolves the writer's type and the reader's type. The depth of the recursion is limited by the reader's type, whose
/// recursive types are already expanded.
fn resolve(w: &Node, r: &Node, shape: &Shape, defs: &Definitions<'_>, path: &str) -> Result<Op, SchemaError> {
    match (&w.kind, &r.kind) {
        (Kind::Again(name), _) => match defs.get(&name.full) {
            Some(definition) => resolve(definition, r, shape, defs, path),
            None => Err(incompatible(w, r, path)),
        },
        (Kind::Union(branches), _) => writer_union(branches, r, shape, defs, path),
        (_, Kind::Union(branches)) => reader_union(w, branches, shape, defs, path),
        (Kind::Record(of), Kind::Deeper(into, depth)) if into.stands_for(&of.name) => Ok(Op::Deeper(*depth)),
        // The value is a default, so its type is the reader's own type, which may be at the end of the expansion.
        (Kind::Deeper(of, _), Kind::Deeper(into, depth)) if into.full == of.full => Ok(Op::Deeper(*depth)),
        (Kind::Array(w), Kind::Array(r)) => match &shape.slot {
            Slot::List(to, items) => {
                let item = resolve(w, r, items, defs, path)?;
                let bound = Bound { min: w.min, growth: item.growth() };
                Ok(Op::List(*to, Box::new(Items { item, bound })))
            }
            _ => Err(incompatible(w, r, path)),
        },
        (Kind::Map(w), Kind::Map(r)) => match &shape.slot {
            Slot::Map(to, entries) => {
                let [Shape { slot: Slot::Bytes(keys), .. }, values] = &**entries else {
                    return Err(incompatible(w, r, path));
                };
                let value = resolve(w, r, values, defs, path)?;
                let bound = Bound { min: w.min.saturating_add(1), growth: value.growth().saturating_add(4) };
                Ok(Op::Map(*to, Box::new(Entries { keys: *keys, value, bound })))
            }
            _ => Err(incompatible(w, r, path)),
        },
        (Kind::Record(of), Kind::Record(into)) if into.name.stands_for(&of.name) => match &shape.slot {
            Slot::Struct(to, shapes) => record(of, into, *to, shapes, defs, path),
            _ => Err(incompatible(w, r, path)),
        },
        (Kind::Enum(of), Kind::Enum(into)) if into.name.stands_for(&of.name) => match &shape.slot {
            Slot::Bytes(to) => Ok(Op::Symbols(*to, symbols(of, into, |_, symbol| Symbol::new(symbol)))),
            Slot::Symbols(to, _) => Ok(Op::Keys(*to, symbols(of, into, |at, _| at as i32))),
            _ => Err(incompatible(w, r, path)),
        },
        _ => leaf(w, r, shape, path),
    }
}

fn leaf(w: &Node, r: &Node, shape: &Shape, path: &str) -> Result<Op, SchemaError> {
    use Kind::{Boolean, Bytes, Double, Fixed, Float, Int, Long, Null, String};
    let unit_scale = unit_scale(w, r, path)?;
    let size = match (&w.kind, &r.kind) {
        (Fixed(name, size), Fixed(into, same)) if into.stands_for(name) && size == same => Some(*size),
        (Fixed(..), _) | (_, Fixed(..)) => return Err(incompatible(w, r, path)),
        _ => None,
    };
    Ok(match (&w.kind, &shape.slot) {
        (Null, &Slot::Null(to)) => Op::Null(to),
        (Boolean, &Slot::Boolean(to)) => Op::Boolean(to),
        (Int | Long, &(Slot::Int(to) | Slot::Long(to))) if let Some(Logical::Time(unit)) = r.logical => {
            let (int, of_int) = (matches!(shape.slot, Slot::Int(_)), matches!(w.kind, Int));
            if int && !of_int {
                return Err(incompatible(w, r, path));
            }
            let end = 86_400 * per_second(unit) / unit_scale;
            Op::Time(Box::new(Time { of_int, int, to, factor: unit_scale, end }))
        }
        (Int | Long, &Slot::Long(to)) if unit_scale > 1 => Op::Finer(to, unit_scale),
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
            _ => return Err(incompatible(w, r, path)),
        },
        (Float | Double | Long, _) | (_, _) => return Err(incompatible(w, r, path)),
    })
}

fn incompatible(w: &Node, r: &Node, path: &str) -> SchemaError {
    let hint = match (w.name(), r.name()) {
        (Some(of), Some(into)) if !into.stands_for(of) => ": give the reader's an alias if it is the same",
        _ => "",
    };
    SchemaError::new(path, format!("the writer's {} cannot be read as {}{hint}", w.described(), r.described()))
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Returns how many reader units make up one writer unit. Fails if the units have different meanings or if digits would
/// be lost, because the encoded number does not carry its unit.
fn unit_scale(w: &Node, r: &Node, path: &str) -> Result<i64, SchemaError> {
    use Logical::{Decimal, LocalTimestamp, Timestamp};
    let (Some(of), Some(into)) = (w.logical, r.logical) else { return Ok(1) };
    match (of, into) {
        (Decimal { scale: of, .. }, Decimal { scale: into, .. }) if of == into => Ok(1),
        (Logical::Time(of), Logical::Time(into))
        | (Timestamp(of), Timestamp(into))
        | (LocalTimestamp(of), LocalTimestamp(into))
            if per_second(of) <= per_second(into) =>
        {
            Ok(per_second(into) / per_second(of))
        }
        _ if of == into => Ok(1),
        _ => Err(SchemaError::new(path, format!("the writer's {of:?} cannot be read as {into:?}"))),
    }
}

fn decimal(r: &Node, size: Option<usize>, slot: &Slot, path: &str) -> Result<Op, SchemaError> {
    let Some(Logical::Decimal { precision, .. }) = r.logical else { return Err(incompatible(r, r, path)) };
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
        _ => Err(incompatible(r, r, path)),
    }
}

/// Maps each of the writer's symbols to the reader's symbol or default. If there is neither, maps it to its name, for
/// the error message.
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
        let (Some(into), Some(shape)) = (r.fields.get(target), shapes.get(target)) else {
            return Err(SchemaError::new(&join(path, &field.name), "the reader's field has no column"));
        };
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
        let bytes = default::encoded(&field.node, json, defs.of_reader, &at)?;
        let op = resolve(&field.node, &field.node, shape, defs, &at)?;
        let op = Op::Default(Box::new((bytes.into(), op)));
        steps.push(Field { name: Arc::clone(&field.name), op });
    }
    Ok(Op::Record(to, steps.into()))
}

/// Builds one operation that skips consecutive fields.
fn skip(fields: &mut Vec<&super::schema::Field>, defs: &Definitions<'_>) -> Option<Field> {
    let name = match &**fields {
        [] => return None,
        [one] => Arc::clone(&one.name),
        [first, .., last] => format!("{} to {}", first.name, last.name).into(),
    };
    let op = Op::Skip(Skip::over(fields.drain(..).map(|field| &*field.node), defs));
    Some(Field { name, op })
}

/// Assignment of the writer's fields to the reader's fields.
struct Sources {
    by_writer: HashMap<usize, usize>,
    /// Indexes of the reader's fields to which a field of the writer is assigned.
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
    // Assign fields with equal names first, so that an alias cannot take a field that has the name of another field.
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
            branches.first().map_or_else(|| Err(incompatible(w, w, path)), |r| resolve(w, r, shape, defs, path))
        }
        (_, true) if is_null => Ok(Op::PushNull(Box::new(shape.clone()))),
        (Members::One(r), _) => Ok(member(w, &[r], std::slice::from_ref(shape), defs, path)?.1),
        (Members::Many(members), _) => {
            let Slot::Struct(to, shapes) = &shape.slot else { return Err(incompatible(w, w, path)) };
            let (at, op) = member(w, &members, shapes, defs, path)?;
            let others = shapes.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, shape)| shape.clone());
            Ok(Op::Member(*to, Box::new((op, others.collect()))))
        }
    }
}

/// Returns the member of the reader's union that values of the writer's type become. The order is that of Java's
/// `firstMatchingBranch`: the same type and full name, an alias, the same name in another namespace, a record with
/// another name and matching fields, and at last a type that the writer's type can be promoted to.
fn member(
    w: &Node,
    members: &[&Arc<Node>],
    shapes: &[Shape],
    defs: &Definitions<'_>,
    path: &str,
) -> Result<(usize, Op), SchemaError> {
    let branch = |at: usize| match (members.get(at), shapes.get(at)) {
        (Some(r), Some(shape)) => resolve_as(w, r, shape, defs, path).map(|op| (at, op)),
        _ => Err(incompatible(w, w, path)),
    };
    let fits: Vec<Fit> = members.iter().map(|r| fit(w, r)).collect();
    let all = |wanted: Fit| fits.iter().enumerate().filter(move |(_, fit)| **fit == wanted).map(|(at, _)| at);
    // If the full name matches, this member is used, even if its type cannot be read.
    if let Some(at) = all(Fit::Same).next().or_else(|| all(Fit::Alias).next()) {
        return branch(at);
    }
    let mut first = None;
    // Like Java, take the last record with the same short name and matching fields. Among records with other names,
    // take the first one with matching fields.
    for at in all(Fit::Short).collect::<Vec<_>>().into_iter().rev().chain(all(Fit::Structure)) {
        defs.attempt(path)?;
        match branch(at) {
            Ok(found) => return Ok(found),
            // For records with other names, the mismatch of the names is reported instead of this error.
            Err(error) if fits.get(at) == Some(&Fit::Short) => first = first.or(Some(error)),
            Err(_) => (),
        }
    }
    if let Some(at) = all(Fit::Promoted).next() {
        return branch(at);
    }
    Err(first.unwrap_or_else(|| match members {
        [one] => incompatible(w, one, path),
        _ => {
            let names: Vec<_> = members.iter().map(|r| r.described()).collect();
            let text = format!("the writer's {} is not one of the reader's {}", w.described(), names.join(", "));
            SchemaError::new(path, text)
        }
    }))
}

/// Resolves the writer's type and the selected member. Records may have different names.
fn resolve_as(w: &Node, r: &Node, shape: &Shape, defs: &Definitions<'_>, path: &str) -> Result<Op, SchemaError> {
    match (&w.kind, &r.kind, &shape.slot) {
        (Kind::Record(of), Kind::Record(into), Slot::Struct(to, shapes)) => record(of, into, *to, shapes, defs, path),
        _ => resolve(w, r, shape, defs, path),
    }
}

/// Degree to which a writer's type matches a member of the reader's union, closest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// The same type and, for named types, the same full name.
    Same,
    /// The writer's full name is an alias of the reader's type.
    Alias,
    /// The same name in another namespace, or an alias with the same name in another namespace.
    Short,
    /// A record with another name.
    Structure,
    Promoted,
    None,
}

/// Returns the degree to which a writer's type matches a member. The contents of records, lists and maps are not
/// compared.
fn fit(w: &Node, r: &Node) -> Fit {
    use Kind::{Bytes, Double, Fixed, Float, Int, Long, Record, String};
    match (&w.kind, &r.kind) {
        (Fixed(_, size), Fixed(_, other)) if size != other => Fit::None,
        (Int, Long | Float | Double) | (Long, Float | Double) | (Float, Double) => Fit::Promoted,
        (String, Bytes) | (Bytes, String) => Fit::Promoted,
        _ if !same_kind(w, r) => Fit::None,
        _ => match (w.name(), r.name()) {
            (Some(of), Some(into)) if into.full == of.full => Fit::Same,
            (Some(of), Some(into)) if into.aliases.iter().any(|alias| **alias == *of.full) => Fit::Alias,
            (Some(of), Some(into)) if into.stands_for(of) => Fit::Short,
            (Some(_), Some(_)) if matches!((&w.kind, &r.kind), (Record(_), Record(_))) => Fit::Structure,
            (None, None) => Fit::Same,
            _ => Fit::None,
        },
    }
}

fn same_kind(w: &Node, r: &Node) -> bool {
    let is_record = |node: &Node| matches!(node.kind, Kind::Record(_) | Kind::Again(_) | Kind::Deeper(..));
    is_record(w) && is_record(r) || std::mem::discriminant(&w.kind) == std::mem::discriminant(&r.kind)
}
