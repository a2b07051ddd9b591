//! Quotas of users, clients and addresses (KIP-546).

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::messages::alter_client_quotas::{EntityData, EntryData, EntryResult, OpData};
use samsarrow_wire::messages::describe_client_quotas::ComponentData;
use samsarrow_wire::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, ApiKey, DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
};

use super::Admin;
use super::batch::{Route, Work};
use super::engine::Asked;
use super::response_errors::{check, check_of};
use crate::error::Result;

/// Who a quota is for: the type of each part and its name, `None` for the default; sorted by type.
pub type QuotaEntity = Vec<(String, Option<String>)>;

/// A part of the entities to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaComponent {
    /// `user`, `client-id` or `ip`.
    pub kind: String,
    /// 0 for a name, 1 for the default, 2 for any.
    pub matching: i8,
    /// The name.
    pub name: Option<String>,
}

/// The quotas of an entity by name.
pub type Quotas = BTreeMap<String, f64>;

fn shown(entity: &QuotaEntity) -> String {
    let part = |(kind, name): &(String, Option<String>)| match name {
        Some(name) => format!("{kind} {name}"),
        None => format!("default {kind}"),
    };
    entity.iter().map(part).collect::<Vec<_>>().join(", ")
}

impl Admin {
    /// The quotas of the entities that match all components, and with `strict` have no other parts.
    ///
    /// # Errors
    /// What brokers say; a timeout with its cause.
    pub async fn describe_quotas(
        &self,
        components: &[QuotaComponent],
        strict: bool,
        timeout: Duration,
    ) -> Result<Vec<(QuotaEntity, Quotas)>> {
        let key = ApiKey::DescribeClientQuotas;
        let build = |_: &Asked<'_, ()>| {
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
            let found = response.entries.unwrap_or_default().into_iter().map(|entry| {
                let mut entity: QuotaEntity =
                    entry.entity.into_iter().map(|part| (part.entity_type, part.entity_name)).collect();
                entity.sort();
                (entity, entry.values.into_iter().map(|value| (value.key, value.value)).collect())
            });
            let mut found: Vec<(QuotaEntity, Quotas)> = found.collect();
            found.sort_by(|(a, _), (b, _)| a.cmp(b));
            Ok(found)
        };
        self.ask(Route::Any, timeout, build, read).await
    }

    /// Sets and removes (`None`) quotas, or only checks that they could be; each entity has its own outcome.
    ///
    /// # Errors
    /// What is not about one entity; a timeout with its cause where no broker answered.
    pub async fn alter_quotas(
        &self,
        changes: &BTreeMap<QuotaEntity, Vec<(String, Option<f64>)>>,
        validate_only: bool,
        timeout: Duration,
    ) -> Result<Vec<(QuotaEntity, Result<()>)>> {
        let key = ApiKey::AlterClientQuotas;
        let entities: Vec<QuotaEntity> = changes.keys().cloned().collect();
        let build = |asked: &Asked<'_, QuotaEntity>| {
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
            let entries = asked.items.iter().map(entry).collect();
            Ok(AlterClientQuotasRequest { entries, validate_only, ..Default::default() })
        };
        let read = |_: &Asked<'_, QuotaEntity>, response: AlterClientQuotasResponse| {
            let one = |said: EntryResult| {
                let mut entity: QuotaEntity =
                    said.entity.into_iter().map(|part| (part.entity_type, part.entity_name)).collect();
                entity.sort();
                let outcome = check_of(key, shown(&entity), said.error_code, said.error_message.as_deref());
                (entity, outcome)
            };
            Ok(response.entries.into_iter().map(one).collect())
        };
        let work = Work { route: Route::Any, what: shown, most: |_| usize::MAX, timeout };
        self.settle(&work, &entities, build, read).await
    }
}
