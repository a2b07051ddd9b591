//! AlterClientQuotas: quotas of users, clients and addresses are set and removed (KIP-546).

request! { AlterClientQuotas = 49, versions 0..=1, flexible 1, AlterClientQuotasRequest => AlterClientQuotasResponse }

messages! {
    /// What is asked.
    struct AlterClientQuotasRequest {
        entries: Vec<EntryData> => 0..;
        validate_only: bool => 0..;
    }

    /// What changes for one entity.
    struct EntryData {
        entity: Vec<EntityData> => 0..;
        ops: Vec<OpData> => 0..;
    }

    /// One part of an entity; null is the default.
    struct EntityData {
        entity_type: String => 0..;
        entity_name: Option<String> => 0..;
    }

    /// What changes of one quota.
    struct OpData {
        key: String => 0..;
        value: f64 => 0..;
        remove: bool => 0..;
    }

    /// What is answered.
    struct AlterClientQuotasResponse {
        throttle_time_ms: i32 => 0..;
        entries: Vec<EntryResult> => 0..;
    }

    /// What became of one entity.
    struct EntryResult {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        entity: Vec<EntityData> => 0..;
    }
}
