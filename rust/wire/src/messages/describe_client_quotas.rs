//! DescribeClientQuotas API: returns the quotas of users, client ids and IP addresses (KIP-546).

request! {
    DescribeClientQuotas = 48, versions 0..=1, flexible 1,
    DescribeClientQuotasRequest => DescribeClientQuotasResponse
}

messages! {
    struct DescribeClientQuotasRequest {
        components: Vec<ComponentData> => 0..;
        strict: bool => 0..;
    }

    /// A filter on one component of entity names.
    struct ComponentData {
        entity_type: String => 0..;
        match_type: i8 => 0..;
        r#match: Option<String> => 0..;
    }

    struct DescribeClientQuotasResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        entries: Option<Vec<EntryData>> => 0..;
    }

    /// The quotas of one entity.
    struct EntryData {
        entity: Vec<EntityData> => 0..;
        values: Vec<ValueData> => 0..;
    }

    /// A component of an entity name, for example a user. A null name stands for the default entity.
    struct EntityData {
        entity_type: String => 0..;
        entity_name: Option<String> => 0..;
    }

    /// One quota: its name and its limit.
    struct ValueData {
        key: String => 0..;
        value: f64 => 0..;
    }
}
