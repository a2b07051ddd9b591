//! Tests that JAAS entries are parsed as in Java.

use super::super::{ClientKind, OptionValue, Options};
use super::*;

const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";
const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule";
const OAUTH: &str = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule";
const KRB5: &str = "com.sun.security.auth.module.Krb5LoginModule";
const IAM: &str = "software.amazon.msk.auth.iam.IAMLoginModule";

fn sasl(jaas: &str, more: &[(&str, &str)]) -> Result<SaslOptions> {
    let first = [("bootstrap.servers", "h:1"), ("security.protocol", "SASL_SSL"), ("sasl.jaas.config", jaas)];
    let pairs = first.iter().chain(more).map(|(name, value)| ((*name).into(), OptionValue::Str((*value).into())));
    let options = Options::parse(ClientKind::Consumer, pairs)?;
    Ok(options.common.security.sasl.clone().unwrap())
}

fn mechanism(name: &str) -> (&'static str, &str) {
    ("sasl.mechanism", name)
}

#[test]
fn parses_names_and_passwords_as_java() {
    let cases = [
        ("username=\"alice\" password=\"pa ss\";", "alice", "pa ss"),
        ("username='alice'\n\tpassword='it\\'s';  ", "alice", "it's"),
        ("username=alice-1.x_$y password=\"a\\\"b\\\\c\\n\\101\\7z\";", "alice-1.x_$y", "a\"b\\c\nA\u{7}z"),
        ("username = \"a\" // who\n /* and\n what */ password = \"/*x;=*/\" ;", "a", "/*x;=*/"),
        ("username=\"größe\" password=\"\";", "größe", ""),
        ("username=\"u\" password=\"\\477\";", "u", "'7"),
    ];
    for (options, username, password) in cases {
        for flag in ["required", "REQUIRED", "sufficient"] {
            let read = sasl(&format!("{PLAIN} {flag} {options}"), &[mechanism("PLAIN")]).unwrap();
            assert_eq!(read.username.as_deref(), Some(username));
            assert_eq!(read.password.as_ref().map(Secret::reveal), Some(password));
            assert!(!read.delegation_token);
        }
    }
}

#[test]
fn modules_are_converted_to_options() {
    let scram = format!("kafkashaded.{SCRAM} required username=\"id\" password=\"h\" tokenauth=\"true\";");
    let scram = sasl(&scram, &[mechanism("SCRAM-SHA-512")]).unwrap();
    assert!(scram.delegation_token && scram.username.as_deref() == Some("id"));

    let oauth = format!(
        "{OAUTH} required clientId=\"me\" clientSecret=\"s\" scope=\"all\" extension_logicalCluster=\"lkc-1\" \
             unsecuredLoginStringClaim_sub=\"alice\";"
    );
    let oauth = sasl(&oauth, &[mechanism("OAUTHBEARER")]).unwrap().oauth;
    assert_eq!((oauth.client_id.as_deref(), oauth.scope.as_deref()), (Some("me"), Some("all")));
    assert_eq!(oauth.client_secret.as_ref().map(Secret::reveal), Some("s"));
    assert_eq!(oauth.extensions, [("logicalCluster".to_owned(), "lkc-1".to_owned())]);
    assert_eq!(oauth.unsecured_login, [("StringClaim_sub".to_owned(), "alice".to_owned())]);

    let krb5 = format!(
        "{KRB5} required useKeyTab=true storeKey=true keyTab=\"file:/etc/a.keytab\" principal=\"a@R\" serviceName=\"k\";"
    );
    let krb5 = sasl(&krb5, &[]).unwrap().kerberos;
    assert_eq!(krb5.keytab, Some(PathBuf::from("/etc/a.keytab")));
    assert_eq!((krb5.principal.as_deref(), krb5.service_name.as_str()), (Some("a@R"), "k"));
    let cache = sasl(&format!("{KRB5} required useTicketCache=true;"), &[]).unwrap();
    assert_eq!(cache.kerberos.keytab, None);

    let iam = format!("shadedmskiam.{IAM} required awsProfileName=\"dev\";");
    let iam = sasl(&iam, &[mechanism("AWS_MSK_IAM")]).unwrap();
    assert_eq!(iam.aws, [("awsProfileName".to_owned(), Secret::from("dev".to_owned()))]);
}

