//! AddRaftVoter: a controller joins the quorum (KIP-853). 1 can answer before the others know (KIP-1186).

use super::types::Uuid;

request! { AddRaftVoter = 80, versions 0..=1, flexible 0, AddRaftVoterRequest => AddRaftVoterResponse }

messages! {
    /// What is asked.
    struct AddRaftVoterRequest {
        cluster_id: Option<String> => 0..;
        timeout_ms: i32 => 0..;
        voter_id: i32 => 0..;
        voter_directory_id: Uuid => 0..;
        listeners: Vec<Listener> => 0..;
        ack_when_committed: bool = true => 1..;
    }

    /// Where a controller listens.
    struct Listener {
        name: String => 0..;
        host: String => 0..;
        port: u16 => 0..;
    }

    /// What is answered.
    struct AddRaftVoterResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
