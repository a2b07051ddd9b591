//! DeleteGroups API: deletes empty groups and their offsets (KIP-229).
//!
//! v3 adds error messages (KIP-1331).

request! { DeleteGroups = 42, versions 0..=3, flexible 2, DeleteGroupsRequest => DeleteGroupsResponse }

messages! {
    struct DeleteGroupsRequest {
        groups_names: Vec<String> => 0..;
    }

    struct DeleteGroupsResponse {
        throttle_time_ms: i32 => 0..;
        results: Vec<DeletableGroupResult> => 0..;
    }

    /// The result of deleting one group.
    struct DeletableGroupResult {
        group_id: String => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 3.., [ignorable];
    }
}
