//! Operations of Admin on users, ACLs and tokens, against scripted brokers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use samsarrow_client::admin::{
    AclBinding, AclFilter, AclOperation, AclPermission, Admin, NewPassword, PatternType, Principal, ResourceType,
    ScramMechanism, UserAlteration,
};
use samsarrow_client::config::{ClientKind, OptionValue, Options, Secret};
use samsarrow_client::error::Error;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::frame;
use samsarrow_wire::messages::alter_user_scram_credentials::AlterUserScramCredentialsResult;
use samsarrow_wire::messages::api_versions::ApiVersion;
use samsarrow_wire::messages::create_acls::AclCreationResult;
use samsarrow_wire::messages::delete_acls::{DeleteAclsFilterResult, DeleteAclsMatchingAcl};
use samsarrow_wire::messages::describe_acls::{AclDescription, DescribeAclsResource};
use samsarrow_wire::messages::describe_user_scram_credentials::{CredentialInfo, DescribeUserScramCredentialsResult};
use samsarrow_wire::messages::metadata::MetadataResponseBroker;
use samsarrow_wire::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, ApiKey, ApiVersionsRequest,
    ApiVersionsResponse, CreateAclsRequest, CreateAclsResponse, CreateDelegationTokenRequest,
    CreateDelegationTokenResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest, DescribeAclsResponse,
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse, Hidden, MetadataRequest,
    MetadataResponse, Reader, Request,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SOON: Duration = Duration::from_secs(10);

/// Request that a broker received.
struct ReceivedRequest {
    node: i32,
    version: i16,
    id: i32,
    body: Bytes,
}

impl ReceivedRequest {
    fn read<R: Request>(&self) -> R {
        R::decode(self.version, &mut Reader::new(self.body.clone())).unwrap()
    }

    fn respond<R: Request>(&self, response: &R::Response) -> Bytes {
        frame::encode_response::<R>(response, self.version, self.id).unwrap()
    }
}

type Script = Arc<dyn Fn(&ReceivedRequest) -> Bytes + Send + Sync>;

/// Brokers 0 and 1, which support `versions` of `api` and send scripted responses. `controller` is the id of the
/// controller that they report.
struct Fake {
    servers: String,
    controller: Arc<Mutex<i32>>,
    /// Ids of the brokers that received requests, in the order of the requests.
    receivers: Arc<Mutex<Vec<i32>>>,
}

impl Fake {
    async fn start(
        api: ApiKey,
        versions: (i16, i16),
        script: impl Fn(&ReceivedRequest) -> Bytes + Send + Sync + 'static,
    ) -> (Fake, Admin) {
        let listeners =
            [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        let (controller, receivers) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(Vec::new())));
        let script: Script = Arc::new(script);
        for (node, listener) in (0..).zip(listeners) {
            let (controller, receivers, script) = (controller.clone(), receivers.clone(), script.clone());
            let brokers: Vec<_> = (0..)
                .zip(addresses)
                .map(|(node_id, at)| MetadataResponseBroker {
                    node_id,
                    host: at.ip().to_string(),
                    port: at.port().into(),
                    ..Default::default()
                })
                .collect();
            tokio::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    let (controller, receivers, script) = (controller.clone(), receivers.clone(), script.clone());
                    let brokers = brokers.clone();
                    tokio::spawn(async move {
                        while let Some(request) = read_request(&mut stream).await {
                            let (header, body) = frame::decode_request_header(request).unwrap();
                            let request =
                                ReceivedRequest { node, version: header.api_version, id: header.correlation_id, body };
                            let bytes = match ApiKey::from_i16(header.api_key) {
                                Some(ApiKey::ApiVersions) => {
                                    request.respond::<ApiVersionsRequest>(&api_versions(api, versions))
                                }
                                Some(ApiKey::Metadata) => {
                                    let controller_id = *controller.lock().unwrap();
                                    let response = MetadataResponse {
                                        brokers: brokers.clone(),
                                        controller_id,
                                        ..Default::default()
                                    };
                                    request.respond::<MetadataRequest>(&response)
                                }
                                _ => {
                                    receivers.lock().unwrap().push(node);
                                    script(&request)
                                }
                            };
                            stream.write_all(&bytes).await.unwrap();
                        }
                    });
                }
            });
        }
        let servers = addresses.map(|at| at.to_string()).join(",");
        let fast = [("retry.backoff.ms", "10"), ("retry.backoff.max.ms", "50"), ("bootstrap.servers", &servers)];
        let pairs = fast.map(|(name, value)| (name.to_owned(), OptionValue::Str(value.to_owned())));
        let admin = Admin::new(&Options::parse(ClientKind::Admin, pairs).unwrap()).unwrap();
        (Fake { servers, controller, receivers }, admin)
    }

    fn receivers(&self) -> Vec<i32> {
        self.receivers.lock().unwrap().clone()
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Bytes> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await.ok()?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).await.ok()?;
    Some(frame.into())
}

