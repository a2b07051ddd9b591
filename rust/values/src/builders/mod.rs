//! Column builders. Each builder, including its children, can be truncated to an earlier number of rows.

mod bytes;
mod nested;
mod nulls;
mod primitive;

use arrow_buffer::{IntervalMonthDayNano, i256};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, FieldRef};

pub(crate) use bytes::{Bytes, Fixed};
pub(crate) use nested::{Count, List};
pub(crate) use primitive::Values;

use crate::byte_reader::Budget;

/// All column builders, grouped by kind. An operation of a plan knows the kind and the index of its column, so it needs
/// no lookup.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// Limits the number of bytes that the current value may occupy in the columns.
    pub(crate) budget: Budget,
    pub(crate) nulls: Vec<Count>,
    pub(crate) booleans: Vec<Values<bool>>,
    pub(crate) tiny: Vec<Values<i8>>,
    pub(crate) shorts: Vec<Values<i16>>,
    pub(crate) ints: Vec<Values<i32>>,
    pub(crate) longs: Vec<Values<i64>>,
    pub(crate) floats: Vec<Values<f32>>,
    pub(crate) doubles: Vec<Values<f64>>,
    pub(crate) decimals: Vec<Values<i128>>,
    pub(crate) wide_decimals: Vec<Values<i256>>,
    pub(crate) intervals: Vec<Values<IntervalMonthDayNano>>,
    pub(crate) bytes: Vec<Bytes>,
    pub(crate) fixed: Vec<Fixed>,
    pub(crate) lists: Vec<List>,
    pub(crate) structs: Vec<Count>,
}

/// Type of a column, with the slots of the column and its children in [`Columns`].
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) data_type: DataType,
    pub(crate) slot: Slot,
}

/// Kind of a column, and its index among the columns of this kind.
#[derive(Debug, Clone)]
pub(crate) enum Slot {
    Null(usize),
    Boolean(usize),
    Tiny(usize),
    Short(usize),
    Int(usize),
    Long(usize),
    Float(usize),
    Double(usize),
    Decimal(usize),
    WideDecimal(usize),
    Interval(usize),
    Bytes(usize),
    Fixed(usize),
    /// Column with the numbers of enum symbols, and the array of all symbols.
    Symbols(usize, Box<ArrayData>),
    List(usize, Box<Shape>),
    /// Offsets, and the columns of keys and values.
    Map(usize, Box<[Shape; 2]>),
    Struct(usize, Box<[Shape]>),
}

/// Appends a column builder, and returns its index.
pub(crate) fn add<T>(columns: &mut Vec<T>, column: T) -> usize {
    columns.push(column);
    columns.len() - 1
}

/// Evaluates `$column.$do` for the column of a slot without children, regardless of the kind of the column. For other slots,
/// evaluates `$other`.
macro_rules! leaf {
    ($columns:expr, $slot:expr, $at:ident => $column:ident . $do:expr, $rest:pat => $other:expr) => {
        match $slot {
            Slot::Null($at) => leaf!(@ $columns.nulls, $at, $column, $do),
            Slot::Boolean($at) => leaf!(@ $columns.booleans, $at, $column, $do),
            Slot::Tiny($at) => leaf!(@ $columns.tiny, $at, $column, $do),
            Slot::Short($at) => leaf!(@ $columns.shorts, $at, $column, $do),
            Slot::Int($at) | Slot::Symbols($at, _) => leaf!(@ $columns.ints, $at, $column, $do),
            Slot::Long($at) => leaf!(@ $columns.longs, $at, $column, $do),
            Slot::Float($at) => leaf!(@ $columns.floats, $at, $column, $do),
            Slot::Double($at) => leaf!(@ $columns.doubles, $at, $column, $do),
            Slot::Decimal($at) => leaf!(@ $columns.decimals, $at, $column, $do),
            Slot::WideDecimal($at) => leaf!(@ $columns.wide_decimals, $at, $column, $do),
            Slot::Interval($at) => leaf!(@ $columns.intervals, $at, $column, $do),
            Slot::Bytes($at) => leaf!(@ $columns.bytes, $at, $column, $do),
            Slot::Fixed($at) => leaf!(@ $columns.fixed, $at, $column, $do),
            $rest => $other,
        }
    };
    (@ $all:expr, $at:expr, $column:ident, $do:expr) => {{
        let $column = &mut $all[*$at];
        $do
    }};
}

