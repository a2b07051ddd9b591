//! What runs between Python and the core for each call, event and record: calls that are waited for or awaited, event
//! loops, the GIL, rows, results of what was sent. Classes of clients are above, in `rust/py`.

#![expect(missing_debug_implementations, reason = "Python's classes show themselves as Python does")]

pub mod aio;
pub mod arrow_ffi;
pub mod call;
pub mod deadline;
pub mod delivery;
pub mod error;
pub mod gate;
pub mod lanes;
pub mod logging;
pub mod rows;
pub mod runtime;
