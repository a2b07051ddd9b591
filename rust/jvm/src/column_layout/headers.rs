//! Layout of the headers column: a list of structs per record, with all keys and all values in two flat columns.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::{Retained, Slots, address, slots};
use crate::failure::{Result, wrong_column};

/// Returns the slots of `array`. The list of a record without headers is null, as in Spark's own connector.
pub(crate) fn headers(array: &ArrayRef, retained: &mut Retained) -> Result<Slots> {
    let lists = array.as_list_opt::<i32>().ok_or_else(|| wrong_column("headers"))?;
    let pairs = lists.values().as_struct_opt().filter(|pairs| pairs.num_columns() == 2);
    let [keys, values] = pairs.map(|pairs| pairs.columns()).unwrap_or_default() else {
        return Err(wrong_column("headers"));
    };
    let keys = keys.as_string_opt::<i32>().ok_or_else(|| wrong_column("headers"))?;
    let values = values.as_binary_opt::<i32>().ok_or_else(|| wrong_column("headers"))?;
    let any = BooleanBuffer::from_iter(
        lists.value_offsets().iter().zip(lists.value_offsets().iter().skip(1)).map(|(a, b)| a < b),
    );
    let validity = retained.validity(Some(&NullBuffer::new(any)));
    let value_validity = retained.validity(values.nulls());
    Ok(slots(&[
        (0, validity),
        (1, address(lists.value_offsets())),
        (2, address(keys.value_offsets())),
        (3, address(keys.value_data())),
        (4, value_validity),
        (5, address(values.value_offsets())),
        (6, address(values.value_data())),
    ]))
}
