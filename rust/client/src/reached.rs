//! States and errors that simulations record, to show that their runs reach them.

use std::fmt::Display;

use samsarrow_wire::error_code::ErrorCode;

/// Records a transition of a state machine; does nothing outside of a simulation.
#[inline]
pub(crate) fn transition(machine: &str, from: impl Display, to: impl Display) {
    #[cfg(feature = "simulation")]
    samsarrow_simnet::reached(format!("{machine}: {from} --> {to}"));
    #[cfg(not(feature = "simulation"))]
    let _ = (machine, from, to);
}

/// Records an error code of a response; does nothing outside of a simulation.
#[inline]
pub(crate) fn error_code(request: &str, code: ErrorCode) {
    #[cfg(feature = "simulation")]
    {
        // The name of the API comes first; topics and groups follow.
        let api = request.split([' ', ':']).next().unwrap_or_default();
        samsarrow_simnet::reached(format!("error: {api} {}", code.name()));
    }
    #[cfg(not(feature = "simulation"))]
    let _ = (request, code);
}
