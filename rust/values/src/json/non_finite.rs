//! Numbers that JSON cannot represent.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::error::JsonError;
use crate::error::{BadValue, Reason, Step};

/// Checks that JSON can represent all numbers of a column. JSON has neither NaN nor infinities, and Arrow's writer
/// would write null for them.
///
/// # Errors
/// Fails if a row contains such a number, and returns the first of these rows.
pub fn check_finite(column: &dyn Array) -> Result<(), BadValue> {
    if all_finite(column) {
        return Ok(());
    }
    let bad = (0..column.len()).find_map(|row| Some((row, check(column, row).err()?)));
    match bad {
        None => Ok(()),
        Some((row, fault)) => Err(BadValue { row, schema: None, path: fault.path, reason: fault.reason.to_string() }),
    }
}

/// Returns true if all numbers are finite, including numbers in null rows. This fast check is sufficient for most
/// columns.
fn all_finite(column: &dyn Array) -> bool {
    match column.data_type() {
        DataType::Float64 => column.as_primitive::<Float64Type>().values().iter().all(|value| value.is_finite()),
        DataType::Float32 => column.as_primitive::<Float32Type>().values().iter().all(|value| value.is_finite()),
        DataType::Float16 => column.as_primitive::<Float16Type>().values().iter().all(|value| value.is_finite()),
        DataType::Struct(_) => column.as_struct().columns().iter().all(|column| all_finite(column)),
        DataType::Map(..) => all_finite(column.as_map().keys()) && all_finite(column.as_map().values()),
        DataType::Union(fields, _) => fields.iter().all(|(id, _)| all_finite(column.as_union().child(id))),
        DataType::Dictionary(..) => all_finite(column.as_any_dictionary().values()),
        DataType::RunEndEncoded(..) => all_finite(column.as_any_ree().values()),
        _ => items(column).is_none_or(|values| all_finite(values)),
    }
}

/// Returns the items of a list column.
fn items(column: &dyn Array) -> Option<&ArrayRef> {
    Some(match column.data_type() {
        DataType::List(_) => column.as_list::<i32>().values(),
        DataType::LargeList(_) => column.as_list::<i64>().values(),
        DataType::FixedSizeList(..) => column.as_fixed_size_list().values(),
        DataType::ListView(_) => column.as_list_view::<i32>().values(),
        DataType::LargeListView(_) => column.as_list_view::<i64>().values(),
        _ => return None,
    })
}

/// Checks one row. The depth of the recursion is limited by the column's type.
fn check(column: &dyn Array, row: usize) -> Step {
    if column.is_null(row) {
        return Ok(());
    }
    let number = match column.data_type() {
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row),
        DataType::Float32 => column.as_primitive::<Float32Type>().value(row).into(),
        DataType::Float16 => column.as_primitive::<Float16Type>().value(row).into(),
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(column.as_struct().columns());
            let checked = columns.map(|(field, column)| check(column, row).map_err(|fault| fault.within(field.name())));
            return checked.collect();
        }
        DataType::Map(..) => {
            let entries = column.as_map().value(row);
            return entries.columns().iter().try_for_each(check_items);
        }
        DataType::Union(..) => {
            let union = column.as_union();
            return check(union.child(union.type_id(row)), union.value_offset(row));
        }
        DataType::Dictionary(..) => {
            let row = column.slice(row, 1);
            let keys = row.as_any_dictionary().normalized_keys();
            return keys.iter().try_for_each(|key| check(row.as_any_dictionary().values(), *key));
        }
        DataType::RunEndEncoded(ends, _) => {
            let at = match ends.data_type() {
                DataType::Int16 => column.as_run::<Int16Type>().get_physical_index(row),
                DataType::Int32 => column.as_run::<Int32Type>().get_physical_index(row),
                _ => column.as_run::<Int64Type>().get_physical_index(row),
            };
            return check(column.as_any_ree().values(), at);
        }
        _ => return items_of(column, row).map_or(Ok(()), |items| check_items(&items)),
    };
    let name = match number {
        _ if number.is_finite() => return Ok(()),
        _ if number.is_nan() => "NaN",
        _ if number > 0.0 => "infinity",
        _ => "-infinity",
    };
    Err(Reason::from(JsonError::NotFinite(name)).into())
}

fn check_items(items: &ArrayRef) -> Step {
    (0..items.len()).try_for_each(|at| check(items, at).map_err(|fault| fault.at(at)))
}

/// Returns the items of a row, if the column is a list.
fn items_of(column: &dyn Array, row: usize) -> Option<ArrayRef> {
    Some(match column.data_type() {
        DataType::List(_) => column.as_list::<i32>().value(row),
        DataType::LargeList(_) => column.as_list::<i64>().value(row),
        DataType::FixedSizeList(..) => column.as_fixed_size_list().value(row),
        DataType::ListView(_) => column.as_list_view::<i32>().value(row),
        DataType::LargeListView(_) => column.as_list_view::<i64>().value(row),
        _ => return None,
    })
}
