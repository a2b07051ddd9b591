//! Marks in array types for values that need a special encoding: null members to omit, JSON texts, and times of day.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait,
    StructArray, UnionArray,
};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, UnionFields};

/// Metadata key that marks a member to omit if it is null.
const OMITTED: &str = "samsarrow:omitted";

pub(super) fn is_omitted(field: &Field) -> bool {
    field.metadata().contains_key(OMITTED)
}

/// Functions that return properties of a field of a schema. The field's Arrow type does not contain these properties.
#[derive(Debug, Clone, Copy)]
pub struct FieldRules {
    /// Returns true if the member is omitted when it is null.
    pub is_omitted: fn(&Field) -> bool,
    /// Returns true if the field's strings are JSON, which is embedded unchanged.
    pub is_json: fn(&Field) -> bool,
    /// Returns true if the field's times of day are written with a UTC offset, as in RFC 3339.
    pub is_full_time: fn(&Field) -> bool,
}

/// Rules for columns without a schema.
pub(super) const OWN: FieldRules = FieldRules { is_omitted: |_| false, is_json: |_| false, is_full_time: |_| false };

/// Name of Arrow's extension type for strings that contain JSON.
const JSON: &str = "arrow.json";
/// Metadata key for the encoding of a marked array. A marked array is a struct whose only column is the original array.
const ENCODING: &str = "samsarrow:written";

/// Special encodings of an array, in addition to its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonEncoding {
    /// JSON texts, embedded unchanged.
    Json,
    /// Times of day, written with `Z` at the end.
    FullTime,
}

/// Returns the encoding of a marked array, and the path of its field.
pub(super) fn json_encoding(fields: &Fields) -> Option<(JsonEncoding, &str)> {
    let [field] = &**fields else { return None };
    let encoding = match field.metadata().get(ENCODING)?.as_str() {
        "json" => JsonEncoding::Json,
        _ => JsonEncoding::FullTime,
    };
    Some((encoding, field.name()))
}

/// The fields within a type that need a special encoding.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// Encoding and path of this field itself, if it is special.
    own: Option<(JsonEncoding, String)>,
    /// Path of this field, if it is a timestamp without a time zone and the schema requires a time zone. Encoding is
    /// then an error, because the timestamp does not determine an instant.
    naive: Option<String>,
    /// Index of each special child, whether it is omitted if null, and its marks. Children are the fields of a struct
    /// or union, the item of a list, and the value of a map. Dictionaries and runs have the marks of their values.
    children: Vec<(usize, bool, Marks)>,
}

impl Marks {
    /// Returns the marks of a field. They depend on the field itself and on `schema`, the corresponding field of the
    /// schema.
    pub(super) fn of(field: &Field, schema: Option<&Field>, rules: FieldRules, path: &str) -> Marks {
        let schema_has = |rule: fn(&Field) -> bool| schema.is_some_and(rule);
        let like = |kind: &DataType| Field::clone(field).with_data_type(kind.clone());
        let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let is_json = field.extension_type_name() == Some(JSON) || schema_has(rules.is_json);
        let own = match field.data_type() {
            // Continue with the values, because the keys are neither written nor in the schema.
            DataType::Dictionary(_, values) => return Marks::of(&like(values), schema, rules, path),
            DataType::RunEndEncoded(_, values) => {
                return Marks::of(&like(values.data_type()), schema, rules, path);
            }
            DataType::Struct(fields) if json_encoding(fields).is_some() => return Marks::default(),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View if is_json => Some(JsonEncoding::Json),
            DataType::Time32(_) | DataType::Time64(_) if schema_has(rules.is_full_time) => Some(JsonEncoding::FullTime),
            _ => None,
        };
        let naive = matches!(field.data_type(), DataType::Timestamp(_, None))
            && schema.is_some_and(|schema| matches!(schema.data_type(), DataType::Timestamp(_, Some(_))));
        let children: Vec<(usize, bool, Marks)> = match field.data_type() {
            DataType::Union(fields, _) => {
                let of =
                    |(at, (_, field)): (usize, (i8, &FieldRef))| (at, false, Marks::of(field, schema, rules, path));
                fields.iter().enumerate().map(of).collect()
            }
            DataType::Struct(fields) => {
                let named = |name: &str| match schema.map(Field::data_type) {
                    Some(DataType::Struct(schema)) => schema.find(name).map(|(_, field)| &**field),
                    _ => None,
                };
                let of = |(at, field): (usize, &FieldRef)| {
                    let schema = named(field.name());
                    let is_omitted = schema.is_some_and(rules.is_omitted);
                    (at, is_omitted, Marks::of(field, schema, rules, &join(field.name())))
                };
                fields.iter().enumerate().map(of).collect()
            }
            kind => {
                let schema = schema.and_then(|schema| inner(schema.data_type())).map(|field| &**field);
                let path = format!("{path}[]");
                inner(kind).map(|inner| (0, false, Marks::of(inner, schema, rules, &path))).into_iter().collect()
            }
        };
        let children =
            children.into_iter().filter(|(_, is_omitted, children)| *is_omitted || !children.is_empty()).collect();
        Marks { own: own.map(|own| (own, path.to_owned())), naive: naive.then(|| path.to_owned()), children }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.own.is_none() && self.naive.is_none() && self.children.is_empty()
    }

