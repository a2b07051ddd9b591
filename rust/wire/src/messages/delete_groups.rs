//! DeleteGroups: groups without members are deleted, with their offsets (KIP-229).

request! { DeleteGroups = 42, versions 0..=2, flexible 2, DeleteGroupsRequest => DeleteGroupsResponse }

messages! {
    /// What is asked.
    struct DeleteGroupsRequest {
        groups_names: Vec<String> => 0..;
    }

    /// What is answered.
    struct DeleteGroupsResponse {
        throttle_time_ms: i32 => 0..;
        results: Vec<DeletableGroupResult> => 0..;
    }

    /// What became of one group.
    struct DeletableGroupResult {
        group_id: String => 0..;
        error_code: i16 => 0..;
    }
}
