//! AlterClientQuotas API: sets and removes quotas of users, client ids and IP addresses (KIP-546).

request! { AlterClientQuotas = 49, versions 0..=1, flexible 1, AlterClientQuotasRequest => AlterClientQuotasResponse }

messages! {
    struct AlterClientQuotasRequest {
        entries: Vec<EntryData> => 0..;
        validate_only: bool => 0..;
    }

    /// The quota changes for one entity.
    struct EntryData {
        entity: Vec<EntityData> => 0..;
        ops: Vec<OpData> => 0..;
    }

    /// A component of an entity name, for example a user. A null name stands for the default entity.
    struct EntityData {
        entity_type: String => 0..;
        entity_name: Option<String> => 0..;
    }

    /// A change of one quota.
    struct OpData {
        key: String => 0..;
        value: f64 => 0..;
        remove: bool => 0..;
    }

    struct AlterClientQuotasResponse {
        throttle_time_ms: i32 => 0..;
        entries: Vec<EntryResult> => 0..;
    }

    /// The result of changing the quotas of one entity.
    struct EntryResult {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        entity: Vec<EntityData> => 0..;
    }
}