#[test]
fn rejects_invalid_entries_without_secrets() {
    const P: (&str, &str) = ("sasl.mechanism", "PLAIN");
    let cases: &[(&str, &[(&str, &str)], &str)] = &[
        (
            "{PLAIN} required username=\"hunter\" password=\"hunter2\";",
            &[],
            "not given, which stands for GSSAPI: set sasl.mechanism=PLAIN",
        ),
        (
            "{SCRAM} required username=\"u\" password=\"hunter2\";",
            &[P],
            "set sasl.mechanism=SCRAM-SHA-256 or SCRAM-SHA-512",
        ),
        (
            "{PLAIN} required username=\"u\" password=\"hunter2\";",
            &[P, ("sasl.username", "x")],
            "username is given twice: there and by option sasl.username",
        ),
        (
            "{PLAIN} required username=\"u\" password=\"hunter2\";",
            &[P, ("sasl.password", "x")],
            "password is given twice",
        ),
        ("{PLAIN} required password=\"hunter2\" password=\"hunter2\";", &[P], "password is given twice"),
        ("{PLAIN} required password=\"hunter2\"", &[P], "semicolon"),
        ("{PLAIN} required password=\"hunter2;", &[P], "no end on its line"),
        ("{PLAIN} required password=\"hun\nter2\";", &[P], "no end on its line"),
        ("{PLAIN} required password=\"hun\"ter2\" x=\";", &[P], "quotes"),
        (
            "{PLAIN} required password=\"hun\"hunter2=\"x\";",
            &[P],
            "option 2 of PlainLoginModule is not one of the known options: username, password",
        ),
        ("{PLAIN} required password=;", &[P], "has no value"),
        ("{PLAIN} required =\"hunter2\";", &[P], "not name=\"value\""),
        ("{PLAIN} password=\"hunter2\";", &[P], "`required` must follow"),
        ("{PLAIN} required password=\"hunter2\"; {PLAIN} required;", &[P], "more than one login module"),
        ("{PLAIN} required /* hunter2", &[P], "a comment has no end"),
        ("hunter2", &[P], "does not begin with the name of a login module"),
        ("\"hunter2\"", &[P], "must begin with the name of a login module"),
        (
            "com.sun.security.auth.module.JndiLoginModule required user.provider.url=\"ldap://hunter2\";",
            &[P],
            "JndiLoginModule is not supported",
        ),
        ("evil.{PLAIN} required;", &[P], "is not supported"),
        ("{KRB5} required useKeyTab=true;", &[], "useKeyTab=true needs keyTab"),
        ("{KRB5} required keyTab=\"/k\";", &[], "keyTab needs useKeyTab=true"),
        ("{KRB5} required principal=\"hunter2\";", &[], "or useTicketCache=true"),
        ("{KRB5} required useKeyTab=\"hunter2\";", &[], "useKeyTab must be true or false"),
        ("{KRB5} required useKeyTab=true keyTab=\"/k\";", &[("sasl.kerberos.keytab", "/k")], "keyTab is given twice"),
        ("{KRB5} required useTicketCache=true ticketCache=\"/c\";", &[], "KRB5CCNAME"),
        ("{KRB5} required useTicketCache=true isInitiator=false;", &[], "for brokers"),
    ];
    for (text, more, expected) in cases {
        let text = text.replace("{PLAIN}", PLAIN).replace("{SCRAM}", SCRAM).replace("{KRB5}", KRB5);
        let error = sasl(&text, more).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(NAME), "{text}: {error}");
        assert!(!error.contains("hunter2") && !error.contains("ter2"), "{error}");
    }
}