    /// Returns the array with the marks in its type. Nothing is copied.
    pub(super) fn mark(&self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        if self.is_empty() {
            return Ok(Arc::clone(array));
        }
        if let Some(path) = &self.naive {
            return Err(ArrowError::InvalidArgumentError(format!(
                "field {path}: a timestamp without a time zone is no date-time (RFC 3339): cast it to one that has a time zone"
            )));
        }
        Ok(match array.data_type() {
            kind if !matches!(kind, DataType::Dictionary(..) | DataType::RunEndEncoded(..)) && self.own.is_some() => {
                let Some((encoding, path)) = &self.own else { return Ok(Arc::clone(array)) };
                let encoding = match encoding {
                    JsonEncoding::Json => "json",
                    JsonEncoding::FullTime => "full-time",
                };
                let field = Field::new(path, kind.clone(), true).with_metadata([(ENCODING, encoding)]);
                let nulls = array.logical_nulls();
                let (fields, columns) = (vec![field].into(), vec![Arc::clone(array)]);
                Arc::new(StructArray::try_new_with_length(fields, columns, nulls, array.len())?)
            }
            DataType::Struct(fields) => {
                let rows = array.as_struct();
                let mut fields = fields.to_vec();
                let mut columns = rows.columns().to_vec();
                for (at, own, children) in &self.children {
                    let (Some(field), Some(column)) = (fields.get_mut(*at), columns.get_mut(*at)) else {
                        return Err(ArrowError::SchemaError("the type of a column differs from its schema".to_owned()));
                    };
                    *column = children.mark(column)?;
                    *field = retyped(field, column);
                    if *own {
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
        match self.children.iter().find(|(index, ..)| *index == at) {
            Some((_, _, children)) => children.mark(values),
            None => Ok(Arc::clone(values)),
        }
    }
}

/// Returns the item field of a list, or the value field of a map.
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
    use arrow_buffer::{NullBuffer, OffsetBuffer};

    use super::*;
    use crate::value_encoding::{ValueColumns, ValueFormat, ValueWriter};

    /// Rule for tests: member `a` is omitted if it is null, other members are not.
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

    fn encoded(column: &ArrayRef, schema: &DataType) -> Vec<String> {
        let data = RecordBatch::try_from_iter_with_nullable([("v", Arc::clone(column), true)]).unwrap();
        let writer = ValueWriter::new(&data, &ValueColumns::One("v".to_owned()), ValueFormat::Json).unwrap();
        let rules = FieldRules { is_omitted: is_a, ..OWN };
        let (_, texts) =
            writer.following(&Field::new("v", schema.clone(), true), rules).unwrap().next(usize::MAX).unwrap().unwrap();
        texts.iter().map(|text| String::from_utf8(text.unwrap_or(b"-").to_vec()).unwrap()).collect()
    }

    /// Returns three objects, the last of them null.
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

    /// Returns a union of numbers (type id 1) and another type (type id 5).
    fn union(ids: Vec<i8>, offsets: Option<Vec<i32>>, numbers: Vec<i8>, others: ArrayRef) -> ArrayRef {
        let numbers: ArrayRef = Arc::new(Int8Array::from(numbers));
        let kinds = [("n", &numbers), ("o", &others)].map(|(name, of)| Field::new(name, of.data_type().clone(), true));
        let fields = UnionFields::try_new([1, 5], kinds).unwrap();
        Arc::new(UnionArray::try_new(fields, ids.into(), offsets.map(Into::into), vec![numbers, others]).unwrap())
    }

    #[test]
    fn omits_null_members_in_all_layouts_of_objects() {
        let schema = object(&[("a", &DataType::Utf8), ("b", &DataType::Utf8)]);
        let (none, one) = (r#"{"b":null}"#, r#"{"a":"x","b":null}"#);
        let objects = objects();
        for (column, expected) in [
            (coded(vec![Some(1), Some(0), None, Some(2)], Arc::clone(&objects)), [one, none, "-", "-"]),
            (runs(vec![1, 3, 4], &objects), [none, one, one, "-"]),
            (union(vec![5, 1, 5, 5], Some(vec![1, 0, 0, 2]), vec![7], Arc::clone(&objects)), [one, "7", none, "-"]),
            (union(vec![5, 5, 5, 1], None, vec![7; 4], runs(vec![1, 3, 4], &objects)), [none, one, one, "7"]),
            (runs(vec![1, 3, 4], &coded(vec![Some(1), Some(0), None], objects)), [one, none, none, "-"]),
        ] {
            assert_eq!(encoded(&column, &schema), expected);
            assert_eq!(encoded(&column.slice(1, 3), &schema), expected[1..]);
            let within = rows(&[("of", column)], None);
            let expected_objects = encoded(&within, &object(&[("of", &schema)]));
            assert_eq!(expected_objects, expected.map(|text| format!(r#"{{"of":{}}}"#, text.replace('-', "null"))));
        }
    }

    #[test]
    fn omits_null_members_in_list_views() {
        fn views<O: OffsetSizeTrait>(values: ArrayRef) -> ArrayRef {
            let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
            let [offsets, sizes] = [[1, 0, 0], [2, 2, 0]].map(|all| all.map(O::usize_as).to_vec().into());
            Arc::new(GenericListViewArray::try_new(item, offsets, sizes, values, None).unwrap())
        }
        let schema = list(object(&[("a", &DataType::Utf8), ("b", &DataType::Utf8)]));
        let expected = [r#"[{"a":"x","b":null},null]"#, r#"[{"b":null},{"a":"x","b":null}]"#, "[]"];
        for column in [views::<i32>(objects()), views::<i64>(objects())] {
            assert_eq!(encoded(&column, &schema), expected);
            assert_eq!(encoded(&column.slice(1, 2), &schema), expected[1..]);
        }
    }

    #[test]
    fn embeds_json_texts() {
        let json =
            |name: &str, kind: DataType| Field::new(name, kind, true).with_metadata([("ARROW:extension:name", JSON)]);
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(r#"{"k": [1]}"#), None, Some("\"a\""), Some("7")]));
        let expected = [r#"{"k": [1]}"#, "null", r#""a""#, "7"];
        let is_json: fn(&Field) -> bool = |field| field.name() == "j";
        let rules = FieldRules { is_json, ..OWN };
        let of = |column: &ArrayRef, field: Field, schema: Option<&Field>| {
            let data = RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(vec![field])), vec![Arc::clone(column)]);
            let writer =
                ValueWriter::new(&data.unwrap(), &ValueColumns::One("v".to_owned()), ValueFormat::Json).unwrap();
            let mut writer = match schema {
                Some(schema) => writer.following(schema, rules).unwrap(),
                None => writer,
            };
            writer.next(usize::MAX).map(|done| {
                let (_, texts) = done.unwrap();
                texts.iter().map(|text| String::from_utf8(text.unwrap_or(b"-").to_vec()).unwrap()).collect::<Vec<_>>()
            })
        };
        let objects = |texts: &ArrayRef, field: Field| -> ArrayRef {
            let field = field.with_data_type(texts.data_type().clone());
            Arc::new(StructArray::try_new(vec![field].into(), vec![Arc::clone(texts)], None).unwrap())
        };
        let expected_objects = expected.map(|text| format!(r#"{{"j":{text}}}"#));
        for column in [
            Arc::clone(&texts),
            coded(vec![Some(0), Some(1), Some(2), Some(3)], Arc::clone(&texts)),
            runs(vec![1, 2, 3, 4], &texts),
        ] {
            // The strings are marked as JSON by the extension type of the column, then by the schema.
            let rows = objects(&column, json("j", DataType::Utf8));
            assert_eq!(of(&rows, Field::new("v", rows.data_type().clone(), true), None).unwrap(), expected_objects);
            let rows = objects(&column, Field::new("j", DataType::Utf8, true));
            let schema = Field::new("v", object(&[("j", &DataType::Utf8)]), true);
            assert_eq!(
                of(&rows, Field::new("v", rows.data_type().clone(), true), Some(&schema)).unwrap(),
                expected_objects
            );
            let alone = expected.map(|text| text.replace("null", "-"));
            assert_eq!(of(&column, json("v", column.data_type().clone()), None).unwrap(), alone);
        }
        let list: ArrayRef = Arc::new(arrow_array::ListArray::new(
            Arc::new(json("item", DataType::Utf8)),
            OffsetBuffer::from_lengths([3, 1]),
            texts,
            None,
        ));
        let field = Field::new("v", list.data_type().clone(), true);
        assert_eq!(of(&list, field, None).unwrap(), [format!("[{}]", expected[..3].join(",")), "[7]".to_owned()]);
        for bad in ["abc", "", "1 2", "{\"a\":}", "[1"] {
            let column: ArrayRef = Arc::new(StringArray::from(vec!["1", bad]));
            let rows = objects(&column, json("j", DataType::Utf8));
            let error = of(&rows, Field::new("v", rows.data_type().clone(), true), None).unwrap_err().to_string();
            assert!(error.starts_with("row 1, field j: the text is not JSON"), "{error}");
        }
    }

    #[test]
    fn times_of_day_have_an_offset_if_the_schema_requires_it() {
        let times: ArrayRef = Arc::new(arrow_array::Time64MicrosecondArray::from(vec![Some(11_045_600_000), None]));
        let rules = FieldRules { is_full_time: |field| field.name() == "v", ..OWN };
        let data = RecordBatch::try_from_iter_with_nullable([("v", times, true)]).unwrap();
        let writer = ValueWriter::new(&data, &ValueColumns::One("v".to_owned()), ValueFormat::Json).unwrap();
        let schema = Field::new("v", DataType::Time64(arrow_schema::TimeUnit::Microsecond), true);
        let (_, texts) = writer.following(&schema, rules).unwrap().next(usize::MAX).unwrap().unwrap();
        assert_eq!(texts.iter().collect::<Vec<_>>(), [Some(&br#""03:04:05.600Z""#[..]), None]);
    }

    /// The nulls of these arrays are not in the validity bitmap of the array itself.
    #[test]
    fn omits_nulls_in_all_layouts_of_values() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(":null"), None]));
        for (column, expected) in [
            (coded(vec![Some(1), Some(0), None], Arc::clone(&texts)), ["{}", r#"{"a":":null"}"#, "{}"]),
            (runs(vec![1, 3], &texts), [r#"{"a":":null"}"#, "{}", "{}"]),
            (union(vec![5, 1, 5], Some(vec![1, 0, 0]), vec![7], texts), ["{}", r#"{"a":7}"#, r#"{"a":":null"}"#]),
        ] {
            let column = rows(&[("a", column)], None);
            assert_eq!(encoded(&column, &object(&[("a", &DataType::Utf8)])), expected);
        }
    }
}
