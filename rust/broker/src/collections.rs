//! Hash maps and sets. In a simulation, their order is the same in every run.

#[cfg(feature = "simulation")]
type State = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;
#[cfg(not(feature = "simulation"))]
type State = std::hash::RandomState;

pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, State>;
pub(crate) type HashSet<T> = std::collections::HashSet<T, State>;