impl Columns {
    /// Appends a null. If the column is a struct, its fields get a null as well.
    pub(crate) fn push_null(&mut self, shape: &Shape) {
        leaf!(self, &shape.slot, at => column.column.push_null(), slot => match slot {
            Slot::List(at, _) | Slot::Map(at, _) => self.lists[*at].push_null(),
            Slot::Struct(at, fields) => {
                self.structs[*at].push_null();
                fields.iter().for_each(|field| self.push_null(field));
            }
            _ => (),
        });
    }

    /// Truncates a column to `rows` rows, including its children.
    pub(crate) fn truncate(&mut self, shape: &Shape, rows: usize) {
        leaf!(self, &shape.slot, at => column.column.truncate(rows), slot => match slot {
            Slot::List(at, item) => {
                let items = self.lists[*at].truncate(rows);
                self.truncate(item, items);
            }
            Slot::Map(at, entries) => {
                let items = self.lists[*at].truncate(rows);
                entries.iter().for_each(|entry| self.truncate(entry, items));
            }
            Slot::Struct(at, fields) => {
                self.structs[*at].truncate(rows);
                fields.iter().for_each(|field| self.truncate(field, rows));
            }
            _ => (),
        });
    }

    /// Reserves capacity for `rows` more rows. The number may be an estimate.
    pub(crate) fn reserve(&mut self, shape: &Shape, rows: usize) {
        leaf!(self, &shape.slot, at => column.column.reserve(rows), slot => match slot {
            Slot::Struct(_, fields) => fields.iter().for_each(|field| self.reserve(field, rows)),
            Slot::List(at, _) | Slot::Map(at, _) => self.lists[*at].reserve(rows),
            _ => (),
        });
    }

    /// Builds the array of a column, and resets its builder.
    pub(crate) fn finish(&mut self, shape: &Shape) -> Result<ArrayData, ArrowError> {
        let (kind, below) = (shape.data_type.clone(), self.below(shape)?);
        leaf!(self, &shape.slot, at => column.column.finish(kind, below), slot => match slot {
            Slot::List(at, _) | Slot::Map(at, _) => self.lists[*at].finish(kind, below),
            Slot::Struct(at, _) => self.structs[*at].finish(kind, below),
            _ => ArrayData::builder(kind).build(),
        })
    }

    /// Builds the arrays of a column's children.
    fn below(&mut self, shape: &Shape) -> Result<Vec<ArrayData>, ArrowError> {
        match &shape.slot {
            Slot::Symbols(_, symbols) => Ok(vec![(**symbols).clone()]),
            Slot::List(_, item) => Ok(vec![self.finish(item)?]),
            Slot::Map(_, entries) => {
                let (data, [key, value]) = (entry_type(&shape.data_type)?, &**entries);
                let children = vec![self.finish(key)?, self.finish(value)?];
                let entries = ArrayData::builder(data).len(children.iter().map(ArrayData::len).min().unwrap_or(0));
                Ok(vec![entries.child_data(children).build()?])
            }
            Slot::Struct(_, fields) => {
                let children = fields.iter().zip(fields_of(&shape.data_type)).map(|(shape, field)| {
                    let data = self.finish(shape)?;
                    // If a field is not nullable, it contains zeros instead of nulls in the rows in which the struct is
                    // null, because Parquet's writer does not accept nulls there.
                    let nulls = !field.is_nullable() && data.nulls().is_some();
                    if nulls { data.into_builder().nulls(None).build() } else { Ok(data) }
                });
                children.collect()
            }
            _ => Ok(Vec::new()),
        }
    }
}

fn fields_of(of: &DataType) -> &[FieldRef] {
    match of {
        DataType::Struct(fields) => fields,
        _ => &[],
    }
}

fn entry_type(map: &DataType) -> Result<DataType, ArrowError> {
    match map {
        DataType::Map(entries, _) => Ok(entries.data_type().clone()),
        other => Err(ArrowError::ComputeError(format!("{other} is no map"))),
    }
}
