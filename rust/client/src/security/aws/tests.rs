//! Tests of the sources of credentials, with files and with servers on loopback.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const LATER: &str = "2099-01-01T00:00:00Z";

/// A home directory, and environment variables.
struct Machine {
    home: PathBuf,
    variables: BTreeMap<String, String>,
}

impl Machine {
    /// Creates a machine that has no metadata of an instance.
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let home = std::env::temp_dir().join(format!("samsarrow-aws-{}-{number}", std::process::id()));
        std::fs::create_dir_all(home.join(".aws/sso/cache")).unwrap();
        let variables = [("HOME", home.to_str().unwrap()), ("AWS_EC2_METADATA_DISABLED", "true")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Self { home, variables }
    }

    fn set(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    fn file(self, name: &str, text: &str) -> Self {
        std::fs::write(self.home.join(name), text).unwrap();
        self
    }

    fn sources(&self, options: &[(&str, &str)]) -> CredentialSources {
        let variables = self.variables.clone();
        let options: Vec<(String, Secret)> =
            options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned().into())).collect();
        let chain = Chain::new(&options, move |name| variables.get(name).cloned());
        CredentialSources { chain: Arc::new(chain), cached: Arc::default() }
    }

    async fn find(&self) -> Result<AwsCredentials> {
        self.sources(&[]).find().await
    }

    async fn error(&self) -> String {
        self.find().await.unwrap_err().to_string()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

fn triple(credentials: &AwsCredentials) -> (&str, &str, Option<&str>) {
    (&credentials.key_id, credentials.secret.reveal(), credentials.token.as_ref().map(Secret::reveal))
}

/// Starts a server that responds to the first request that contains a text with the status and body next to it.
/// Returns its URL and the requests.
async fn server(responses: &[(&'static str, &'static str, String)]) -> (String, Arc<StdMutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(StdMutex::new(Vec::new()));
    let (recorded, responses) = (Arc::clone(&requests), responses.to_vec());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
            while !is_complete(&bytes) {
                match stream.read(&mut part).await {
                    Ok(size) if size > 0 => bytes.extend_from_slice(&part[..size]),
                    _ => break,
                }
            }
            let request = String::from_utf8(bytes).unwrap();
            let found = responses.iter().find(|(text, ..)| request.contains(text));
            let (status, body) = found.map_or(("404 Not Found", ""), |(_, status, body)| (status, body));
            recorded.lock().unwrap().push(request);
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all((head + body).as_bytes()).await;
        }
    });
    (url, requests)
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let size = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= size.unwrap_or(0)
}

fn json(key_id: &str, expires: &str) -> String {
    format!(
        r#"{{"Code":"Success","AccessKeyId":"{key_id}","SecretAccessKey":"s3cret","Token":"t0ken","Expiration":"{expires}"}}"#
    )
}

fn xml(key_id: &str) -> String {
    format!(
        "<R><Credentials><AccessKeyId>{key_id}</AccessKeyId><SecretAccessKey>a&amp;b</SecretAccessKey>\
         <SessionToken>t0ken</SessionToken><Expiration>{LATER}</Expiration></Credentials></R>"
    )
}

#[tokio::test]
async fn environment_comes_first() {
    let machine = Machine::new()
        .file(".aws/credentials", "[default]\naws_access_key_id=FILE\naws_secret_access_key=f\n")
        .set("AWS_ACCESS_KEY_ID", "ENV")
        .set("AWS_SECRET_ACCESS_KEY", "hunter2")
        .set("AWS_SESSION_TOKEN", "t");
    let credentials = machine.find().await.unwrap();
    assert_eq!(triple(&credentials), ("ENV", "hunter2", Some("t")));
    assert!(!format!("{credentials:?}").contains("hunter2"));
    // A profile that an option names takes precedence.
    let credentials = machine.sources(&[("awsProfileName", "default")]).find().await.unwrap();
    assert_eq!(triple(&credentials), ("FILE", "f", None));
    for (name, missing) in
        [("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID")]
    {
        let error = Machine::new().set(name, "x").error().await;
        assert!(error.contains(&format!("environment variable {missing} is missing")), "{error}");
    }
}