fn api_versions(api: ApiKey, versions: (i16, i16)) -> ApiVersionsResponse {
    let api_version = |(api, (min_version, max_version)): (ApiKey, (i16, i16))| ApiVersion {
        api_key: api.code(),
        min_version,
        max_version,
        ..Default::default()
    };
    let keys = [(api, versions), (ApiKey::ApiVersions, (0, 3)), (ApiKey::Metadata, (0, 12))];
    ApiVersionsResponse { api_keys: keys.map(api_version).to_vec(), ..Default::default() }
}

fn acl(name: &str) -> AclBinding {
    AclBinding {
        resource_type: ResourceType::Topic,
        resource_name: name.into(),
        pattern_type: PatternType::Literal,
        principal: "User:alice".into(),
        host: "*".into(),
        operation: AclOperation::Read,
        permission: AclPermission::Allow,
    }
}

fn any() -> AclFilter {
    AclFilter {
        resource_type: ResourceType::Any,
        resource_name: None,
        pattern_type: PatternType::Any,
        principal: None,
        host: None,
        operation: AclOperation::Any,
        permission: AclPermission::Any,
    }
}

fn password(user: &str) -> UserAlteration {
    let password = Secret::from("hunter2".to_owned());
    let new = NewPassword { password, iterations: 4096, salt: Some(b"salt".to_vec()) };
    UserAlteration { user: user.into(), mechanism: ScramMechanism::Sha256, password: Some(new) }
}

#[tokio::test]
async fn alter_users_follows_the_controller() {
    let (fake, admin) = Fake::start(ApiKey::AlterUserScramCredentials, (0, 0), |received| {
        let request: AlterUserScramCredentialsRequest = received.read();
        // The response does not contain the last user.
        let names = request.upsertions.iter().map(|u| &u.name).chain(request.deletions.iter().map(|d| &d.name));
        let named: Vec<&String> = names.clone().collect();
        assert!(named.iter().all(|name| named.iter().filter(|other| *other == name).count() == 1), "{named:?}");
        let code = match received.node {
            0 => |_: &str| ErrorCode::NOT_CONTROLLER,
            _ => |name: &str| if name == "b" { ErrorCode::RESOURCE_NOT_FOUND } else { ErrorCode::NONE },
        };
        let result = |name: &String| AlterUserScramCredentialsResult {
            user: name.clone(),
            error_code: code(name).code(),
            ..Default::default()
        };
        let results = names.filter(|name| *name != "missing").map(result).collect();
        received.respond::<AlterUserScramCredentialsRequest>(&AlterUserScramCredentialsResponse {
            results,
            ..Default::default()
        })
    })
    .await;
    let deletion = |user: &str| UserAlteration { user: user.into(), mechanism: ScramMechanism::Sha512, password: None };
    let moves = fake.controller.clone();
    let receivers = fake.receivers.clone();
    tokio::spawn(async move {
        while receivers.lock().unwrap().len() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        *moves.lock().unwrap() = 1;
    });
    let changes = vec![password("a"), deletion("b"), deletion("a"), deletion("missing")];
    let done = admin.alter_users(changes, SOON).await.unwrap();
    // The second change of user a is sent after the first change.
    assert_eq!(done.iter().map(|(user, _)| user.as_str()).collect::<Vec<_>>(), ["a", "b", "missing"]);
    assert_eq!(done[0].1, Ok(()));
    assert_eq!(
        done[1].1.as_ref().unwrap_err().to_string(),
        "AlterUserScramCredentials of user b: RESOURCE_NOT_FOUND (91): the user, group or other resource of the request does not exist; the user has no such password"
    );
    assert!(done[2].1.as_ref().unwrap_err().to_string().contains("leaves out user missing"));
    let receivers = fake.receivers();
    assert!(receivers.len() >= 5 && receivers.iter().rev().skip(2).all(|node| *node == 0), "{receivers:?}");
    assert_eq!(receivers[receivers.len() - 2..], [1, 1]);

    // Broker 0 rejects every request with NOT_CONTROLLER until the timeout.
    *fake.controller.lock().unwrap() = 0;
    let late = admin.alter_users(vec![password("a")], Duration::from_secs(1)).await.unwrap();
    let late = late[0].1.as_ref().unwrap_err().to_string();
    assert!(late.contains("took longer than 1 s") && late.contains("NOT_CONTROLLER"), "{late}");
    assert!(!late.contains("hunter2"), "{late}");
    assert!(fake.receivers().len() < 40, "{:?}", fake.receivers());
    assert_eq!(admin.alter_users(Vec::new(), SOON).await, Ok(Vec::new()));
}

