//! Reduction of a failing run to the events that it needs.

use crate::run::{Outcome, Plan, run};

/// Removes events while the run still fails. Returns the last failing outcome.
///
/// # Errors
/// Fails if no runtime can be created.
pub fn shrink(plan: &Plan, failed: Outcome) -> std::io::Result<Outcome> {
    let mut best = failed;
    let mut step = best.events.len().div_ceil(2);
    while step > 0 {
        let mut start = 0;
        while start < best.events.len() {
            let kept = best.events.iter().enumerate().filter(|(index, _)| !(start..start + step).contains(index));
            let events = kept.map(|(_, timed)| timed.clone()).collect();
            let outcome = run(&Plan { events: Some(events), ..plan.clone() })?;
            if outcome.violations.is_empty() { start += step } else { best = outcome }
        }
        step /= 2;
    }
    Ok(best)
}
