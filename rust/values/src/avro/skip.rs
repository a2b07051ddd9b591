//! Skipping of values that are not read.

use std::sync::Arc;

use super::recursion::Definitions;
use super::schema::{Kind, Node};
use crate::byte_reader::ByteReader;
use crate::error::{Reason, Step};

/// Plan for skipping a value.
#[derive(Debug)]
pub(crate) enum Skip {
    Varint,
    Bytes(usize),
    Prefixed,
    /// Blocks of items, and the minimum size of an item in bytes.
    Blocks(Box<Skip>, usize),
    Union(Box<[Skip]>),
    Many(Box<[Skip]>),
    /// Recursive type.
    Recursive(Box<Recursive>),
    /// Reference to an enclosing recursive type, by its index in [`Recursive`].
    Again(usize),
}

impl Skip {
    /// Builds a plan for skipping consecutive values of the given types.
    pub(super) fn over<'n>(nodes: impl Iterator<Item = &'n Node>, defs: &Definitions<'_>) -> Skip {
        let mut recursive = false;
        let all = Skip::all(nodes.map(|node| {
            recursive |= node.recursive;
            Skip::of(node, defs)
        }));
        if recursive { Skip::Recursive(Box::new(Recursive { root: all, named: defs.steps() })) } else { all }
    }

    pub(super) fn of(node: &Node, defs: &Definitions<'_>) -> Skip {
        match &node.kind {
            Kind::Null | Kind::Deeper(..) => Skip::Bytes(0),
            // If the name is unknown, the index has no definition, which is an error when a value is skipped.
            Kind::Again(name) => Skip::Again(defs.place(&name.full).unwrap_or(usize::MAX)),
            Kind::Boolean => Skip::Bytes(1),
            Kind::Float => Skip::Bytes(4),
            Kind::Double => Skip::Bytes(8),
            Kind::Fixed(_, size) => Skip::Bytes(*size),
            Kind::Int | Kind::Long | Kind::Enum(_) => Skip::Varint,
            Kind::Bytes | Kind::String => Skip::Prefixed,
            Kind::Array(item) => Skip::Blocks(Box::new(Skip::of(item, defs)), item.min),
            Kind::Map(value) => {
                let entry = Skip::Many(Box::new([Skip::Prefixed, Skip::of(value, defs)]));
                Skip::Blocks(Box::new(entry), value.min.saturating_add(1))
            }
            Kind::Record(record) => Skip::all(record.fields.iter().map(|field| Skip::of(&field.node, defs))),
            Kind::Union(branches) => Skip::Union(branches.iter().map(|branch| Skip::of(branch, defs)).collect()),
        }
    }

    /// Combines steps into a single step. Consecutive fixed lengths are added up.
    fn all(steps: impl Iterator<Item = Skip>) -> Skip {
        let mut all: Vec<Skip> = Vec::new();
        for step in steps {
            match (all.last_mut(), step) {
                (Some(Skip::Bytes(before)), Skip::Bytes(more)) => *before = before.saturating_add(more),
                (_, step) => all.push(step),
            }
        }
        match all.pop() {
            None => Skip::Bytes(0),
            Some(one) if all.is_empty() => one,
            Some(last) => {
                all.push(last);
                Skip::Many(all.into())
            }
        }
    }

    pub(crate) fn run<'a>(&self, mut input: ByteReader<'a>) -> Step<ByteReader<'a>> {
        self.step(&mut input)?;
        Ok(input)
    }

    /// Skips the most frequent types inline.
    #[inline(always)]
    fn step(&self, input: &mut ByteReader<'_>) -> Step {
        match self {
            Skip::Varint => input.skip_varint()?,
            Skip::Bytes(len) => drop(input.bytes(*len)?),
            Skip::Prefixed => drop(input.prefixed()?),
            // Usually the union consists of null and a short type.
            Skip::Union(branches) => {
                let branch = input.long()?;
                match usize::try_from(branch).ok().and_then(|at| branches.get(at)) {
                    Some(Skip::Bytes(len)) => drop(input.bytes(*len)?),
                    Some(Skip::Prefixed) => drop(input.prefixed()?),
                    Some(step) => *input = step.run(*input)?,
                    None => return Err(Reason::Branch(branch, branches.len()).into()),
                }
            }
            other => *input = other.run_nested(*input)?,
        }
        Ok(())
    }

    #[inline(never)]
    fn run_nested<'a>(&self, mut input: ByteReader<'a>) -> Step<ByteReader<'a>> {
        match self {
            Skip::Many(steps) => {
                for step in steps {
                    step.step(&mut input)?;
                }
            }
            Skip::Blocks(item, min) => loop {
                match input.block(*min)? {
                    (0, block) => break input.check_block(block)?,
                    (_, Some(block)) => input.skip(block)?,
                    // The items have no bytes, so nothing has to be skipped.
                    (_, None) if *min == 0 => (),
                    (items, None) => {
                        for _ in 0..items {
                            item.step(&mut input)?;
                        }
                    }
                }
            },
            Skip::Recursive(of) => return of.run(input),
            // This step is only valid within a recursive plan.
            Skip::Again(_) => return Err(Reason::Other("a schema lacks a definition".into()).into()),
            // The other types are handled by `step`.
            _ => return self.run(input),
        }
        Ok(input)
    }
}

