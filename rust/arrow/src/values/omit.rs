//! Arrays that name the members of structs to be left out where they are null.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait,
    StructArray, UnionArray,
};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, UnionFields};

/// The key of the metadata of such a member.
const OMITTED: &str = "samsarrow:omitted";

pub(super) fn is_omitted(field: &Field) -> bool {
    field.metadata().contains_key(OMITTED)
}

/// Members to be left out, by their places in a type.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Omitted {
    /// The fields of a struct or a union that it is about; of a list, its item, and of a map, its value. What stands for
    /// other values has those of these.
    below: Vec<(usize, bool, Omitted)>,
}

impl Omitted {
    /// Those of a type among which `is_omitted` holds of the field of the same name in a schema.
    pub(super) fn of(kind: &DataType, schema: &DataType, is_omitted: fn(&Field) -> bool) -> Omitted {
        let below = match (kind, schema) {
            // Of these only the values are written, which is all that a schema knows.
            (DataType::Dictionary(_, values), _) => return Omitted::of(values, schema, is_omitted),
            (DataType::RunEndEncoded(_, values), _) => return Omitted::of(values.data_type(), schema, is_omitted),
            (DataType::Union(fields, _), _) => fields
                .iter()
                .enumerate()
                .map(|(at, (_, field))| (at, false, Omitted::of(field.data_type(), schema, is_omitted)))
                .filter(|(.., below)| !below.is_empty())
                .collect(),
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
            DataType::ListView(item) => Arc::new(self.list_view(item, array.as_list_view::<i32>())?),
            DataType::LargeListView(item) => Arc::new(self.list_view(item, array.as_list_view::<i64>())?),
            DataType::FixedSizeList(item, size) => {
                let list = array.as_fixed_size_list();
                let values = self.part(0, list.values())?;
                let nulls = list.nulls().cloned();
                let item = retyped(item, &values);
                Arc::new(FixedSizeListArray::try_new_with_length(item, *size, values, nulls, list.len())?)
            }
            DataType::Map(entries, sorted) => {
                let map = array.as_map();
                let values = self.part(0, map.values())?;
                let (fields, columns, nulls) = map.entries().clone().into_parts();
                let (Some(key), Some(value), Some(keys)) = (fields.first(), fields.get(1), columns.first()) else {
                    return Ok(Arc::clone(array));
                };
                let fields = vec![Arc::clone(key), retyped(value, &values)];
                let pairs = StructArray::try_new(fields.into(), vec![Arc::clone(keys), values], nulls)?;
                let entries = Arc::new(Field::clone(entries).with_data_type(pairs.data_type().clone()));
                Arc::new(MapArray::try_new(entries, map.offsets().clone(), pairs, map.nulls().cloned(), *sorted)?)
            }
            DataType::Dictionary(..) => {
                let coded = array.as_any_dictionary();
                coded.with_values(self.mark(coded.values())?)
            }
            DataType::RunEndEncoded(..) => {
                let runs = array.as_any_ree();
                runs.with_values(self.mark(runs.values())?)
            }
            DataType::Union(fields, _) => {
                let union = array.as_union();
                let children = fields.iter().enumerate().map(|(at, (id, _))| self.part(at, union.child(id)));
                let children = children.collect::<Result<Vec<_>, _>>()?;
                let kinds = fields.iter().zip(&children).map(|((_, field), child)| retyped(field, child));
                let fields = UnionFields::try_new(fields.iter().map(|(id, _)| id), kinds)?;
                let (ids, offsets) = (union.type_ids().clone(), union.offsets().cloned());
                Arc::new(UnionArray::try_new(fields, ids, offsets, children)?)
            }
            _ => Arc::clone(array),
        })
    }

    fn list<O: OffsetSizeTrait>(
        &self,
        item: &FieldRef,
        list: &GenericListArray<O>,
    ) -> Result<GenericListArray<O>, ArrowError> {
        let values = self.part(0, list.values())?;
        let item = retyped(item, &values);
        GenericListArray::try_new(item, list.offsets().clone(), values, list.nulls().cloned())
    }

    fn list_view<O: OffsetSizeTrait>(
        &self,
        item: &FieldRef,
        list: &GenericListViewArray<O>,
    ) -> Result<GenericListViewArray<O>, ArrowError> {
        let values = self.part(0, list.values())?;
        let item = retyped(item, &values);
        let (offsets, sizes) = (list.offsets().clone(), list.sizes().clone());
        GenericListViewArray::try_new(item, offsets, sizes, values, list.nulls().cloned())
    }

    fn part(&self, at: usize, values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        match self.below.iter().find(|(place, ..)| *place == at) {
            Some((_, _, below)) => below.mark(values),
            None => Ok(Arc::clone(values)),
        }
    }
}

