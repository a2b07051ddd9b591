//! DescribeClientQuotas, v0–v1. Byte rates are enforced; the other quotas are only stored.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeClientQuotasRequest;
use samsarrow_wire::messages::describe_client_quotas::{
    ComponentData, DescribeClientQuotasResponse, EntityData, EntryData, ValueData,
};
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};
use crate::state::configs::QuotaEntity;

const EXACT: i8 = 0;
const DEFAULT: i8 = 1;

fn matches(component: &ComponentData, entity: &QuotaEntity) -> bool {
    entity.iter().any(|(kind, name)| {
        *kind == component.entity_type
            && match component.match_type {
                EXACT => *name == component.r#match,
                DEFAULT => name.is_none(),
                _ => true,
            }
    })
}

impl Handler for DescribeClientQuotasRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let quotas = lock(&call.state.quotas);
        let is_requested = |entity: &QuotaEntity| {
            self.components.iter().all(|component| matches(component, entity))
                && (!self.strict || entity.len() == self.components.len())
        };
        let entries = quotas.iter().filter(|(entity, _)| is_requested(entity)).map(|(entity, values)| EntryData {
            entity: entity
                .iter()
                .map(|(kind, name)| EntityData {
                    entity_type: kind.clone(),
                    entity_name: name.clone(),
                    ..EntityData::default()
                })
                .collect(),
            values: values
                .iter()
                .map(|(key, value)| ValueData { key: key.clone(), value: *value, ..ValueData::default() })
                .collect(),
            ..EntryData::default()
        });
        let entries = Some(entries.collect());
        call.reply::<Self>(&DescribeClientQuotasResponse { entries, ..Default::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DescribeClientQuotasResponse {
        DescribeClientQuotasResponse { error_code: code.code(), ..Default::default() }
    }
}