#[tokio::test]
async fn describe_users_has_a_result_per_user() {
    let (fake, admin) = Fake::start(ApiKey::DescribeUserScramCredentials, (0, 0), |received| {
        let request: DescribeUserScramCredentialsRequest = received.read();
        let mut response = DescribeUserScramCredentialsResponse::default();
        let info = |mechanism| CredentialInfo { mechanism, iterations: 8192, ..Default::default() };
        let known = DescribeUserScramCredentialsResult {
            user: "a".into(),
            credential_infos: vec![info(2), info(1), info(9)],
            ..Default::default()
        };
        let unknown = DescribeUserScramCredentialsResult {
            user: "b".into(),
            error_code: ErrorCode::RESOURCE_NOT_FOUND.code(),
            error_message: Some("Attempt to describe a user credential that does not exist: b".into()),
            ..Default::default()
        };
        match request.users.as_deref() {
            None => panic!("brokers that must reject this request do not respond to it"),
            Some([]) => response.error_code = ErrorCode::CLUSTER_AUTHORIZATION_FAILED.code(),
            Some(_) => response.results = vec![unknown, known],
        }
        received.respond::<DescribeUserScramCredentialsRequest>(&response)
    })
    .await;
    let names = ["a", "b", "c"].map(str::to_owned);
    let result = admin.describe_users(Some(&names), SOON).await.unwrap();
    let credentials = result[0].1.as_ref().unwrap();
    let mechanisms: Vec<&str> = credentials.iter().map(|c| c.mechanism.name()).collect();
    assert_eq!(mechanisms, ["UNKNOWN", "SCRAM-SHA-256", "SCRAM-SHA-512"]);
    assert!(credentials.iter().all(|c| c.iterations == 8192));
    let text = result[1].1.as_ref().unwrap_err().to_string();
    assert!(text.contains("does not exist: b; the user has no such password"), "{text}");
    assert!(result[2].1.as_ref().unwrap_err().to_string().contains("leaves out user c"));
    assert_eq!(admin.describe_users(Some(&[]), SOON).await, Ok(Vec::new()));

    let before = fake.receivers().len();
    let text = admin.describe_users(None, SOON).await.unwrap_err().to_string();
    assert!(text.contains("needs the operation DESCRIBE on the cluster"), "{text}");
    assert_eq!(fake.receivers().len(), before + 1, "it would be rejected again");
}

