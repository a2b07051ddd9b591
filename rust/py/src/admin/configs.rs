//! Configs and client quotas.

use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_client::admin::{ConfigChange, ConfigEntry, ConfigResource, QuotaComponent, QuotaEntity};

use super::{Admin, Core, keyed_results, list_of};

/// Type and name of a resource.
type Resource = (i8, String);
/// Name, value, source, true if read-only, true if sensitive, type, documentation and synonyms of a config.
type Entry = (String, Option<String>, i8, bool, bool, i8, Option<String>, Vec<(String, Option<String>, i8)>);
/// Name of a config, operation, and new value.
type Change = (String, i8, Option<String>);
/// Quota limits by name; None removes the quota.
type Limits = Vec<(String, Option<f64>)>;

fn resource((kind, name): Resource) -> ConfigResource {
    ConfigResource { kind, name }
}

fn resource_tuple(resource: ConfigResource) -> Resource {
    (resource.kind, resource.name)
}

fn entry(e: ConfigEntry) -> Entry {
    let synonyms = e.synonyms.into_iter().map(|s| (s.name, s.value, s.source)).collect();
    (e.name, e.value, e.source, e.read_only, e.sensitive, e.kind, e.documentation, synonyms)
}

#[pyfunction]
#[pyo3(signature = (admin, resources, synonyms, documentation, timeout))]
pub(crate) fn admin_describe_configs(
    py: Python<'_>,
    admin: &Admin,
    resources: Vec<(Resource, Option<Vec<String>>)>,
    synonyms: bool,
    documentation: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let resources = resources.into_iter().map(|(pair, keys)| (resource(pair), keys)).collect();
    let work =
        move |core: Core, time| async move { core.describe_configs(&resources, synonyms, documentation, time).await };
    admin.call(py, timeout, work, |py, done| {
        keyed_results(py, done, resource_tuple, |entries| entries.into_iter().map(entry).collect::<Vec<_>>())
    })
}

#[pyfunction]
#[pyo3(signature = (admin, changes, validate_only, timeout))]
pub(crate) fn admin_alter_configs(
    py: Python<'_>,
    admin: &Admin,
    changes: Vec<(Resource, Vec<Change>)>,
    validate_only: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let change = |(name, operation, value): Change| ConfigChange { name, operation, value };
    let changes = changes
        .into_iter()
        .map(|(pair, changes)| (resource(pair), changes.into_iter().map(change).collect()))
        .collect();
    let work = move |core: Core, time| async move { core.alter_configs(&changes, validate_only, time).await };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, resource_tuple, |()| ()))
}

#[pyfunction]
#[pyo3(signature = (admin, kinds, timeout))]
pub(crate) fn admin_list_config_resources(
    py: Python<'_>,
    admin: &Admin,
    kinds: Vec<i64>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let kinds: Vec<i8> = kinds.into_iter().filter_map(|kind| i8::try_from(kind).ok()).collect();
    let work = |core: Core, time| async move { core.list_config_resources(&kinds, time).await };
    admin.call(py, timeout, work, |py, resources| list_of(py, resources, resource_tuple))
}

#[pyfunction]
#[pyo3(signature = (admin, components, strict, timeout))]
pub(crate) fn admin_describe_quotas(
    py: Python<'_>,
    admin: &Admin,
    components: Vec<(String, i8, Option<String>)>,
    strict: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let convert = |(kind, matching, name)| QuotaComponent { kind, matching, name };
    let components: Vec<_> = components.into_iter().map(convert).collect();
    let work = move |core: Core, time| async move { core.describe_quotas(&components, strict, time).await };
    admin.call(py, timeout, work, |py, quotas| list_of(py, quotas, |(entity, quotas)| (entity, quotas)))
}

#[pyfunction]
#[pyo3(signature = (admin, changes, validate_only, timeout))]
pub(crate) fn admin_alter_quotas(
    py: Python<'_>,
    admin: &Admin,
    changes: Vec<(QuotaEntity, Limits)>,
    validate_only: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let sorted = |(mut entity, quotas): (QuotaEntity, Limits)| {
        entity.sort();
        (entity, quotas)
    };
    let changes = changes.into_iter().map(sorted).collect();
    let work = move |core: Core, time| async move { core.alter_quotas(&changes, validate_only, time).await };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, |entity| entity, |()| ()))
}
