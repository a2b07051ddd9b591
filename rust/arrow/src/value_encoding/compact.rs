//! Removal of unused data from sliced arrays. The IPC writer truncates slices of most types itself. For the other
//! types, each encoded row would contain a complete dictionary, or all bytes of the buffers that its views point into.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait,
    StructArray, UnionArray, downcast_run_array, make_array, new_null_array,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType, FieldRef, UnionFields};

/// Returns true if the IPC writer itself truncates slices of this type.
pub(super) fn is_compact(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..)
        | DataType::RunEndEncoded(..)
        | DataType::Utf8View
        | DataType::BinaryView
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::Union(..) => false,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => is_compact(item.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_compact(field.data_type())),
        _ => true,
    }
}

/// Returns an array with the same rows and without unused data. Dictionaries and runs are expanded, because they only
/// save space if there are many rows, and each value is encoded alone.
pub(super) fn compact(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if is_compact(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            // The dictionary is empty, so all rows are null.
            if dictionary.values().is_empty() {
                return compact(&new_null_array(dictionary.values().data_type(), array.len()));
            }
            let nulls = dictionary.keys().nulls();
            let ranges = dictionary.normalized_keys().into_iter().enumerate();
            let ranges = ranges.map(|(row, key)| nulls.is_none_or(|nulls| nulls.is_valid(row)).then_some((key, 1)));
            compact(&pick(dictionary.values(), ranges)?)?
        }
        DataType::RunEndEncoded(..) => downcast_run_array! {
            array => {
                let rows: Vec<i64> = (0..array.len() as i64).collect();
                let ranges = array.get_physical_indices(&rows)?.into_iter();
                compact(&pick(array.values(), ranges.map(|range| Some((range, 1))))?)?
            },
            _ => Arc::clone(array)
        },
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        DataType::Struct(fields) => {
            let array = array.as_struct();
            let columns = array.columns().iter().map(compact).collect::<Result<Vec<_>, _>>()?;
            let fields = fields.iter().zip(&columns).map(|(field, column)| retyped(field, column)).collect();
            Arc::new(StructArray::try_new_with_length(fields, columns, array.nulls().cloned(), array.len())?)
        }
        DataType::List(item) => list::<i32>(item, array)?,
        DataType::LargeList(item) => list::<i64>(item, array)?,
        DataType::ListView(item) => list_view::<i32>(item, array)?,
        DataType::LargeListView(item) => list_view::<i64>(item, array)?,
        DataType::FixedSizeList(item, size) => {
            let list = array.as_fixed_size_list();
            let items = compact(list.values())?;
            let (item, nulls) = (retyped(item, &items), list.nulls().cloned());
            Arc::new(FixedSizeListArray::try_new_with_length(item, *size, items, nulls, list.len())?)
        }
        DataType::Map(entries, sorted) => {
            let map = array.as_map();
            let (offsets, start, length) = rebased(map.offsets());
            let items = compact(&(Arc::new(map.entries().slice(start, length)) as ArrayRef))?;
            let entries = retyped(entries, &items);
            Arc::new(MapArray::try_new(entries, offsets, items.as_struct().clone(), map.nulls().cloned(), *sorted)?)
        }
        DataType::Union(fields, _) => union(fields, array)?,
        _ => Arc::clone(array),
    })
}

/// Returns the rows of all `ranges`, which are pairs of start and length; `None` becomes a null row. This function
/// replaces Arrow's `take`, which is generic and would add megabytes of code.
fn pick(
    values: &ArrayRef,
    ranges: impl ExactSizeIterator<Item = Option<(usize, usize)>>,
) -> Result<ArrayRef, ArrowError> {
    let data = values.to_data();
    let mut picked = MutableArrayData::new(vec![&data], true, ranges.len());
    for range in ranges {
        match range {
            Some((start, length)) => picked.try_extend(0, start, start + length)?,
            None => picked.try_extend_nulls(1)?,
        }
    }
    Ok(make_array(picked.freeze()))
}

fn retyped(field: &FieldRef, array: &ArrayRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(array.data_type().clone()))
}

/// Returns the offsets, moved so that they start at 0, and the start and length of the items that they refer to.
fn rebased<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (OffsetBuffer<O>, usize, usize) {
    let (first, last) = (offsets.first(), offsets.last());
    let moved = OffsetBuffer::new(offsets.iter().map(|&offset| offset - first).collect());
    (moved, first.as_usize(), (last - first).as_usize())
}

fn list<O: OffsetSizeTrait>(item: &FieldRef, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let list = array.as_list::<O>();
    let (offsets, start, length) = rebased(list.offsets());
    let items = compact(&list.values().slice(start, length))?;
    let item = retyped(item, &items);
    Ok(Arc::new(GenericListArray::try_new(item, offsets, items, list.nulls().cloned())?))
}

fn list_view<O: OffsetSizeTrait>(item: &FieldRef, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let list = array.as_list_view::<O>();
    let ranges = list.offsets().iter().zip(list.sizes()).map(|(offset, size)| (offset.as_usize(), size.as_usize()));
    let mut next = 0;
    let offsets = list.sizes().iter().map(|size| {
        next += size.as_usize();
        O::usize_as(next - size.as_usize())
    });
    let offsets: Vec<O> = offsets.collect();
    let items = compact(&pick(list.values(), ranges.collect::<Vec<_>>().into_iter().map(Some))?)?;
    let (item, offsets) = (retyped(item, &items), ScalarBuffer::from(offsets));
    let (sizes, nulls) = (list.sizes().clone(), list.nulls().cloned());
    Ok(Arc::new(GenericListViewArray::try_new(item, offsets, sizes, items, nulls)?))
}

fn union(fields: &UnionFields, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    // If the union is dense, copying keeps only the used rows of the children.
    let taken = pick(array, [Some((0, array.len()))].into_iter())?;
    let taken = taken.as_union();
    let (mut children, mut named) = (Vec::new(), Vec::new());
    for (id, field) in fields.iter() {
        let child = compact(taken.child(id))?;
        named.push((id, retyped(field, &child)));
        children.push(child);
    }
    let fields = named.into_iter().collect::<UnionFields>();
    let union = UnionArray::try_new(fields, taken.type_ids().clone(), taken.offsets().cloned(), children)?;
    Ok(Arc::new(union))
}