#[tokio::test]
async fn acl_results_keep_the_order() {
    let (fake, admin) = Fake::start(ApiKey::CreateAcls, (1, 3), |received| {
        let request: CreateAclsRequest = received.read();
        assert_eq!((request.creations.len(), request.creations[0].resource_pattern_type), (3, 3));
        let rejected = AclCreationResult {
            error_code: ErrorCode::INVALID_REQUEST.code(),
            error_message: Some("Resource name should be non-empty".into()),
            ..Default::default()
        };
        let results = vec![AclCreationResult::default(), rejected];
        received.respond::<CreateAclsRequest>(&CreateAclsResponse { results, ..Default::default() })
    })
    .await;
    let done = admin.create_acls(&[acl("a"), acl("b"), acl("c")], SOON).await.unwrap();
    assert_eq!(done[0], (acl("a"), Ok(())));
    let text = done[1].1.as_ref().unwrap_err().to_string();
    assert!(
        text.starts_with(
            "CreateAcls of ALLOW User:alice READ on TOPIC b (LITERAL) from *: INVALID_REQUEST (42): Resource name should"
        ),
        "{text}"
    );
    assert!(
        done[2].1.as_ref().unwrap_err().to_string().contains("the response to CreateAcls leaves out ALLOW User:alice")
    );
    assert_eq!(fake.receivers().len(), 1);
    // An ACL with an indefinite field is not sent.
    for vague in [
        AclBinding { resource_type: ResourceType::Any, ..acl("a") },
        AclBinding { pattern_type: PatternType::Match, ..acl("a") },
        AclBinding { operation: AclOperation::Unknown, ..acl("a") },
        AclBinding { permission: AclPermission::Any, ..acl("a") },
    ] {
        let error = admin.create_acls(&[acl("a"), vague], SOON).await.unwrap_err();
        assert!(error.to_string().contains("needs a definite"), "{error}");
    }
    assert_eq!(admin.create_acls(&[], SOON).await, Ok(Vec::new()));
    assert_eq!(fake.receivers().len(), 1);
}

#[tokio::test]
async fn acls_of_brokers_before_2_0_are_literal() {
    let (fake, admin) = Fake::start(ApiKey::DescribeAcls, (0, 0), |received| {
        let request: DescribeAclsRequest = received.read();
        assert_eq!((received.version, request.pattern_type_filter), (0, PatternType::Literal.code()));
        let first = AclDescription {
            principal: "User:b".into(),
            host: "*".into(),
            operation: 99,
            permission_type: 3,
            ..Default::default()
        };
        let second = AclDescription { principal: "User:a".into(), ..first.clone() };
        let resource = DescribeAclsResource {
            resource_type: 2,
            resource_name: "t".into(),
            acls: vec![first, second],
            ..Default::default()
        };
        let response = DescribeAclsResponse { resources: vec![resource], ..Default::default() };
        received.respond::<DescribeAclsRequest>(&response)
    })
    .await;
    let result = admin.describe_acls(&any(), SOON).await.unwrap();
    assert_eq!(result.iter().map(|acl| acl.principal.as_str()).collect::<Vec<_>>(), ["User:a", "User:b"]);
    assert_eq!((result[0].pattern_type, result[0].operation), (PatternType::Literal, AclOperation::Unknown));
    let prefixed = AclFilter { pattern_type: PatternType::Prefixed, ..any() };
    let text = admin.describe_acls(&prefixed, SOON).await.unwrap_err().to_string();
    assert!(text.contains("needs Kafka 2.0 or later"), "{text}");
    let unknown = AclFilter { operation: AclOperation::Unknown, ..any() };
    let error = admin.describe_acls(&unknown, SOON).await.unwrap_err();
    assert!(error.to_string().contains("must not have the value UNKNOWN"), "{error}");
    assert_eq!(fake.receivers().len(), 1, "at {}", fake.servers);
}

#[tokio::test]
async fn delete_acls_has_a_result_per_filter() {
    let (fake, admin) = Fake::start(ApiKey::DeleteAcls, (1, 3), |received| {
        let request: DeleteAclsRequest = received.read();
        let removed = DeleteAclsMatchingAcl {
            resource_type: 2,
            resource_name: "a".into(),
            principal: "User:alice".into(),
            host: "*".into(),
            operation: 3,
            permission_type: 3,
            ..Default::default()
        };
        let kept = DeleteAclsMatchingAcl {
            error_code: ErrorCode::UNKNOWN_SERVER_ERROR.code(),
            resource_name: "b".into(),
            ..removed.clone()
        };
        let results = vec![
            DeleteAclsFilterResult { matching_acls: vec![removed, kept], ..Default::default() },
            DeleteAclsFilterResult { error_code: ErrorCode::SECURITY_DISABLED.code(), ..Default::default() },
        ];
        assert_eq!(request.filters.len(), 3);
        received.respond::<DeleteAclsRequest>(&DeleteAclsResponse { filter_results: results, ..Default::default() })
    })
    .await;
    let named = |name: &str| AclFilter { resource_name: Some(name.into()), ..any() };
    let done = admin.delete_acls(&[named("a"), named("b"), named("c")], SOON).await.unwrap();
    let acls = done[0].1.as_ref().unwrap();
    assert_eq!(acls[0], (acl("a"), Ok(())));
    assert_eq!(acls[1].1.as_ref().unwrap_err().code(), Some(ErrorCode::UNKNOWN_SERVER_ERROR.code()));
    let text = done[1].1.as_ref().unwrap_err().to_string();
    assert!(text.contains("set authorizer.class.name on brokers and controllers"), "{text}");
    assert!(matches!(done[2].1, Err(Error::Protocol { .. })));
    assert_eq!(fake.receivers().len(), 1);
}

