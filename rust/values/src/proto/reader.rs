//! Decoder of values from several writers into rows of one message. Fields are identified by their numbers, so one plan
//! decodes the values of all writers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Schema;
use super::arrow_types::Builder;
use super::framing::{self, Which};
use super::plan::Plan;
use crate::avro::project::Projection;
use crate::builders::{Columns, Shape, Slot};
use crate::decoder::Options;
use crate::error::{Fault, Reason, SchemaError, Step};
use crate::framing::{Framing, SchemaId};

#[derive(Debug)]
pub(crate) struct Reader {
    schema: Schema,
    /// Full name of the message.
    name: Arc<str>,
    plan: Plan,
    pub(crate) framing: Framing,
    /// Writer's schemas by id; `None` if all ids stand for the reader's schema.
    writers: Option<BTreeMap<SchemaId, Result<Schema, SchemaError>>>,
    /// Frame of the last value, including the message type. Most values have the same frame as the one before.
    last: Vec<u8>,
}

impl Reader {
    pub(crate) fn new(
        schema: &Schema,
        message: Option<&str>,
        options: &Options,
        columns: &mut Columns,
    ) -> Result<(Reader, Shape), SchemaError> {
        let id = schema.message(message)?;
        let projection = options.fields.as_deref().map(Projection::of).transpose()?.unwrap_or_default();
        let target = Builder::new(&schema.pool, options, columns).message(id, &projection, "")?;
        let name = schema.pool.messages.get(id).map_or_else(|| "".into(), |message| Arc::clone(&message.name));
        let (schema, framing, plan) = (schema.clone(), options.framing, target.plan);
        Ok((Reader { schema, name, plan, framing, writers: None, last: Vec::new() }, target.shape))
    }

    /// From now on, only ids with an added schema are known.
    pub(crate) fn by_id(&mut self) {
        self.writers.get_or_insert_default();
    }

    /// Adds the writer's schema for an id, or the reason why values with this id cannot be read. From the first call
    /// on, only added ids are known.
    pub(crate) fn add(&mut self, id: SchemaId, writer: Result<Schema, SchemaError>) {
        self.writers.get_or_insert_default().insert(id, writer);
        self.last.clear();
    }

    pub(crate) fn refusal(&self, id: SchemaId) -> Option<&SchemaError> {
        self.writers.as_ref()?.get(&id)?.as_ref().err()
    }

    pub(crate) fn knows(&self, id: SchemaId) -> bool {
        id == SchemaId::Bare || self.writers.as_ref().is_none_or(|writers| writers.contains_key(&id))
    }

    pub(crate) fn id_of(&self, value: &[u8], header: Option<&[u8]>) -> Option<SchemaId> {
        framing::id(self.framing, value, header)
    }

    /// Decodes a value, and appends it as the row with the index `row`.
    #[inline]
    pub(crate) fn push(
        &mut self,
        value: &[u8],
        header: Option<&[u8]>,
        shape: &Shape,
        row: usize,
        columns: &mut Columns,
    ) -> Step {
        let check_names =
            if header.is_none() && !self.last.is_empty() { value.strip_prefix(&*self.last) } else { None };
        let message = match check_names {
            Some(message) => message,
            None if self.framing == Framing::Bare => value,
            None => self.unframed(value, header)?,
        };
        let Slot::Struct(at, fields) = &shape.slot else {
            return Err(Reason::Other("there are no columns".into()).into());
        };
        columns.budget.start(message.len());
        columns.structs[*at].push();
        match self.plan.run::<false>(message, fields, columns) {
            Err(fault) if fault.reason == Reason::Again => {
                columns.truncate(shape, row);
                columns.budget.undo_value();
                columns.budget.start(message.len());
                columns.structs[*at].push();
                self.plan.run::<true>(message, fields, columns)
            }
            done => done,
        }
    }

    /// Returns a value without its frame, after checking that the frame contains the reader's message type.
    fn unframed<'a>(&mut self, value: &'a [u8], header: Option<&[u8]>) -> Step<&'a [u8]> {
        let (id, which, len) = match framing::split(self.framing, value, header) {
            Ok((id, which, message)) => (id, which, message.len()),
            Err(error) => return Err(Reason::Other(error.to_string().into()).into()),
        };
        let (prefix, message) = value.split_at_checked(value.len() - len).unwrap_or_default();
        if id != SchemaId::Bare {
            self.check(id, which)?;
        }
        if header.is_none() {
            self.last = prefix.to_vec();
        }
        Ok(message)
    }

    fn check(&self, id: SchemaId, which: Which<'_>) -> Step {
        let writer = match &self.writers {
            None => &self.schema,
            Some(writers) => match writers.get(&id) {
                Some(Ok(writer)) => writer,
                Some(Err(error)) => {
                    let reason = Reason::Other(error.text.as_str().into());
                    return Err(Box::new(Fault { reason, path: error.path.clone() }));
                }
                None => return Err(Reason::Other(crate::framing::unknown(id).into()).into()),
            },
        };
        let found = match which {
            Which::At(indexes) => {
                let numbers = indexes.numbers().unwrap_or_default();
                writer.at_indexes(&numbers).cloned().ok_or_else(|| format!("message of indexes {numbers:?}"))
            }
            Which::Sorted(index) => writer.sorted(index).ok_or_else(|| format!("message with index {index} by name")),
            Which::Named(name) => {
                writer.named(name).cloned().ok_or_else(|| format!("message {name} of the file itself"))
            }
        };
        match found {
            Ok(name) if name == self.name => Ok(()),
            Ok(name) => Err(Reason::Other(format!("it is a {name}, and {} is read", self.name).into()).into()),
            Err(sought) => Err(Reason::Other(format!("its schema has no {sought}").into()).into()),
        }
    }
}
