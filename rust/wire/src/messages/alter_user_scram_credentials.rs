//! AlterUserScramCredentials API: sets and deletes SCRAM credentials of users (KIP-554).

use bytes::Bytes;

use super::Hidden;

request! {
    AlterUserScramCredentials = 51, versions 0..=0, flexible 0,
    AlterUserScramCredentialsRequest => AlterUserScramCredentialsResponse
}

messages! {
    struct AlterUserScramCredentialsRequest {
        deletions: Vec<ScramCredentialDeletion> => 0..;
        upsertions: Vec<ScramCredentialUpsertion> => 0..;
    }

    /// A credential to delete.
    struct ScramCredentialDeletion {
        name: String => 0..;
        mechanism: i8 => 0..;
    }

    /// A credential to set. The request contains the salted hash instead of the password.
    struct ScramCredentialUpsertion {
        name: String => 0..;
        mechanism: i8 => 0..;
        iterations: i32 => 0..;
        salt: Bytes => 0..;
        salted_password: Hidden => 0..;
    }

    struct AlterUserScramCredentialsResponse {
        throttle_time_ms: i32 => 0..;
        results: Vec<AlterUserScramCredentialsResult> => 0..;
    }

    /// The result of the changes to the credentials of one user.
    struct AlterUserScramCredentialsResult {
        user: String => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