/// The item of a list, or the value of a map.
fn inner(kind: &DataType) -> Option<&FieldRef> {
    match kind {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => Some(item),
        DataType::ListView(item) | DataType::LargeListView(item) => Some(item),
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

#[cfg(test)]
mod tests {
    use arrow_array::{DictionaryArray, Int8Array, Int32Array, RecordBatch, RunArray, StringArray};
    use arrow_buffer::NullBuffer;
    use arrow_schema::Fields;

    use super::*;
    use crate::values::{ValueColumns, ValueFormat, ValueWriter};

    /// `a` is left out where it is null, and `b` is not.
    fn is_a(field: &Field) -> bool {
        field.name() == "a"
    }

    fn object(fields: &[(&str, &DataType)]) -> DataType {
        let fields = fields.iter().map(|(name, kind)| Field::new(*name, DataType::clone(kind), true));
        DataType::Struct(fields.collect())
    }

    fn list(of: DataType) -> DataType {
        DataType::List(Arc::new(Field::new_list_field(of, true)))
    }

    fn rows(columns: &[(&str, ArrayRef)], nulls: Option<Vec<bool>>) -> ArrayRef {
        let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
        let columns = columns.iter().map(|(_, column)| Arc::clone(column)).collect();
        Arc::new(StructArray::try_new(fields.collect::<Fields>(), columns, nulls.map(NullBuffer::from)).unwrap())
    }

    fn written(column: &ArrayRef, schema: &DataType) -> Vec<String> {
        let data = RecordBatch::try_from_iter_with_nullable([("v", Arc::clone(column), true)]).unwrap();
        let writer = ValueWriter::new(&data, &ValueColumns::One("v".to_owned()), ValueFormat::Json).unwrap();
        let (_, texts) = writer.omitting(schema, is_a).unwrap().next(usize::MAX).unwrap().unwrap();
        texts.iter().map(|text| String::from_utf8(text.unwrap_or(b"-").to_vec()).unwrap()).collect()
    }

    /// Three objects, of which the last is null.
    fn objects() -> ArrayRef {
        let [a, b]: [ArrayRef; 2] =
            [vec![None, Some("x"), None], vec![None; 3]].map(|texts| Arc::new(StringArray::from(texts)) as ArrayRef);
        rows(&[("a", a), ("b", b)], Some(vec![true, true, false]))
    }

    fn coded(keys: Vec<Option<i8>>, values: ArrayRef) -> ArrayRef {
        Arc::new(DictionaryArray::try_new(Int8Array::from(keys), values).unwrap())
    }

    fn runs(ends: Vec<i32>, values: &ArrayRef) -> ArrayRef {
        Arc::new(RunArray::try_new(&Int32Array::from(ends), values).unwrap())
    }

    /// Of numbers, type 1, and something else, type 5.
    fn union(ids: Vec<i8>, offsets: Option<Vec<i32>>, numbers: Vec<i8>, others: ArrayRef) -> ArrayRef {
        let numbers: ArrayRef = Arc::new(Int8Array::from(numbers));
        let kinds = [("n", &numbers), ("o", &others)].map(|(name, of)| Field::new(name, of.data_type().clone(), true));
        let fields = UnionFields::try_new([1, 5], kinds).unwrap();
        Arc::new(UnionArray::try_new(fields, ids.into(), offsets.map(Into::into), vec![numbers, others]).unwrap())
    }

    #[test]
    fn members_are_left_out_in_whatever_stands_for_their_objects() {
        let schema = object(&[("a", &DataType::Utf8), ("b", &DataType::Utf8)]);
        let (none, one) = (r#"{"b":null}"#, r#"{"a":"x","b":null}"#);
        let objects = objects();
        for (column, wanted) in [
            (coded(vec![Some(1), Some(0), None, Some(2)], Arc::clone(&objects)), [one, none, "-", "-"]),
            (runs(vec![1, 3, 4], &objects), [none, one, one, "-"]),
            (union(vec![5, 1, 5, 5], Some(vec![1, 0, 0, 2]), vec![7], Arc::clone(&objects)), [one, "7", none, "-"]),
            (union(vec![5, 5, 5, 1], None, vec![7; 4], runs(vec![1, 3, 4], &objects)), [none, one, one, "7"]),
            (runs(vec![1, 3, 4], &coded(vec![Some(1), Some(0), None], objects)), [one, none, none, "-"]),
        ] {
            assert_eq!(written(&column, &schema), wanted);
            assert_eq!(written(&column.slice(1, 3), &schema), wanted[1..]);
            let within = rows(&[("of", column)], None);
            let whole = written(&within, &object(&[("of", &schema)]));
            assert_eq!(whole, wanted.map(|text| format!(r#"{{"of":{}}}"#, text.replace('-', "null"))));
        }
    }

    #[test]
    fn members_are_left_out_in_views_of_lists() {
        fn views<O: OffsetSizeTrait>(values: ArrayRef) -> ArrayRef {
            let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
            let [offsets, sizes] = [[1, 0, 0], [2, 2, 0]].map(|all| all.map(O::usize_as).to_vec().into());
            Arc::new(GenericListViewArray::try_new(item, offsets, sizes, values, None).unwrap())
        }
        let schema = list(object(&[("a", &DataType::Utf8), ("b", &DataType::Utf8)]));
        let wanted = [r#"[{"a":"x","b":null},null]"#, r#"[{"b":null},{"a":"x","b":null}]"#, "[]"];
        for column in [views::<i32>(objects()), views::<i64>(objects())] {
            assert_eq!(written(&column, &schema), wanted);
            assert_eq!(written(&column.slice(1, 2), &schema), wanted[1..]);
        }
    }

    /// Those of which the array itself does not say that they are null.
    #[test]
    fn nulls_of_every_layout_are_left_out() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(":null"), None]));
        for (column, wanted) in [
            (coded(vec![Some(1), Some(0), None], Arc::clone(&texts)), ["{}", r#"{"a":":null"}"#, "{}"]),
            (runs(vec![1, 3], &texts), [r#"{"a":":null"}"#, "{}", "{}"]),
            (union(vec![5, 1, 5], Some(vec![1, 0, 0]), vec![7], texts), ["{}", r#"{"a":7}"#, r#"{"a":":null"}"#]),
        ] {
            let column = rows(&[("a", column)], None);
            assert_eq!(written(&column, &object(&[("a", &DataType::Utf8)])), wanted);
        }
    }
}
