//! Decoder of JSON values into rows of one type.

use super::error::JsonError;
use super::plan::{Node, plan};
use super::scan::Scan;
use super::schema::Schema;
use crate::builders::Columns;
use crate::error::{Fault, Reason, SchemaError, Step};
use crate::framing::{self, Framing};

#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) root: Node,
    pub(crate) framing: Framing,
}

impl Reader {
    pub(crate) fn new(schema: &Schema, framing: Framing, columns: &mut Columns) -> Result<Reader, SchemaError> {
        if framing == Framing::SingleObject {
            return Err(SchemaError::new(
                "",
                "framing single-object is Avro's: JSON has auto, header, confluent, apicurio8 or none",
            ));
        }
        Ok(Reader { root: plan(&schema.root, columns)?, framing })
    }

    #[inline]
    pub(crate) fn push(&self, value: &[u8], header: Option<&[u8]>, columns: &mut Columns) -> Step {
        let text = payload(self.framing, value, header)?;
        columns.budget.start(text.len());
        self.whole(Scan::new(text), columns).map_err(|fault| with_position(fault, text.len()))
    }

    #[inline]
    fn whole(&self, mut scan: Scan<'_>, columns: &mut Columns) -> Step {
        scan.skip_whitespace();
        if scan.remaining() == 0 {
            return Err(Reason::from(JsonError::Empty).into());
        }
        let mut scan = self.root.run(scan, columns)?;
        scan.skip_whitespace();
        if scan.remaining() == 0 { Ok(()) } else { Err(Reason::from(JsonError::Trailing(scan.remaining())).into()) }
    }
}

/// Returns a value without its frame. JSON text never begins with byte 0, so with automatic framing, a value that
/// begins with another byte has no frame.
#[inline]
pub(crate) fn payload<'a>(framing: Framing, value: &'a [u8], header: Option<&[u8]>) -> Step<&'a [u8]> {
    if matches!(framing, Framing::Bare | Framing::Header)
        || framing == Framing::Auto && header.is_none() && value.first() != Some(&0)
    {
        return Ok(value);
    }
    let split = framing::split(framing, value, header);
    Ok(split.map_err(|error| Reason::Other(error.to_string().into()))?.1)
}

/// Converts byte positions in the error, so that they are counted from the start of the text.
#[cold]
pub(crate) fn with_position(mut fault: Box<Fault>, len: usize) -> Box<Fault> {
    if let Reason::Json(wrong) = fault.reason {
        fault.reason = Reason::Json(wrong.with_position(len));
    }
    fault
}
