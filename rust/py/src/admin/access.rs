//! Users, ACLs and delegation tokens.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use samsarrow_client::admin::{
    AclBinding, AclFilter, AclOperation, AclPermission, CreatedAcls, DelegationToken, NewPassword, PatternType,
    Principal, ResourceType, ScramCredential, ScramMechanism, UserAlteration,
};
use samsarrow_client::config::Secret;
use samsarrow_client::error::{Error, Result};

use bytes::Bytes;
use samsarrow_bridge::call::Call;
use samsarrow_bridge::error::{to_py, to_py_value};
use samsarrow_bridge::runtime::seconds;

use super::{Admin, Core, keyed_results, list_of};

/// Resource type, name, pattern type, principal, host, operation and permission of an ACL.
type Acl = (i8, String, i8, String, String, i8, i8);
/// Like [`Acl`], but None for the name, principal or host matches all.
type Filter = (i8, Option<String>, i8, Option<String>, Option<String>, i8, i8);

/// User, mechanism and new credential (password, iterations, salt); None deletes the credential.
type Change = (String, i8, Option<(String, i64, Option<Vec<u8>>)>);

/// Token id, hmac, owner, requester, renewers, and the times of issue, expiry and maximum lifetime in milliseconds
/// since 1970.
type Token = (String, Py<PyBytes>, String, Option<String>, Vec<String>, i64, i64, i64);

fn binding((resource_type, resource_name, pattern, principal, host, operation, permission): Acl) -> AclBinding {
    AclBinding {
        resource_type: ResourceType::of(resource_type),
        resource_name,
        pattern_type: PatternType::of(pattern),
        principal,
        host,
        operation: AclOperation::of(operation),
        permission: AclPermission::of(permission),
    }
}

fn acl(acl: AclBinding) -> Acl {
    (
        acl.resource_type.code(),
        acl.resource_name,
        acl.pattern_type.code(),
        acl.principal,
        acl.host,
        acl.operation.code(),
        acl.permission.code(),
    )
}

fn to_acl_filter((resource_type, resource_name, pattern, principal, host, operation, permission): Filter) -> AclFilter {
    AclFilter {
        resource_type: ResourceType::of(resource_type),
        resource_name,
        pattern_type: PatternType::of(pattern),
        principal,
        host,
        operation: AclOperation::of(operation),
        permission: AclPermission::of(permission),
    }
}

fn failure(py: Python<'_>, outcome: Result<()>) -> Option<Py<PyAny>> {
    outcome.err().map(|error| to_py_value(py, &error))
}

fn alteration((user, mechanism, new): Change) -> UserAlteration {
    let password = new.map(|(password, iterations, salt)| NewPassword {
        password: Secret::from(password),
        // Numbers out of range are rejected later, with an error that states the valid range.
        iterations: u32::try_from(iterations.max(0)).unwrap_or(u32::MAX),
        salt,
    });
    UserAlteration { user, mechanism: ScramMechanism::of(mechanism), password }
}

/// # Errors
/// Fails if the text does not have the form TYPE:NAME.
fn principal(py: Python<'_>, text: &str) -> PyResult<Principal> {
    text.parse().map_err(|error| to_py(py, &error))
}

fn principals(py: Python<'_>, texts: &[String]) -> PyResult<Vec<Principal>> {
    texts.iter().map(|text| principal(py, text)).collect()
}

/// Converts a duration in seconds. Fails if it is negative; `name` is the name of the duration in the error.
fn period(py: Python<'_>, name: &str, length: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(length) = length else { return Ok(None) };
    if length.is_nan() || length < 0.0 {
        return Err(to_py(py, &Error::configuration(format!("{name} of {length} seconds: it must be 0 or more"))));
    }
    seconds(py, Some(length.min(1e9)), Duration::ZERO).map(Some)
}

fn token(py: Python<'_>, token: DelegationToken) -> Token {
    (
        token.token_id,
        PyBytes::new(py, &token.hmac.0).unbind(),
        token.owner.to_string(),
        token.requester.map(|requester| requester.to_string()),
        token.renewers.iter().map(ToString::to_string).collect(),
        token.issued,
        token.expires,
        token.ends,
    )
}

#[pyfunction]
#[pyo3(signature = (admin, users, timeout))]
pub(crate) fn admin_describe_users(
    py: Python<'_>,
    admin: &Admin,
    users: Option<Vec<String>>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = |core: Core, time| async move { core.describe_users(users.as_deref(), time).await };
    let convert = |credentials: Vec<ScramCredential>| {
        credentials.iter().map(|credential| (credential.mechanism.code(), credential.iterations)).collect::<Vec<_>>()
    };
    admin.call(py, timeout, work, move |py, done| keyed_results(py, done, |user| user, convert))
}

