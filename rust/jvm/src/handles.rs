//! Handles that Java holds. A handle consists of a slot index and a generation, so that a released handle differs from
//! all later handles.

use std::sync::{Arc, Mutex};

use samsarrow_wire::sync::lock;

use crate::failure::{Failure, Result};

/// Values by handle.
#[derive(Debug)]
pub struct Handles<T> {
    kind: &'static str,
    slots: Mutex<Vec<Slot<T>>>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<Arc<T>>,
}

impl<T> Handles<T> {
    /// Creates an empty table. `kind` is the name of the values in error texts.
    pub const fn new(kind: &'static str) -> Self {
        Self { kind, slots: Mutex::new(Vec::new()) }
    }

    /// Stores `value` and returns its handle, which is never 0.
    pub fn put(&self, value: T) -> i64 {
        let mut slots = lock(&self.slots);
        let value = Some(Arc::new(value));
        let index = match slots.iter().position(|slot| slot.value.is_none()) {
            Some(index) => index,
            None => {
                slots.push(Slot { generation: 0, value: None });
                slots.len() - 1
            }
        };
        let Some(slot) = slots.get_mut(index) else { return 0 };
        // The generation is positive as a Java int, and differs from the previous generation of the slot.
        slot.generation = (slot.generation % (i32::MAX as u32)) + 1;
        slot.value = value;
        i64::from(slot.generation) << 32 | index as i64
    }

    /// Returns the value of a handle.
    ///
    /// # Errors
    /// Fails if the handle was released or never existed.
    pub fn get(&self, handle: i64) -> Result<Arc<T>> {
        let mut slots = lock(&self.slots);
        let value = find_slot(&mut slots, handle).and_then(|slot| slot.value.clone());
        value.ok_or_else(|| self.stale(handle))
    }

    /// Returns the value of a handle and releases the handle.
    ///
    /// # Errors
    /// Fails if the handle was released or never existed.
    pub fn take(&self, handle: i64) -> Result<Arc<T>> {
        let mut slots = lock(&self.slots);
        let value = find_slot(&mut slots, handle).and_then(|slot| slot.value.take());
        value.ok_or_else(|| self.stale(handle))
    }

    /// Returns the number of handles that are not released.
    pub fn count(&self) -> usize {
        lock(&self.slots).iter().filter(|slot| slot.value.is_some()).count()
    }

    fn stale(&self, handle: i64) -> Failure {
        Failure::state(format!("there is no {} with the handle {handle:#x}: it was closed", self.kind))
    }
}

fn find_slot<T>(slots: &mut [Slot<T>], handle: i64) -> Option<&mut Slot<T>> {
    let index = usize::try_from(handle & i64::from(u32::MAX)).ok()?;
    slots.get_mut(index).filter(|slot| i64::from(slot.generation) == handle >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_handles_are_never_reused() {
        let handles = Handles::new("reader");
        let (a, b) = (handles.put("a"), handles.put("b"));
        assert!(a > 0 && b > 0 && a != b);
        assert_eq!((*handles.get(a).unwrap(), *handles.take(b).unwrap()), ("a", "b"));
        let c = handles.put("c");
        assert_eq!(*handles.get(c).unwrap(), "c");
        for stale in [b, 0, -1, i64::MAX, a + 7] {
            let failure = handles.get(stale).unwrap_err();
            assert!(failure.kind == "state" && failure.text.contains("there is no reader"), "{failure:?}");
            assert!(handles.take(stale).is_err());
        }
        assert_eq!(handles.count(), 2);
    }
}
