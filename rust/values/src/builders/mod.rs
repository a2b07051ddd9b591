//! Columns in the making. Each can be cut back to its rows at an earlier moment, with all that is below it.

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

use crate::input::Budget;

/// All columns, those of one kind together: a step of a plan knows the kind and the place of its column, and looks for
/// nothing.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// What the value that is read may still become.
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

/// The type of a column, and where its parts are among [`Columns`].
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) data_type: DataType,
    pub(crate) slot: Slot,
}

/// A kind of column, and its place among those of the kind.
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
    /// Numbers of the symbols of an enum, and these.
    Symbols(usize, Box<ArrayData>),
    List(usize, Box<Shape>),
    /// Keys and values.
    Map(usize, Box<[Shape; 2]>),
    Struct(usize, Box<[Shape]>),
}

/// Appends a column; returns its place.
pub(crate) fn add<T>(columns: &mut Vec<T>, column: T) -> usize {
    columns.push(column);
    columns.len() - 1
}

/// Does the same with the column of any kind that has values of its own.
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
    /// Appends a null, also to what a struct is made of.
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

    /// Forgets the rows from number `rows` on, and what they have below.
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

    /// Makes room for rows to come; a hint.
    pub(crate) fn reserve(&mut self, shape: &Shape, rows: usize) {
        leaf!(self, &shape.slot, at => column.column.reserve(rows), slot => match slot {
            Slot::Struct(_, fields) => fields.iter().for_each(|field| self.reserve(field, rows)),
            Slot::List(at, _) | Slot::Map(at, _) => self.lists[*at].reserve(rows),
            _ => (),
        });
    }

    /// Hands the column over; it starts anew.
    pub(crate) fn finish(&mut self, shape: &Shape) -> Result<ArrayData, ArrowError> {
        let (kind, below) = (shape.data_type.clone(), self.below(shape)?);
        leaf!(self, &shape.slot, at => column.column.finish(kind, below), slot => match slot {
            Slot::List(at, _) | Slot::Map(at, _) => self.lists[*at].finish(kind, below),
            Slot::Struct(at, _) => self.structs[*at].finish(kind, below),
            _ => ArrayData::builder(kind).build(),
        })
    }

    /// What a column of this shape is made of.
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
                    // Below a row that is null there are zeros, as readers of such fields expect: Parquet's writer takes no
                    // nulls there.
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
