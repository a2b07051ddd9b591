//! Client quotas of users, client ids and IP addresses (KIP-546).

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::messages::alter_client_quotas::{EntityData, EntryData, EntryResult, OpData};
use samsarrow_wire::messages::describe_client_quotas::ComponentData;
use samsarrow_wire::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, ApiKey, DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
};

use super::Admin;
use super::batch::{BatchedRequest, Route};
use super::engine::RequestBatch;
use super::response_errors::{check, check_item};
use crate::error::Result;

/// Entity of a quota, as a list of components sorted by type. A component is a type and a name; `None` stands for the
/// default.
pub type QuotaEntity = Vec<(String, Option<String>)>;

/// Component of a quota filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaComponent {
    /// Entity type: `user`, `client-id` or `ip`.
    pub kind: String,
    /// Match type: 0 for the exact name, 1 for the default, 2 for any name.
    pub matching: i8,
    /// Name.
    pub name: Option<String>,
}

/// Quotas of an entity: the values by quota name.
pub type Quotas = BTreeMap<String, f64>;

fn describe(entity: &QuotaEntity) -> String {
    let part = |(kind, name): &(String, Option<String>)| match name {
        Some(name) => format!("{kind} {name}"),
        None => format!("default {kind}"),
    };
    entity.iter().map(part).collect::<Vec<_>>().join(", ")
}

impl Admin {
    /// Describes the quotas of entities that match all `components`. With `strict`, entities with further components do
    /// not match.
    ///
    /// # Errors
    /// Fails with the error that a broker returns, or with a timeout that contains the last error.
    pub async fn describe_quotas(
        &self,
        components: &[QuotaComponent],
        strict: bool,
        timeout: Duration,
    ) -> Result<Vec<(QuotaEntity, Quotas)>> {
        let key = ApiKey::DescribeClientQuotas;
        let build = |_: &RequestBatch<'_, ()>| {
            let component = |component: &QuotaComponent| ComponentData {
                entity_type: component.kind.clone(),
                match_type: component.matching,
                r#match: component.name.clone(),
                ..Default::default()
            };
            let components = components.iter().map(component).collect();
            Ok(DescribeClientQuotasRequest { components, strict, ..Default::default() })
        };
        let read = |response: DescribeClientQuotasResponse| {
            check(response.error_code, response.error_message.as_deref(), key.name(), key)?;
            let entries = response.entries.unwrap_or_default().into_iter().map(|entry| {
                let mut entity: QuotaEntity =
                    entry.entity.into_iter().map(|part| (part.entity_type, part.entity_name)).collect();
                entity.sort();
                (entity, entry.values.into_iter().map(|value| (value.key, value.value)).collect())
            });
            let mut quotas: Vec<(QuotaEntity, Quotas)> = entries.collect();
            quotas.sort_by(|(a, _), (b, _)| a.cmp(b));
            Ok(quotas)
        };
        self.send_single(Route::Any, timeout, build, read).await
    }

    /// Sets quotas, removes quotas whose value is `None`, or only validates these changes. Returns a result for each
    /// entity.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request, or with a timeout if no broker responds. Errors of
    /// individual entities are returned in the list.
    pub async fn alter_quotas(
        &self,
        changes: &BTreeMap<QuotaEntity, Vec<(String, Option<f64>)>>,
        validate_only: bool,
        timeout: Duration,
    ) -> Result<Vec<(QuotaEntity, Result<()>)>> {
        let key = ApiKey::AlterClientQuotas;
        let entities: Vec<QuotaEntity> = changes.keys().cloned().collect();
        let build = |batch: &RequestBatch<'_, QuotaEntity>| {
            let part = |(kind, name): &(String, Option<String>)| EntityData {
                entity_type: kind.clone(),
                entity_name: name.clone(),
                ..Default::default()
            };
            let op = |(key, value): &(String, Option<f64>)| OpData {
                key: key.clone(),
                value: value.unwrap_or_default(),
                remove: value.is_none(),
                ..Default::default()
            };
            let entry = |entity: &QuotaEntity| EntryData {
                entity: entity.iter().map(part).collect(),
                ops: changes.get(entity).into_iter().flatten().map(op).collect(),
                ..Default::default()
            };
            let entries = batch.items.iter().map(entry).collect();
            Ok(AlterClientQuotasRequest { entries, validate_only, ..Default::default() })
        };
        let read = |_: &RequestBatch<'_, QuotaEntity>, response: AlterClientQuotasResponse| {
            let read_entry = |entry: EntryResult| {
                let mut entity: QuotaEntity =
                    entry.entity.into_iter().map(|part| (part.entity_type, part.entity_name)).collect();
                entity.sort();
                let outcome = check_item(key, describe(&entity), entry.error_code, entry.error_message.as_deref());
                (entity, outcome)
            };
            Ok(response.entries.into_iter().map(read_entry).collect())
        };
        let request = BatchedRequest { route: Route::Any, describe, max_items: |_| usize::MAX, timeout };
        self.send_batched(&request, &entities, build, read).await
    }
}
