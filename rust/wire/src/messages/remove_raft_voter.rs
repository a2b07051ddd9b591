//! RemoveRaftVoter API: removes a controller from the KRaft quorum (KIP-853).

use super::types::Uuid;

request! { RemoveRaftVoter = 81, versions 0..=0, flexible 0, RemoveRaftVoterRequest => RemoveRaftVoterResponse }

messages! {
    struct RemoveRaftVoterRequest {
        cluster_id: Option<String> => 0..;
        voter_id: i32 => 0..;
        voter_directory_id: Uuid => 0..;
    }

    struct RemoveRaftVoterResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
