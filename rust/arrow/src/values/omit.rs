//! Arrays that name the members of structs to be left out where they are null.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, StructArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};

/// The key of the metadata of such a member.
const OMITTED: &str = "samsarrow:omitted";

pub(super) fn is_omitted(field: &Field) -> bool {
    field.metadata().contains_key(OMITTED)
}

/// Members to be left out, by their places in a type.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Omitted {
    /// The fields of a struct that it is about; of a list, its item, and of a map, its value.
    below: Vec<(usize, bool, Omitted)>,
}

impl Omitted {
    /// Those of a type among which `is_omitted` holds of the field of the same name in a schema.
    pub(super) fn of(kind: &DataType, schema: &DataType, is_omitted: fn(&Field) -> bool) -> Omitted {
        let below = match (kind, schema) {
            (DataType::Struct(fields), DataType::Struct(wanted)) => fields
                .iter()
                .enumerate()
                .filter_map(|(at, field)| {
                    let (_, wanted) = wanted.find(field.name())?;
                    let below = Omitted::of(field.data_type(), wanted.data_type(), is_omitted);
                    let this = is_omitted(wanted);
                    (this || !below.is_empty()).then_some((at, this, below))
                })
                .collect(),
            _ => match (inner(kind), inner(schema)) {
                (Some(inner), Some(wanted)) => {
                    let below = Omitted::of(inner.data_type(), wanted.data_type(), is_omitted);
                    if below.is_empty() { Vec::new() } else { vec![(0, false, below)] }
                }
                _ => Vec::new(),
            },
        };
        Omitted { below }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.below.is_empty()
    }

    /// The same array, of a type in which they are marked. Nothing is copied.
    pub(super) fn mark(&self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        if self.is_empty() {
            return Ok(Arc::clone(array));
        }
        Ok(match array.data_type() {
            DataType::Struct(fields) => {
                let rows = array.as_struct();
                let mut fields = fields.to_vec();
                let mut columns = rows.columns().to_vec();
                for (at, this, below) in &self.below {
                    let (Some(field), Some(column)) = (fields.get_mut(*at), columns.get_mut(*at)) else { continue };
                    *column = below.mark(column)?;
                    *field = retyped(field, column);
                    if *this {
                        let mut marked = Field::clone(field);
                        marked.metadata_mut().insert(OMITTED, "");
                        *field = Arc::new(marked);
                    }
                }
                let nulls = rows.nulls().cloned();
                Arc::new(StructArray::try_new_with_length(fields.into(), columns, nulls, rows.len())?)
            }
            DataType::List(item) => Arc::new(self.list(item, array.as_list::<i32>())?),
            DataType::LargeList(item) => Arc::new(self.list(item, array.as_list::<i64>())?),
            DataType::FixedSizeList(item, size) => {
                let list = array.as_fixed_size_list();
                let values = self.item(list.values())?;
                let nulls = list.nulls().cloned();
                let item = retyped(item, &values);
                Arc::new(FixedSizeListArray::try_new_with_length(item, *size, values, nulls, list.len())?)
            }
            DataType::Map(entries, sorted) => {
                let map = array.as_map();
                let values = self.item(map.values())?;
                let (fields, columns, nulls) = map.entries().clone().into_parts();
                let (Some(key), Some(value), Some(keys)) = (fields.first(), fields.get(1), columns.first()) else {
                    return Ok(Arc::clone(array));
                };
                let fields = vec![Arc::clone(key), retyped(value, &values)];
                let pairs = StructArray::try_new(fields.into(), vec![Arc::clone(keys), values], nulls)?;
                let entries = Arc::new(Field::clone(entries).with_data_type(pairs.data_type().clone()));
                Arc::new(MapArray::try_new(entries, map.offsets().clone(), pairs, map.nulls().cloned(), *sorted)?)
            }
            _ => Arc::clone(array),
        })
    }

    fn list<O: OffsetSizeTrait>(
        &self,
        item: &FieldRef,
        list: &GenericListArray<O>,
    ) -> Result<GenericListArray<O>, ArrowError> {
        let values = self.item(list.values())?;
        let item = retyped(item, &values);
        GenericListArray::try_new(item, list.offsets().clone(), values, list.nulls().cloned())
    }

    fn item(&self, values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        match self.below.first() {
            Some((_, _, below)) => below.mark(values),
            None => Ok(Arc::clone(values)),
        }
    }
}

/// The item of a list, or the value of a map.
fn inner(kind: &DataType) -> Option<&FieldRef> {
    match kind {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => Some(item),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => pair.get(1),
            _ => None,
        },
        _ => None,
    }
}

fn retyped(field: &FieldRef, column: &ArrayRef) -> FieldRef {
    Arc::new(Field::clone(field).with_data_type(column.data_type().clone()))
}
