//! Dictionary of the column `topic`.
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, RecordBatch, StringArray};
use arrow_schema::ArrowError;
use samsarrow_wire::sync::lock;

/// Topic names in the order of their first use. The dictionary only grows. If several decoders share it, the dictionary
/// of an earlier batch is therefore a prefix of the dictionary of each later batch.
#[derive(Debug, Clone, Default)]
pub struct Topics(Arc<Mutex<Names>>);

#[derive(Debug, Default)]
struct Names {
    codes: HashMap<Arc<str>, i32>,
    names: Vec<Arc<str>>,
    /// The names as an array, cached until a topic is added.
    values: Option<ArrayRef>,
}

impl Topics {
    /// Returns the dictionary index of `topic`, and adds the topic if it is new.
    pub fn code(&self, topic: &Arc<str>) -> i32 {
        let mut names = lock(&self.0);
        if let Some(code) = names.codes.get(topic) {
            return *code;
        }
        let code = names.names.len() as i32;
        names.names.push(Arc::clone(topic));
        names.codes.insert(Arc::clone(topic), code);
        names.values = None;
        code
    }

    /// Returns the current dictionary.
    pub fn values(&self) -> ArrayRef {
        let mut names = lock(&self.0);
        if let Some(values) = &names.values {
            return Arc::clone(values);
        }
        let values: ArrayRef = Arc::new(StringArray::from_iter_values(&names.names));
        names.values = Some(Arc::clone(&values));
        values
    }

    /// Replaces the batch's dictionary, which must be a prefix of the current dictionary, by the current one.
    ///
    /// # Errors
    /// Fails if the batch contains a dictionary index that the current dictionary does not have.
    pub fn renew(&self, batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
        let Some((at, _)) = batch.schema_ref().column_with_name("topic") else { return Ok(batch) };
        let Some(old) = batch.column(at).as_dictionary_opt::<Int32Type>() else { return Ok(batch) };
        let values = self.values();
        if Arc::ptr_eq(old.values(), &values) {
            return Ok(batch);
        }
        let renewed = DictionaryArray::try_new(old.keys().clone(), values)?;
        let mut columns = batch.columns().to_vec();
        if let Some(column) = columns.get_mut(at) {
            *column = Arc::new(renewed);
        }
        RecordBatch::try_new(batch.schema(), columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use crate::{DecodeOptions, Decoder};

    #[test]
    fn renew_replaces_the_topic_dictionary() {
        let topics = Topics::default();
        let mut decoder = Decoder::sharing(DecodeOptions::default(), topics.clone(), Pool::default());
        assert_eq!([topics.code(&"b".into()), topics.code(&"a".into()), topics.code(&"b".into())], [0, 1, 0]);
        let batch = decoder.finish().unwrap();
        let names = |batch: &RecordBatch| {
            let values = Arc::clone(batch["topic"].as_dictionary::<Int32Type>().values());
            values.as_string::<i32>().iter().flatten().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(names(&batch), ["b", "a"]);
        topics.code(&"c".into());
        assert_eq!(names(&batch), ["b", "a"]);
        let batch = topics.renew(batch).unwrap();
        assert_eq!(names(&batch), ["b", "a", "c"]);
        assert!(Arc::ptr_eq(batch["topic"].as_dictionary::<Int32Type>().values(), &topics.values()));
    }
}
