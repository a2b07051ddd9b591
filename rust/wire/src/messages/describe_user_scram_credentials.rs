//! DescribeUserScramCredentials API: returns the SCRAM mechanisms and iteration counts of users (KIP-554).

request! {
    DescribeUserScramCredentials = 50, versions 0..=0, flexible 0,
    DescribeUserScramCredentialsRequest => DescribeUserScramCredentialsResponse
}

messages! {
    /// The request; null users stand for all users.
    struct DescribeUserScramCredentialsRequest {
        users: Option<Vec<UserName>> => 0..;
    }

    /// A user whose credentials are requested.
    struct UserName {
        name: String => 0..;
    }

    struct DescribeUserScramCredentialsResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        results: Vec<DescribeUserScramCredentialsResult> => 0..;
    }

    /// The credentials of one user.
    struct DescribeUserScramCredentialsResult {
        user: String => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        credential_infos: Vec<CredentialInfo> => 0..;
    }

    /// A mechanism and its number of iterations.
    struct CredentialInfo {
        mechanism: i8 => 0..;
        iterations: i32 => 0..;
    }
}
