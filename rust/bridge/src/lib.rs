//! Interface between Python and the Rust client that is used for each call, event and record. It covers blocking and
//! awaited calls, event loops, the GIL, record conversion and delivery results. The Python classes of the clients are
//! in `rust/py`.

#![expect(missing_debug_implementations, reason = "Python's classes show themselves as Python does")]

pub mod aio;
pub mod arrow_ffi;
pub mod call;
pub mod callback_threads;
pub mod deadline;
pub mod delivery;
pub mod error;
pub mod interpreter_guard;
pub mod logging;
pub mod record_iter;
pub mod runtime;