#[pyfunction]
#[pyo3(signature = (admin, changes, timeout))]
pub(crate) fn admin_alter_users(
    py: Python<'_>,
    admin: &Admin,
    changes: Vec<Change>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let changes = changes.into_iter().map(alteration).collect();
    let work = |core: Core, time| async move { core.alter_users(changes, time).await };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, |user| user, |()| ()))
}

#[pyfunction]
#[pyo3(signature = (admin, acl_filter, timeout))]
pub(crate) fn admin_describe_acls(
    py: Python<'_>,
    admin: &Admin,
    acl_filter: Filter,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = |core: Core, time| async move { core.describe_acls(&to_acl_filter(acl_filter), time).await };
    admin.call(py, timeout, work, |py, bindings| list_of(py, bindings, acl))
}

#[pyfunction]
#[pyo3(signature = (admin, acls, timeout))]
pub(crate) fn admin_create_acls(py: Python<'_>, admin: &Admin, acls: Vec<Acl>, timeout: Option<f64>) -> PyResult<Call> {
    let acls: Vec<_> = acls.into_iter().map(binding).collect();
    let work = |core: Core, time| async move { core.create_acls(&acls, time).await };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, acl, |()| ()))
}

/// Returns the matching ACLs for each filter, with an exception for each ACL that was not deleted.
#[pyfunction]
#[pyo3(signature = (admin, filters, timeout))]
pub(crate) fn admin_delete_acls(
    py: Python<'_>,
    admin: &Admin,
    filters: Vec<Filter>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let filters: Vec<_> = filters.into_iter().map(to_acl_filter).collect();
    let work = |core: Core, time| async move { core.delete_acls(&filters, time).await };
    admin.call(py, timeout, work, |py, done| {
        let filter_tuple = |f: AclFilter| {
            let (kind, pattern, operation) = (f.resource_type.code(), f.pattern_type.code(), f.operation.code());
            (kind, f.resource_name, pattern, f.principal, f.host, operation, f.permission.code())
        };
        let acl_and_failure = |(binding, outcome): (AclBinding, Result<()>)| (acl(binding), failure(py, outcome));
        keyed_results(py, done, filter_tuple, |acls: CreatedAcls| {
            acls.into_iter().map(acl_and_failure).collect::<Vec<_>>()
        })
    })
}

#[pyfunction]
#[pyo3(signature = (admin, owner, renewers, lifetime, timeout))]
pub(crate) fn admin_create_delegation_token(
    py: Python<'_>,
    admin: &Admin,
    owner: Option<&str>,
    renewers: Vec<String>,
    lifetime: Option<f64>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let owner = owner.map(|owner| principal(py, owner)).transpose()?;
    let renewers = principals(py, &renewers)?;
    let lifetime = period(py, "a lifetime", lifetime)?;
    let work = move |core: Core, time| async move {
        core.create_delegation_token(owner.as_ref(), &renewers, lifetime, time).await
    };
    admin.call(py, timeout, work, |py, issued| pyo3::IntoPyObjectExt::into_py_any(token(py, issued), py))
}

/// Returns the new expiry of the token, in milliseconds since 1970.
#[pyfunction]
#[pyo3(signature = (admin, hmac, renewal, timeout))]
pub(crate) fn admin_renew_delegation_token(
    py: Python<'_>,
    admin: &Admin,
    hmac: Vec<u8>,
    renewal: Option<f64>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let (hmac, renewal) = (Bytes::from(hmac), period(py, "a renewal", renewal)?);
    let work = move |core: Core, time| async move { core.renew_delegation_token(&hmac, renewal, time).await };
    admin.call(py, timeout, work, |py, expires| pyo3::IntoPyObjectExt::into_py_any(expires, py))
}

/// Returns the new expiry of the token, in milliseconds since 1970.
#[pyfunction]
#[pyo3(signature = (admin, hmac, expiry, timeout))]
pub(crate) fn admin_expire_delegation_token(
    py: Python<'_>,
    admin: &Admin,
    hmac: Vec<u8>,
    expiry: Option<f64>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let (hmac, expiry) = (Bytes::from(hmac), period(py, "an expiry", expiry)?);
    let work = move |core: Core, time| async move { core.expire_delegation_token(&hmac, expiry, time).await };
    admin.call(py, timeout, work, |py, expires| pyo3::IntoPyObjectExt::into_py_any(expires, py))
}

#[pyfunction]
#[pyo3(signature = (admin, owners, timeout))]
pub(crate) fn admin_describe_delegation_tokens(
    py: Python<'_>,
    admin: &Admin,
    owners: Option<Vec<String>>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let owners = owners.map(|owners| principals(py, &owners)).transpose()?;
    let work = |core: Core, time| async move { core.describe_delegation_tokens(owners.as_deref(), time).await };
    admin.call(py, timeout, work, |py, tokens| list_of(py, tokens, |issued| token(py, issued)))
}
