//! Lookup of the numbers of enum symbols.

use std::collections::HashMap;

use crate::avro::schema::Enum;
use crate::byte_reader::word;

/// If there are more symbols than this, a hash table is faster than a linear search.
const FEW: usize = 16;

/// Numbers of symbols.
#[derive(Debug)]
pub(crate) struct Symbols {
    /// Length and bytes of each symbol, if there are few symbols and none has more than 8 bytes; empty otherwise.
    short: Box<[(usize, u64)]>,
    all: HashMap<Box<[u8]>, i64>,
}

impl Symbols {
    pub(super) fn of(of: &Enum) -> Symbols {
        let all = of.symbols.iter().zip(0..).map(|(symbol, at)| (symbol.as_bytes().into(), at)).collect();
        let few = of.symbols.len() <= FEW && of.symbols.iter().all(|symbol| symbol.len() <= 8);
        let short = of.symbols.iter().filter(|_| few).map(|symbol| (symbol.len(), word(symbol.as_bytes())));
        Symbols { short: short.collect(), all }
    }

    #[inline]
    pub(crate) fn number(&self, text: &[u8]) -> Option<i64> {
        if self.short.is_empty() {
            return self.all.get(text).copied();
        }
        let expected = (text.len(), word(text));
        self.short.iter().position(|one| *one == expected).map(|at| at as i64)
    }
}
