//! Stepping over what is not read.

use super::schema::{Kind, Node};
use crate::error::{Reason, Step};
use crate::input::Input;

/// How to get behind a value.
#[derive(Debug)]
pub(crate) enum Skip {
    Varint,
    Bytes(usize),
    Prefixed,
    /// Items of at least so many bytes each.
    Blocks(Box<Skip>, usize),
    Union(Box<[Skip]>),
    Many(Box<[Skip]>),
}

impl Skip {
    pub(crate) fn of(node: &Node) -> Skip {
        match &node.kind {
            Kind::Null => Skip::Bytes(0),
            Kind::Boolean => Skip::Bytes(1),
            Kind::Float => Skip::Bytes(4),
            Kind::Double => Skip::Bytes(8),
            Kind::Fixed(_, size) => Skip::Bytes(*size),
            Kind::Int | Kind::Long | Kind::Enum(_) => Skip::Varint,
            Kind::Bytes | Kind::String => Skip::Prefixed,
            Kind::Array(item) => Skip::Blocks(Box::new(Skip::of(item)), item.min),
            Kind::Map(value) => {
                let entry = Skip::Many(Box::new([Skip::Prefixed, Skip::of(value)]));
                Skip::Blocks(Box::new(entry), value.min.saturating_add(1))
            }
            Kind::Record(record) => Skip::all(record.fields.iter().map(|field| Skip::of(&field.node))),
            Kind::Union(branches) => Skip::Union(branches.iter().map(|branch| Skip::of(branch)).collect()),
        }
    }

    /// One after the other; lengths that are known are added up.
    pub(super) fn all(steps: impl Iterator<Item = Skip>) -> Skip {
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

    pub(crate) fn run<'a>(&self, mut input: Input<'a>) -> Step<Input<'a>> {
        self.step(&mut input)?;
        Ok(input)
    }

    /// What most fields are, without a call.
    #[inline(always)]
    fn step(&self, input: &mut Input<'_>) -> Step {
        match self {
            Skip::Varint => input.skip_varint()?,
            Skip::Bytes(len) => drop(input.bytes(*len)?),
            Skip::Prefixed => drop(input.prefixed()?),
            // Most unions are of null and something short.
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
    fn run_nested<'a>(&self, mut input: Input<'a>) -> Step<Input<'a>> {
        match self {
            Skip::Many(steps) => {
                for step in steps {
                    step.step(&mut input)?;
                }
            }
            Skip::Blocks(item, min) => loop {
                match input.block(*min)? {
                    (0, block) => break input.end_of(block)?,
                    (_, Some(block)) => input.skip(block)?,
                    // They have no bytes.
                    (_, None) if *min == 0 => (),
                    (items, None) => {
                        for _ in 0..items {
                            item.step(&mut input)?;
                        }
                    }
                }
            },
            // The others are in `step`.
            _ => return self.run(input),
        }
        Ok(input)
    }
}
