//! Hash and text of the events of a run.

/// Hash of all events so far, and the events as text if they are recorded.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(record: bool) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, lines: record.then(Vec::new) }
    }

    /// Adds an event.
    pub(crate) fn add(&mut self, bytes: &[u8], line: impl FnOnce() -> String) {
        // FNV-1a, a word at a time.
        for word in bytes.chunks(8) {
            let mut padded = [0; 8];
            padded.iter_mut().zip(word).for_each(|(to, from)| *to = *from);
            self.hash = (self.hash ^ u64::from_le_bytes(padded)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
        if let Some(lines) = &mut self.lines {
            lines.push(line());
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn lines(&mut self) -> Vec<String> {
        self.lines.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