/// Plan for recursive values. They may be nested too deeply for the call stack, because each level needs only one byte.
#[derive(Debug)]
pub(crate) struct Recursive {
    root: Skip,
    named: Arc<[Skip]>,
}

/// Entry of the explicit stack, which replaces the call stack.
enum Open<'s> {
    Steps(std::slice::Iter<'s, Skip>),
    /// Plan and minimum size of the items, and the number of items left in the current block.
    Items(&'s Skip, usize, u64),
}

impl Recursive {
    fn run<'a>(&self, mut input: ByteReader<'a>) -> Step<ByteReader<'a>> {
        let (mut open, mut step): (Vec<Open<'_>>, _) = (Vec::new(), &self.root);
        // Each level of a recursive value has at least one byte, so the input length bounds the depth.
        let mut left = input.len();
        loop {
            match step {
                Skip::Again(at) => {
                    left = left.checked_sub(1).ok_or(Reason::Truncated)?;
                    let lacking = || Reason::Other("a schema lacks a definition".into());
                    step = self.named.get(*at).ok_or_else(lacking)?;
                    continue;
                }
                Skip::Union(branches) => {
                    let branch = input.long()?;
                    let chosen = usize::try_from(branch).ok().and_then(|at| branches.get(at));
                    step = chosen.ok_or(Reason::Branch(branch, branches.len()))?;
                    continue;
                }
                Skip::Many(steps) => open.push(Open::Steps(steps.iter())),
                Skip::Blocks(item, min) => open.push(Open::Items(item, *min, 0)),
                leaf => leaf.step(&mut input)?,
            }
            match next(&mut open, &mut input)? {
                Some(next) => step = next,
                None => return Ok(input),
            }
        }
    }
}

/// Returns the next step of the innermost entry. Entries without further steps are removed.
fn next<'s>(open: &mut Vec<Open<'s>>, input: &mut ByteReader<'_>) -> Step<Option<&'s Skip>> {
    while let Some(last) = open.last_mut() {
        match last {
            Open::Steps(steps) => match steps.next() {
                Some(step) => return Ok(Some(step)),
                None => drop(open.pop()),
            },
            Open::Items(item, _, left) if *left > 0 => {
                *left -= 1;
                return Ok(Some(*item));
            }
            Open::Items(_, min, left) => match input.block(*min)? {
                (0, block) => {
                    input.check_block(block)?;
                    open.pop();
                }
                (_, Some(block)) => input.skip(block)?,
                // The items have no bytes, so nothing has to be skipped.
                (_, None) if *min == 0 => (),
                (items, None) => *left = items,
            },
        }
    }
    Ok(None)
}
