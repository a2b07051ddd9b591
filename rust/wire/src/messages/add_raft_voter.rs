//! AddRaftVoter API: adds a controller to the KRaft quorum (KIP-853). v1 can respond before the change is committed by
//! the other voters (KIP-1186).

use super::types::Uuid;

request! { AddRaftVoter = 80, versions 0..=1, flexible 0, AddRaftVoterRequest => AddRaftVoterResponse }

messages! {
    struct AddRaftVoterRequest {
        cluster_id: Option<String> => 0..;
        timeout_ms: i32 => 0..;
        voter_id: i32 => 0..;
        voter_directory_id: Uuid => 0..;
        listeners: Vec<Listener> => 0..;
        ack_when_committed: bool = true => 1..;
    }

    /// An endpoint of a controller.
    struct Listener {
        name: String => 0..;
        host: String => 0..;
        port: u16 => 0..;
    }

    struct AddRaftVoterResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
