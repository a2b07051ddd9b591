//! Sources for columns that are encoded as unions.

use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::bind::{nulls_of, unfit, valid};
use super::leaf::same;
use super::source::{Branch, Member, Members, Source};
use crate::avro::parse::join;
use crate::avro::recursion::Named;
use crate::avro::schema::{Kind, Node, member_names};
use crate::error::SchemaError;

/// Binds a column to a union: to one branch, or to several branches if the column is a struct of members. Null rows are
/// encoded as the branch null.
pub(super) fn union(
    node: &Node,
    branches: &[Arc<Node>],
    array: &dyn Array,
    nulls: Option<NullBuffer>,
    named: &Named,
    path: &str,
) -> Result<Source, SchemaError> {
    let null = branches.iter().position(|branch| matches!(branch.kind, Kind::Null)).map(|at| at as i64);
    let values: Vec<_> = (0_i64..).zip(branches).filter(|(_, branch)| !matches!(branch.kind, Kind::Null)).collect();
    let branch = |value: i64, of: Source| Source::Branch(Box::new(Branch { nulls: nulls.clone(), null, value, of }));
    if *array.data_type() == DataType::Null {
        // All rows are null, so the source is never read.
        return match null {
            Some(null) => Ok(branch(null, Source::Nothing)),
            None => Err(unfit(node, array, path)),
        };
    }
    if let [(at, only)] = *values {
        return Ok(branch(at, valid(only, array, named, path)?));
    }
    if let Some(members) = members(&values, array, named, path)? {
        return Ok(Source::Members(Box::new(Members { nulls, null, members })));
    }
    // A branch with exactly the column's type has priority over a branch that the column has to be converted to.
    let own = values.iter().filter(|(_, one)| same(one, array.data_type()));
    let found = own.chain(&values).find_map(|(at, one)| valid(one, array, named, path).ok().map(|of| (*at, of)));
    found.map(|(at, of)| branch(at, of)).ok_or_else(|| unfit(node, array, path))
}

/// Binds the columns of a struct to the branches of a union with the same names. Returns `None` if the column is not
/// such a struct.
fn members(
    values: &[(i64, &Arc<Node>)],
    array: &dyn Array,
    named: &Named,
    path: &str,
) -> Result<Option<Box<[Member]>>, SchemaError> {
    let Some(columns) = array.as_struct_opt() else { return Ok(None) };
    let names = member_names(&values.iter().map(|(_, node)| *node).collect::<Vec<_>>());
    if columns.num_columns() == 0 || columns.column_names().iter().any(|name| !names.iter().any(|own| own == name)) {
        return Ok(None);
    }
    let mut members = Vec::new();
    for ((branch, node), name) in values.iter().zip(names) {
        // If a member has no column, it is never set. Each column belongs to a member, as checked above.
        let Some(column) = columns.column_by_name(&name) else { continue };
        let of = valid(node, column, named, &join(path, &name))?;
        members.push(Member { name: name.into(), nulls: nulls_of(column), branch: *branch, of });
    }
    Ok(Some(members.into()))
}
