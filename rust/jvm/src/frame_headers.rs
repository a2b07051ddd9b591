//! The column of headers: lists of structs, each list of some rows of two flat columns.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, NullBuffer};

use crate::failure::Result;
use crate::frame::{Kept, Slots, address, other, slots};

/// The slots of `array`. A record without headers has null there, as with Spark's own connector.
pub(crate) fn headers(array: &ArrayRef, kept: &mut Kept) -> Result<Slots> {
    let lists = array.as_list_opt::<i32>().ok_or_else(|| other("headers"))?;
    let pairs = lists.values().as_struct_opt().filter(|pairs| pairs.num_columns() == 2);
    let [keys, values] = pairs.map(|pairs| pairs.columns()).unwrap_or_default() else { return Err(other("headers")) };
    let keys = keys.as_string_opt::<i32>().ok_or_else(|| other("headers"))?;
    let values = values.as_binary_opt::<i32>().ok_or_else(|| other("headers"))?;
    let any = BooleanBuffer::from_iter(
        lists.value_offsets().iter().zip(lists.value_offsets().iter().skip(1)).map(|(a, b)| a < b),
    );
    let validity = kept.validity(Some(&NullBuffer::new(any)));
    let value_validity = kept.validity(values.nulls());
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