#[tokio::test]
async fn error_lists_all_sources() {
    let machine = Machine::new().file(".aws/config", "[default]\nregion = eu-central-1\n");
    let error = machine.error().await;
    for part in [
        "environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set",
        "web identity: AWS_WEB_IDENTITY_TOKEN_FILE is not set",
        "profile default: it has no credentials",
        ".aws/credentials does not exist",
        ".aws/config exists",
        "container: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and AWS_CONTAINER_CREDENTIALS_FULL_URI are not set",
        "instance metadata: AWS_EC2_METADATA_DISABLED is true",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let error = Machine::new().set("AWS_PROFILE", "shop").error().await;
    assert!(error.contains("profile shop does not exist: there are none"), "{error}");
    let error = Machine::new().set("AWS_WEB_IDENTITY_TOKEN_FILE", "/x").error().await;
    assert!(error.contains("AWS_ROLE_ARN is not"), "{error}");
    // Nothing listens there.
    let machine = Machine::new()
        .set("AWS_EC2_METADATA_DISABLED", "false")
        .set("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1");
    let error = machine.find().await.unwrap_err();
    assert!(!error.retriable() && error.to_string().contains("instance metadata: http://127.0.0.1:1"), "{error}");
}

#[tokio::test]
async fn profiles_are_merged_from_both_files() {
    let config = "# comment\n[profile \"my shop\"]\nregion=eu-central-1\ns3 =\n  max_concurrent_requests = 1\n\
                  aws_access_key_id = CONFIG\naws_secret_access_key = c=d\n[profile half]\naws_access_key_id=x\n\
                  [services x]\naws_access_key_id=no\n";
    let credentials = "[my shop]\naws_access_key_id = FILE\naws_session_token = t\n";
    let machine = Machine::new().file(".aws/config", config).file(".aws/credentials", credentials);
    let machine = machine.set("AWS_PROFILE", "my shop");
    assert_eq!(triple(&machine.find().await.unwrap()), ("FILE", "c=d", Some("t")));
    let machine = machine.set("AWS_PROFILE", "half");
    assert!(machine.error().await.contains("aws_access_key_id without aws_secret_access_key"));
    // Settings may be indented, and settings with more indentation are nested.
    let indented =
        "[profile indented]\n\n  aws_access_key_id = IN\n  s3 =\n    region = no\n  aws_secret_access_key = s\n";
    let machine = machine.set("AWS_PROFILE", "indented").file(".aws/config", &format!("{config}{indented}"));
    assert_eq!(triple(&machine.find().await.unwrap()), ("IN", "s", None));
    let machine = machine.file(".aws/config", config);
    let machine = machine.set("AWS_PROFILE", "nobody");
    assert!(machine.error().await.contains("there are half, my shop"), "{}", machine.error().await);
    // A file is read for each login.
    let machine = machine.set("AWS_PROFILE", "my shop");
    let sources = machine.sources(&[]);
    sources.find().await.unwrap();
    let machine = machine.file(".aws/credentials", "[my shop]\naws_access_key_id = NEXT\n");
    assert_eq!(sources.find().await.unwrap().key_id, "NEXT");
    let machine =
        machine.set("AWS_SHARED_CREDENTIALS_FILE", "~/other").file("other", "[my shop]\naws_access_key_id=O\n");
    assert_eq!(machine.find().await.unwrap().key_id, "O");
}

#[tokio::test]
async fn processes_print_credentials() {
    let output = format!(r#"{{"Version": 1, "AccessKeyId": "P", "SecretAccessKey": "p", "Expiration": "{LATER}"}}"#);
    let config = |command: &str| format!("[default]\ncredential_process = {command}\n");
    let machine = Machine::new().file("output", &output);
    let path = machine.home.join("output").display().to_string();
    let machine = machine.file(".aws/config", &config(&format!("cat '{path}'")));
    let sources = machine.sources(&[]);
    assert_eq!(triple(&sources.find().await.unwrap()), ("P", "p", None));
    // Credentials that do not expire soon are not looked up again.
    std::fs::remove_file(&path).unwrap();
    assert_eq!(sources.find().await.unwrap().key_id, "P");
    for (command, reason) in [
        (&*format!("cat {path}"), "cat failed with exit status: 1: cat: "),
        ("/nowhere/program", "/nowhere/program cannot be started"),
        ("echo '{}'", "no JSON object with \"Version\": 1"),
        (r#"echo '{"Version": 1, "AccessKeyId": "x"}'"#, "it returns no SecretAccessKey"),
        (r#"echo '{"Version": 1, "AccessKeyId": "x", "SecretAccessKey": "s", "Expiration": "soon"}'"#, "not a time"),
        ("echo 'x", "a quotation mark without its pair"),
    ] {
        let error = Machine::new().file(".aws/config", &config(command)).error().await;
        assert!(error.contains("profile default: credential_process") && error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn stuck_process_is_killed() {
    let program = "[default]\ncredential_process = sh -c 'echo $$ > \"$0\"; exec sleep 60' ";
    let machine = Machine::new();
    let file = machine.home.join("pid");
    let machine = machine.file(".aws/config", &format!("{program}'{}'\n", file.display()));
    let sources = machine.sources(&[]);
    let mut lookup = Box::pin(sources.find());
    let pid = loop {
        assert!(timeout(Duration::from_millis(20), &mut lookup).await.is_err());
        match std::fs::read_to_string(&file) {
            Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
            _ => (),
        }
    };
    let is_running = || std::path::Path::new("/proc").join(&pid).exists();
    assert!(is_running() || !std::path::Path::new("/proc/self").exists());
    drop(lookup);
    assert!(!is_running());
}

#[tokio::test]
async fn web_identity_assumes_role() {
    let (url, requests) = server(&[("AssumeRoleWithWebIdentity", "200 OK", xml("WEB"))]).await;
    let machine = Machine::new().file("token", "w3b+token\n");
    let path = machine.home.join("token").display().to_string();
    let machine = machine
        .set("AWS_WEB_IDENTITY_TOKEN_FILE", path)
        .set("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
        .set("AWS_ROLE_SESSION_NAME", "s")
        .set("AWS_ENDPOINT_URL_STS", url);
    let sources = machine.sources(&[]);
    for _ in 0..2 {
        assert_eq!(triple(&sources.find().await.unwrap()), ("WEB", "a&b", Some("t0ken")));
    }
    let requests = requests.lock().unwrap().clone();
    assert_eq!(requests.len(), 1);
    for part in ["RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr", "RoleSessionName=s", "WebIdentityToken=w3b%2Btoken"] {
        assert!(requests[0].contains(part), "{part}: {}", requests[0]);
    }
    assert!(!requests[0].to_ascii_lowercase().contains("authorization:"));

    let denied = "<Error><Code>AccessDenied</Code><Message>not with w3b+token</Message></Error>".to_owned();
    let (url, _) = server(&[("Assume", "403 Forbidden", denied)]).await;
    let error = machine.set("AWS_ENDPOINT_URL_STS", url).error().await;
    assert!(error.contains("role arn:aws:iam::1:role/r: ") && error.contains("403: AccessDenied"), "{error}");
    assert!(!error.contains("w3b+token"), "{error}");
}

#[tokio::test]
async fn profiles_and_options_assume_roles() {
    let (url, requests) = server(&[("=first", "200 OK", xml("FIRST")), ("=second", "200 OK", xml("SECOND"))]).await;
    let config = "[profile base]\naws_access_key_id=BASE\naws_secret_access_key=b\n\
                  [profile one]\nrole_arn=first\nsource_profile=base\nexternal_id=e&x\nduration_seconds=900\n\
                  [profile two]\nrole_arn=second\nsource_profile=one\nregion=eu-west-1\n\
                  [profile loop]\nrole_arn=x\nsource_profile=pool\n[profile pool]\nrole_arn=x\nsource_profile=loop\n\
                  [profile self]\nrole_arn=x\nsource_profile=self\n[profile alone]\nrole_arn=x\n\
                  [profile env]\nrole_arn=first\ncredential_source=Environment\n\
                  [profile odd]\nrole_arn=first\ncredential_source=Moon\n\
                  [profile mfa]\nrole_arn=x\nsource_profile=base\nmfa_serial=m\n\
                  [profile gone]\nrole_arn=x\nsource_profile=nowhere\n";
    let machine = Machine::new().file(".aws/config", config).set("AWS_ENDPOINT_URL_STS", url);
    let machine = machine.set("AWS_PROFILE", "two");
    assert_eq!(machine.find().await.unwrap().key_id, "SECOND");
    let sent = std::mem::take(&mut *requests.lock().unwrap());
    let heads: Vec<&str> = sent.iter().map(|request| request.split("SignedHeaders").next().unwrap()).collect();
    assert!(heads[0].contains("Credential=BASE/") && heads[0].contains("/us-east-1/sts/aws4_request"), "{heads:?}");
    assert!(heads[1].contains("Credential=FIRST/") && heads[1].contains("/eu-west-1/sts/"), "{heads:?}");
    assert!(sent[0].contains("ExternalId=e%26x&DurationSeconds=900"), "{}", sent[0]);
    assert!(sent[0].contains("RoleSessionName=samsarrow"), "{}", sent[0]);

    for (profile, reason) in [
        ("loop", "more than 8 profiles follow"),
        ("self", "names the profile itself"),
        ("alone", "role_arn needs one of source_profile"),
        ("env", "credential_source=Environment: AWS_ACCESS_KEY_ID"),
        ("odd", "it must be Environment, EcsContainer or Ec2InstanceMetadata"),
        ("mfa", "mfa_serial needs a code"),
        ("gone", "profile nowhere does not exist"),
    ] {
        let error = machine.sources(&[("awsProfileName", profile)]).find().await.unwrap_err();
        assert!(error.fatal() && error.to_string().contains(reason), "{error}");
    }
    // The role of an option is assumed with the credentials of the environment.
    let machine = machine.set("AWS_ACCESS_KEY_ID", "ENV").set("AWS_SECRET_ACCESS_KEY", "e");
    let options = [("awsRoleArn", "first"), ("awsRoleSessionName", "me"), ("awsStsRegion", "cn-north-1")];
    assert_eq!(machine.sources(&options).find().await.unwrap().key_id, "FIRST");
    let sent = std::mem::take(&mut *requests.lock().unwrap());
    assert!(sent[0].contains("Credential=ENV/") && sent[0].contains("/cn-north-1/sts/"), "{}", sent[0]);
    assert!(sent[0].contains("RoleSessionName=me"), "{}", sent[0]);
    assert_eq!(machine.sources(&[("awsProfileName", "env")]).find().await.unwrap().key_id, "FIRST");
}

#[tokio::test]
async fn containers_have_an_endpoint() {
    let (url, requests) = server(&[("GET /v2/x", "200 OK", json("POD", LATER))]).await;
    let machine = Machine::new().file("token", "b3arer\n");
    let path = machine.home.join("token").display().to_string();
    let machine = machine
        .set("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{url}/v2/x?id=1"))
        .set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path);
    assert_eq!(triple(&machine.find().await.unwrap()), ("POD", "s3cret", Some("t0ken")));
    let sent = requests.lock().unwrap().clone();
    assert!(sent[0].starts_with("GET /v2/x?id=1 ") && sent[0].contains("authorization: b3arer\r\n"), "{}", sent[0]);
    let error = machine.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://10.0.0.1/x").error().await;
    assert!(error.contains("AWS_CONTAINER_CREDENTIALS_FULL_URI is http://10.0.0.1: it must be https://"), "{error}");
    let (url, _) = server(&[("GET", "500 Internal Server Error", String::new())]).await;
    let machine = Machine::new().set("AWS_CONTAINER_CREDENTIALS_FULL_URI", url);
    let error = machine.find().await.unwrap_err();
    assert!(error.retriable() && error.to_string().contains("responds with 500"), "{error}");
}

#[tokio::test]
async fn instances_have_metadata() {
    const PATH: &str = "GET /latest/meta-data/iam/security-credentials/";
    let responses = [
        ("PUT /latest/api/token", "200 OK", "imds\n".to_owned()),
        ("security-credentials/worker ", "200 OK", json("EC2", LATER)),
        (PATH, "200 OK", "worker\n".to_owned()),
    ];
    let (url, requests) = server(&responses).await;
    let machine = || Machine::new().set("AWS_EC2_METADATA_DISABLED", "false");
    let credentials = machine().set("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url).find().await.unwrap();
    assert_eq!(credentials.key_id, "EC2");
    let sent = requests.lock().unwrap().clone();
    assert!(sent[0].contains("x-aws-ec2-metadata-token-ttl-seconds: 21600"), "{}", sent[0]);
    assert!(sent[1..].iter().all(|request| request.contains("x-aws-ec2-metadata-token: imds\r\n")), "{sent:?}");

    for status in ["200 OK", "404 Not Found"] {
        let (url, _) = server(&[responses[0].clone(), (PATH, status, String::new())]).await;
        let error = machine().set("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url).error().await;
        assert!(error.contains("instance metadata: the instance has no role"), "{error}");
    }
    let (url, _) = server(&[("PUT /latest/api/token", "403 Forbidden", String::new())]).await;
    let error = machine().set("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url).error().await;
    assert!(error.contains("does not serve IMDSv2"), "{error}");
    let failed = r#"{"Code":"AssumeRoleUnauthorizedAccess","Message":"no trust"}"#.to_owned();
    let (url, _) =
        server(&[responses[0].clone(), ("credentials/worker ", "200 OK", failed), responses[2].clone()]).await;
    let error = machine().set("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url).error().await;
    assert!(error.contains("role worker of the instance: AssumeRoleUnauthorizedAccess: no trust"), "{error}");
}

#[tokio::test]
async fn credentials_that_expire_are_replaced() {
    let text = |seconds: u64| {
        let time = signature::timestamp(SystemTime::now() + Duration::from_secs(seconds));
        let part = |from: usize, to: usize| &time[from..to];
        let (year, month, day) = (part(0, 4), part(4, 6), part(6, 8));
        format!("{year}-{month}-{day}T{}:{}:{}Z", part(9, 11), part(11, 13), part(13, 15))
    };
    let (url, requests) = server(&[("GET /", "200 OK", json("SOON", &text(200)))]).await;
    let machine = Machine::new().set("AWS_CONTAINER_CREDENTIALS_FULL_URI", url);
    let sources = machine.sources(&[]);
    for count in 1..3 {
        assert_eq!(sources.find().await.unwrap().key_id, "SOON");
        assert_eq!(requests.lock().unwrap().len(), count);
    }
    // If the endpoint does not respond, credentials that are still valid are used.
    let broken = Machine::new().set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/");
    let broken = CredentialSources { cached: Arc::clone(&sources.cached), ..broken.sources(&[]) };
    assert_eq!(broken.find().await.unwrap().key_id, "SOON");
}

#[tokio::test]
async fn sso_uses_the_token_of_a_login() {
    let body = r#"{"roleCredentials":{"accessKeyId":"SSO","secretAccessKey":"s","sessionToken":"t","expiration":4070908800000}}"#;
    let (url, requests) = server(&[("GET /federation/credentials", "200 OK", body.to_owned())]).await;
    let config = "[default]\nsso_session = corp\nsso_account_id = 123\nsso_role_name = a b\n\
                  [sso-session corp]\nsso_region = eu-central-1\nsso_start_url = https://x.awsapps.com/start\n\
                  [profile lost]\nsso_session = none\n";
    // sha1 of "corp"
    let cache = ".aws/sso/cache/CACHE.json".replace("CACHE", &{
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, b"corp");
        signature::hex(digest.as_ref())
    });
    let machine = Machine::new().file(".aws/config", config).set("AWS_ENDPOINT_URL_SSO", url);
    let error = machine.error().await;
    assert!(error.contains("cannot be read") && error.contains("run aws sso login --profile default"), "{error}");
    let machine = machine.file(&cache, r#"{"accessToken":"old","expiresAt":"2020-01-01T00:00:00Z"}"#);
    assert!(machine.error().await.contains("has expired: run aws sso login"));
    let machine = machine.file(&cache, &format!(r#"{{"accessToken":"sso-t0ken","expiresAt":"{LATER}"}}"#));
    assert_eq!(triple(&machine.find().await.unwrap()), ("SSO", "s", Some("t")));
    let sent = requests.lock().unwrap().clone();
    assert!(sent[0].starts_with("GET /federation/credentials?role_name=a%20b&account_id=123 "), "{}", sent[0]);
    assert!(sent[0].contains("x-amz-sso_bearer_token: sso-t0ken"), "{}", sent[0]);
    let error = machine.sources(&[("awsProfileName", "lost")]).find().await.unwrap_err().to_string();
    assert!(error.contains("[sso-session none] does not exist"), "{error}");
}
