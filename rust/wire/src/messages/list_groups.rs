//! ListGroups API: returns the groups that a broker coordinates.
//!
//! v4 adds states and a state filter (KIP-518); v5 adds types and a type filter (KIP-848).

request! { ListGroups = 16, versions 0..=5, flexible 3, ListGroupsRequest => ListGroupsResponse }

messages! {
    /// The request. An empty filter matches all groups.
    struct ListGroupsRequest {
        states_filter: Vec<String> => 4..;
        types_filter: Vec<String> => 5..;
    }

    struct ListGroupsResponse {
        throttle_time_ms: i32 => 1.., [ignorable];
        error_code: i16 => 0..;
        groups: Vec<ListedGroup> => 0..;
    }

    /// A group with its state and types.
    struct ListedGroup {
        group_id: String => 0..;
        protocol_type: String => 0..;
        group_state: String => 4.., [ignorable];
        group_type: String => 5.., [ignorable];
    }
}
