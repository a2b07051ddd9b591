//! Generator of inputs. Most inputs are valid structures with random contents and a few mutations.
mod batches;
mod codecs;
mod json;
mod members;
mod messages;
mod protobuf;
mod schemas;
mod secure;
mod values;

use crate::bytes::{fix_batches, fix_lz4, havoc};
use crate::random::Random;
use crate::targets::{Input, Values};
use crate::tree::{Node, Writer, mutate};

/// Generates the inputs of all targets. The same seed always results in the same input.
#[derive(Debug, Default)]
pub struct Seeds {
    writer: Writer,
    messages: messages::Messages,
    /// Existing inputs with the name of their target: the committed corpus and the conformance cases.
    existing: Vec<(&'static str, Vec<u8>)>,
}

impl Seeds {
    /// Adds an existing input. Some of the generated inputs are mutations of existing inputs.
    pub fn add(&mut self, target: &'static str, input: Vec<u8>) {
        self.existing.push((target, input));
    }

    /// Returns the input that `seed` determines for the target.
    pub fn input(&mut self, target: &'static str, kind: Input, seed: u64) -> Vec<u8> {
        let mut random = Random::new(seed);
        if random.one_in(16) && self.existing.iter().any(|(name, _)| *name == target) {
            return self.changed(target, kind, &mut random);
        }
        let valid = random.one_in(50);
        match kind {
            Input::Frame | Input::Message => self.messages.input(kind == Input::Frame, valid, &mut random),
            Input::Member => {
                let what = random.next() as u8;
                let mut out = vec![what];
                let tree = members::metadata(what, &mut random);
                self.write(tree, valid, &mut random, &mut out, |_| {});
                out
            }
            Input::Batches(magic) => {
                // The flags of `partition::decode`.
                let mut out = vec![random.next() as u8];
                let tree = batches::partition(magic, &mut random);
                self.write(tree, valid, &mut random, &mut out, |bytes| fix_batches(bytes));
                out
            }
            Input::Index => {
                let mut out = vec![random.next() as u8];
                let (index, log) = batches::index(&mut random);
                let mut bytes = Vec::new();
                self.write(index, valid, &mut random, &mut bytes, |_| {});
                bytes.truncate(usize::from(u16::MAX));
                out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
                out.extend_from_slice(&bytes);
                self.write(log, valid, &mut random, &mut out, |bytes| fix_batches(bytes));
                out
            }
            Input::Records => {
                let mut out = Vec::new();
                let tree = batches::bare_records(&mut random);
                self.write(tree, valid, &mut random, &mut out, |_| {});
                out
            }
            Input::Secure(what) => {
                let (flags, tree) = secure::of(what, &mut random);
                let mut out = vec![flags];
                self.write(tree, valid, &mut random, &mut out, |_| {});
                out
            }
            Input::Values(what @ (Values::Json | Values::JsonSchema)) => {
                let (mut out, tree) = json::of(what, valid, &mut random);
                self.write(tree, valid, &mut random, &mut out, |_| {});
                out
            }
            Input::Values(what) => {
                let (mut out, tree) = values::of(what, valid, &mut random);
                self.write(tree, valid, &mut random, &mut out, |_| {});
                out
            }
            Input::Stream(codec) => {
                let mut out = vec![random.next() as u8];
                let tree = codecs::stream(codec, &mut self.writer, &mut random);
                self.write(tree, valid, &mut random, &mut out, |bytes| fix_lz4(bytes));
                out
            }
        }
    }

    /// Appends the encoding of `tree`. Unless `valid` is set, the tree is mutated first, and sometimes the encoded
    /// bytes are mutated as well.
    fn write(
        &mut self,
        mut tree: Node,
        valid: bool,
        random: &mut Random,
        out: &mut Vec<u8>,
        fix: impl Fn(&mut Vec<u8>),
    ) {
        if valid {
            return self.writer.write(&tree, out);
        }
        for _ in 0..=random.below(3) {
            mutate(&mut tree, random);
        }
        let mut bytes = Vec::new();
        self.writer.write(&tree, &mut bytes);
        if random.one_in(4) {
            havoc(&mut bytes, random);
            if random.one_in(2) {
                fix(&mut bytes);
            }
        }
        bytes.truncate(MAX_LEN);
        out.extend_from_slice(&bytes);
    }

    fn changed(&self, target: &str, kind: Input, random: &mut Random) -> Vec<u8> {
        let of_target: Vec<_> =
            self.existing.iter().filter(|(name, _)| *name == target).map(|(_, input)| input).collect();
        let mut bytes = random.pick(&of_target).cloned().unwrap_or_default();
        if random.one_in(4)
            && let Some(other) = random.pick(&of_target)
        {
            bytes.truncate(random.below(bytes.len() + 1));
            bytes.extend_from_slice(other.get(random.below(other.len())..).unwrap_or_default());
        }
        havoc(&mut bytes, random);
        if let Some(after) = bytes.split_off_checked(1) {
            let mut body = after;
            match kind {
                Input::Batches(_) => fix_batches(&mut body),
                Input::Stream(_) => fix_lz4(&mut body),
                _ => {}
            }
            bytes.extend_from_slice(&body);
        }
        bytes.truncate(MAX_LEN);
        bytes
    }
}

/// Maximum length of an input in bytes. Longer inputs cost time and find nothing new.
const MAX_LEN: usize = 64 * 1024;

trait SplitOff {
    fn split_off_checked(&mut self, at: usize) -> Option<Vec<u8>>;
}

impl SplitOff for Vec<u8> {
    fn split_off_checked(&mut self, at: usize) -> Option<Vec<u8>> {
        (at <= self.len()).then(|| self.split_off(at))
    }
}