#[tokio::test]
async fn token_for_another_owner_requires_a_newer_broker() {
    let (fake, admin) = Fake::start(ApiKey::CreateDelegationToken, (0, 2), |received| {
        let request: CreateDelegationTokenRequest = received.read();
        assert_eq!((request.max_lifetime_ms, request.renewers.len()), (60_000, 1));
        received.respond::<CreateDelegationTokenRequest>(&CreateDelegationTokenResponse {
            principal_type: "User".into(),
            principal_name: "alice".into(),
            issue_timestamp_ms: 1,
            expiry_timestamp_ms: 2,
            max_timestamp_ms: 3,
            token_id: "id".into(),
            hmac: Hidden(Bytes::from_static(b"hunter2")),
            ..Default::default()
        })
    })
    .await;
    let (alice, bob): (Principal, Principal) = ("User:alice".parse().unwrap(), "User:bob".parse().unwrap());
    let minute = Some(Duration::from_secs(60));
    let token = admin.create_delegation_token(None, std::slice::from_ref(&bob), minute, SOON).await.unwrap();
    assert_eq!((&token.owner, &token.requester, &token.renewers), (&alice, &None, &vec![bob.clone()]));
    assert_eq!((token.issued, token.expires, token.ends), (1, 2, 3));
    let text = format!("{token:?}");
    assert!(text.contains("[hidden]") && !text.contains("hunter2"), "{text}");
    let none = Some(Duration::ZERO);
    assert!(admin.create_delegation_token(None, &[], none, SOON).await.unwrap_err().to_string().contains("lifetime"));
    let error = admin.create_delegation_token(Some(&bob), &[], None, SOON).await.unwrap_err();
    assert!(matches!(error, Error::UnsupportedVersion(_)), "{error:?}");
    assert!(error.to_string().contains("a token for User:bob"), "{error}");
    assert!(error.to_string().contains("needs Kafka 3.3 or later"), "{error}");
    let text = admin.describe_delegation_tokens(None, SOON).await.unwrap_err().to_string();
    assert!(text.contains("does not support DescribeDelegationToken, which needs Kafka 1.1 or later"), "{text}");
    assert!(text.ends_with("; without ZooKeeper Kafka has it since 3.6"), "{text}");
    assert_eq!(fake.receivers().len(), 1);
}

#[tokio::test]
async fn token_without_a_response_is_not_requested_again() {
    // The brokers do not respond.
    let (fake, admin) = Fake::start(ApiKey::CreateDelegationToken, (0, 3), |_| Bytes::new()).await;
    let error = admin.create_delegation_token(None, &[], None, Duration::from_secs(2)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    assert!(error.to_string().contains("a token may exist"), "{error}");
    assert!(error.to_string().contains("describe_delegation_tokens"), "{error}");
    assert_eq!(fake.receivers(), [0]);
}

#[tokio::test]
async fn token_is_requested_again_after_a_response() {
    let attempts = AtomicUsize::new(0);
    let (fake, admin) = Fake::start(ApiKey::CreateDelegationToken, (0, 3), move |received| {
        let first = attempts.fetch_add(1, Ordering::Relaxed) == 0;
        let code = if first { ErrorCode::NOT_CONTROLLER } else { ErrorCode::NONE };
        received.respond::<CreateDelegationTokenRequest>(&CreateDelegationTokenResponse {
            error_code: code.code(),
            principal_type: "User".into(),
            principal_name: "alice".into(),
            ..Default::default()
        })
    })
    .await;
    admin.create_delegation_token(None, &[], None, SOON).await.unwrap();
    assert_eq!(fake.receivers().len(), 2);
}
