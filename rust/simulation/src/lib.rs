//! Simulation of clients and brokers on one thread, with a simulated network and clock. A run is a function of its
//! world and its seed.
//!
//! A world starts an embedded broker and client programs. Events of the seed disturb them for a while. Then the
//! disturbances end, the programs complete, and the world compares the calls and their results with the logs.
#![cfg(feature = "simulation")]
#![forbid(unsafe_code)]

mod context;
mod events;
mod log;
mod options;
mod run;
mod shrink;
mod worlds;

pub use run::{Outcome, Plan, run};
pub use shrink::shrink;
pub use worlds::World;

/// Known defects of the client that can be switched on, each with the world that finds it.
pub const DEFECTS: [(&str, World); 10] = [
    ("MembershipAfterUnsubscribe", World::Groups),
    ("StaleAssignment", World::Groups),
    ("RowsAfterRevocation", World::Groups),
    ("CommitOfFetchedRows", World::Groups),
    ("NewProducerId", World::Produce),
    ("NewSequence", World::Produce),
    ("RequeuedBehind", World::Produce),
    ("CommitAfterFailure", World::Transactions),
    ("UnfencedOffsets", World::Transactions),
    ("AbortedRows", World::Transactions),
];
