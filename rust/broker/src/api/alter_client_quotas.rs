//! AlterClientQuotas, v0–v1.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::AlterClientQuotasRequest;
use samsarrow_wire::messages::alter_client_quotas::{AlterClientQuotasResponse, EntryData, EntryResult};

use super::{Call, Handler, Outcome};
use crate::state::configs::QuotaEntity;

const ENTITIES: [&str; 3] = ["client-id", "ip", "user"];
const QUOTAS: [&str; 5] = [
    "connection_creation_rate",
    "consumer_byte_rate",
    "controller_mutation_rate",
    "producer_byte_rate",
    "request_percentage",
];

fn check(entry: &EntryData) -> Result<(), String> {
    if let Some(part) = entry.entity.iter().find(|part| !ENTITIES.contains(&part.entity_type.as_str())) {
        return Err(format!("Unhandled client quota entity type: {}", part.entity_type));
    }
    if entry.entity.is_empty() {
        return Err("Invalid empty client quota entity".to_owned());
    }
    match entry.ops.iter().find(|op| !QUOTAS.contains(&op.key.as_str())) {
        Some(op) => Err(format!("Invalid configuration key {}", op.key)),
        None => Ok(()),
    }
}

fn entry_result(entry: &EntryData, outcome: Result<(), (ErrorCode, Option<String>)>) -> EntryResult {
    let (code, error_message) = outcome.err().unwrap_or((ErrorCode::NONE, None));
    EntryResult { error_code: code.code(), error_message, entity: entry.entity.clone(), ..EntryResult::default() }
}

impl Handler for AlterClientQuotasRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let mut entries = Vec::new();
        for entry in &self.entries {
            let outcome = check(entry).map_err(|text| (ErrorCode::INVALID_REQUEST, Some(text)));
            if outcome.is_ok() && !self.validate_only {
                let parts = entry.entity.iter();
                let entity: QuotaEntity =
                    parts.map(|part| (part.entity_type.clone(), part.entity_name.clone())).collect();
                for op in &entry.ops {
                    call.state.set_quota(entity.clone(), &op.key, (!op.remove).then_some(op.value));
                }
            }
            entries.push(entry_result(entry, outcome));
        }
        call.reply::<Self>(&AlterClientQuotasResponse { entries, ..Default::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> AlterClientQuotasResponse {
        let entries = self.entries.iter().map(|entry| entry_result(entry, Err((code, None)))).collect();
        AlterClientQuotasResponse { entries, ..Default::default() }
    }
}
