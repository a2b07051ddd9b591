//! What Java holds numbers of: a number is a slot and a generation, so one that was given back differs from the next.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::failure::{Failure, Result};

/// Things by their numbers.
#[derive(Debug)]
pub struct Handles<T> {
    what: &'static str,
    slots: Mutex<Vec<Slot<T>>>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<Arc<T>>,
}

impl<T> Handles<T> {
    /// None yet; `what` they are is for errors.
    pub const fn new(what: &'static str) -> Self {
        Self { what, slots: Mutex::new(Vec::new()) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot<T>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for `value`; never 0.
    pub fn put(&self, value: T) -> i64 {
        let mut slots = self.lock();
        let value = Some(Arc::new(value));
        let index = match slots.iter().position(|slot| slot.value.is_none()) {
            Some(index) => index,
            None => {
                slots.push(Slot { generation: 0, value: None });
                slots.len() - 1
            }
        };
        let Some(slot) = slots.get_mut(index) else { return 0 };
        // Positive in Java, and never that of the one before.
        slot.generation = (slot.generation % (i32::MAX as u32)) + 1;
        slot.value = value;
        i64::from(slot.generation) << 32 | index as i64
    }

    /// What has that number.
    ///
    /// # Errors
    /// It was given back, or never given out.
    pub fn get(&self, handle: i64) -> Result<Arc<T>> {
        let mut slots = self.lock();
        let found = find(&mut slots, handle).and_then(|slot| slot.value.clone());
        found.ok_or_else(|| self.stale(handle))
    }

    /// The same, and the number is given back.
    ///
    /// # Errors
    /// It was given back before, or never given out.
    pub fn take(&self, handle: i64) -> Result<Arc<T>> {
        let mut slots = self.lock();
        let found = find(&mut slots, handle).and_then(|slot| slot.value.take());
        found.ok_or_else(|| self.stale(handle))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().iter().filter(|slot| slot.value.is_some()).count()
    }

    fn stale(&self, handle: i64) -> Failure {
        Failure::state(format!("there is no {} of number {handle:#x}: it was closed", self.what))
    }
}

fn find<T>(slots: &mut [Slot<T>], handle: i64) -> Option<&mut Slot<T>> {
    let index = usize::try_from(handle & i64::from(u32::MAX)).ok()?;
    slots.get_mut(index).filter(|slot| i64::from(slot.generation) == handle >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_given_back_is_no_other_things() {
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
