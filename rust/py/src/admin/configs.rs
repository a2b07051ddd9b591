//! Settings and quotas.

use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_client::admin::{ConfigChange, ConfigEntry, ConfigResource, QuotaComponent, QuotaEntity};

use super::{Admin, Core, listed, said};

/// Kind and name.
type Resource = (i8, String);
/// Name, value, source, read only, sensitive, type, documentation, synonyms.
type Entry = (String, Option<String>, i8, bool, bool, i8, Option<String>, Vec<(String, Option<String>, i8)>);
/// Name, operation, value.
type Change = (String, i8, Option<String>);
/// Quotas by name; without a value one is removed.
type Limits = Vec<(String, Option<f64>)>;

fn resource((kind, name): Resource) -> ConfigResource {
    ConfigResource { kind, name }
}

fn plain(resource: ConfigResource) -> Resource {
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
    let wanted = resources.into_iter().map(|(of, keys)| (resource(of), keys)).collect();
    let work =
        move |core: Core, time| async move { core.describe_configs(&wanted, synonyms, documentation, time).await };
    admin.call(py, timeout, work, |py, done| {
        said(py, done, plain, |entries| entries.into_iter().map(entry).collect::<Vec<_>>())
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
    let changes = changes.into_iter().map(|(of, its)| (resource(of), its.into_iter().map(change).collect())).collect();
    let work = move |core: Core, time| async move { core.alter_configs(&changes, validate_only, time).await };
    admin.call(py, timeout, work, |py, done| said(py, done, plain, |()| ()))
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
    admin.call(py, timeout, work, |py, found| listed(py, found, plain))
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
    let one = |(kind, matching, name)| QuotaComponent { kind, matching, name };
    let components: Vec<_> = components.into_iter().map(one).collect();
    let work = move |core: Core, time| async move { core.describe_quotas(&components, strict, time).await };
    admin.call(py, timeout, work, |py, found| listed(py, found, |(entity, quotas)| (entity, quotas)))
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
    let sorted = |(mut entity, its): (QuotaEntity, Limits)| {
        entity.sort();
        (entity, its)
    };
    let changes = changes.into_iter().map(sorted).collect();
    let work = move |core: Core, time| async move { core.alter_quotas(&changes, validate_only, time).await };
    admin.call(py, timeout, work, |py, done| said(py, done, |entity| entity, |()| ()))
}
