//! Decoder of values from several writers into rows of one schema.

use std::collections::BTreeMap;

use samsarrow_wire::varint::put_varlong;

use super::Schema;
use super::plan::Plan;
use super::resolve;
use crate::builders::{Columns, Shape};
use crate::byte_reader::ByteReader;
use crate::error::{Fault, Reason, SchemaError, Step};
use crate::framing::{self, Framing, SchemaId};

#[derive(Debug)]
pub(crate) struct Reader {
    schema: Schema,
    pub(crate) framing: Framing,
    plans: Vec<Result<Plan, SchemaError>>,
    /// Index into `plans` for each known id.
    known: BTreeMap<SchemaId, usize>,
    last: Option<(SchemaId, usize)>,
    /// Confluent prefix of the last value, and the index of its plan. Most values have the same prefix as the one
    /// before.
    last_prefix: Option<([u8; 5], usize)>,
    /// Scratch buffer, in which raw bytes get a length prefix.
    prefixed: Vec<u8>,
}

impl Reader {
    pub(crate) fn new(schema: Schema, framing: Framing) -> Reader {
        let (plans, known) = (Vec::new(), BTreeMap::new());
        Reader { schema, framing, plans, known, last: None, last_prefix: None, prefixed: Vec::new() }
    }

    /// Adds the writer's schema for an id. `shape` describes the columns of the reader's schema.
    pub(crate) fn add_writer(&mut self, id: SchemaId, writer: &Schema, shape: &Shape) {
        self.add(id, resolve::plan(writer, &self.schema, shape));
    }

    /// Adds the plan for an id, or the reason why values with this id cannot be read.
    pub(crate) fn add(&mut self, id: SchemaId, plan: Result<Plan, SchemaError>) {
        self.known.insert(id, self.plans.len());
        self.plans.push(plan);
        (self.last, self.last_prefix) = (None, None);
    }

    pub(crate) fn refusal(&self, id: SchemaId) -> Option<&SchemaError> {
        self.plans.get(*self.known.get(&id)?)?.as_ref().err()
    }

    /// Returns the reason why some values with an id cannot be read, such as the values of one branch.
    pub(crate) fn refusal_of_some(&self, id: SchemaId) -> Option<String> {
        self.plans.get(*self.known.get(&id)?)?.as_ref().ok()?.root.missing_counterpart()
    }

    pub(crate) fn knows(&self, id: SchemaId) -> bool {
        self.known.contains_key(&id)
    }

    #[inline]
    pub(crate) fn push(&mut self, value: &[u8], header: Option<&[u8]>, columns: &mut Columns) -> Step {
        if header.is_none()
            && let Some((prefix, at)) = self.last_prefix
            && let Some((head, payload)) = value.split_first_chunk::<5>()
            && *head == prefix
        {
            return self.decode(at, payload, columns);
        }
        let (id, payload) =
            framing::split(self.framing, value, header).map_err(|error| Reason::Other(error.to_string().into()))?;
        let at = match self.last {
            Some((last, at)) if last == id => at,
            _ => *self.known.get(&id).ok_or_else(|| unknown(id))?,
        };
        self.last = Some((id, at));
        if header.is_none() && self.framing.has_prefix() {
            self.last_prefix = value.first_chunk::<5>().map(|prefix| (*prefix, at));
        }
        self.decode(at, payload, columns)
    }

    #[inline]
    fn decode(&mut self, at: usize, payload: &[u8], columns: &mut Columns) -> Step {
        let plan = match self.plans.get(at) {
            Some(Ok(plan)) => plan,
            Some(Err(error)) => {
                return Err(Box::new(Fault {
                    reason: Reason::Other(error.text.as_str().into()),
                    path: error.path.clone(),
                }));
            }
            None => return Err(Reason::Other("there is no plan".into()).into()),
        };
        if plan.raw && self.framing.is_confluents() {
            return decode_raw(plan, payload, &mut self.prefixed, columns);
        }
        decode_value(plan, payload, columns)
    }
}

#[cold]
fn unknown(id: SchemaId) -> Reason {
    Reason::Other(framing::unknown(id).into())
}

#[inline]
fn decode_value(plan: &Plan, payload: &[u8], columns: &mut Columns) -> Step {
    columns.budget.start(payload.len());
    let input = plan.root.run(ByteReader::new(payload), columns)?;
    if input.len() == 0 { Ok(()) } else { Err(Reason::Trailing(input.len()).into()) }
}

/// Decodes bytes that have no length prefix.
fn decode_raw(plan: &Plan, payload: &[u8], prefixed: &mut Vec<u8>, columns: &mut Columns) -> Step {
    prefixed.clear();
    put_varlong(prefixed, payload.len() as i64);
    prefixed.extend_from_slice(payload);
    decode_value(plan, prefixed, columns)
}
