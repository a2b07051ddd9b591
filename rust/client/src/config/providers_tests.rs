//! References to environment, files and folders, and what is wrong with them.

use super::*;

fn providers(list: &str, given: &[(&str, &str)]) -> Result<Providers> {
    Providers::new(list, given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

fn resolved(providers: &Providers, text: &str) -> Result<String> {
    match providers.resolve("sasl.password", OptionValue::Str(text.into()))?.0 {
        OptionValue::Str(text) => Ok(text),
        other => panic!("{other:?}"),
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("samsarrow-providers-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("open")).unwrap();
        std::fs::write(path.join("open/secrets.properties"), "user=alice\npassword = s3cr3t \\u00e4\n").unwrap();
        std::fs::write(path.join("open/token"), "from a file\n").unwrap();
        std::fs::write(path.join("closed"), "password=not for you").unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn references_are_replaced_once() {
    let folder = Folder::new("replaced");
    let (secrets, open) = (folder.path("open/secrets.properties"), folder.path("open"));
    let all = providers("env, file ,dir", &[("dir.class", "DirectoryConfigProvider")]).unwrap();
    for (given, wanted) in [
        (format!("${{file:{secrets}:password}}"), "s3cr3t ä".to_owned()),
        (format!("<${{file:{secrets}:user}}:${{dir:{open}:token}}>"), "<alice:from a file>".into()),
        (format!("${{${{file:{secrets}:user}}"), "${alice".into()),
        ("${env:CARGO_PKG_NAME}".into(), "samsarrow-client".into()),
        ("plain $ { } ${} ${x} }".into(), "plain $ { } ${} ${x} }".into()),
        ("a${vault:/x:y}b${env:CARGO_PKG_NAME}".into(), "a${vault:/x:y}bsamsarrow-client".into()),
    ] {
        assert_eq!(resolved(&all, &given).unwrap(), wanted, "{given}");
    }
    std::fs::write(folder.0.join("open/again"), "${env:HOME}").unwrap();
    assert_eq!(resolved(&all, &format!("${{dir:{open}:again}}")).unwrap(), "${env:HOME}");
    let none = Providers::default();
    assert_eq!(resolved(&none, "${env:HOME}").unwrap(), "${env:HOME}", "nothing is read that was not asked for");
}

#[test]
fn errors_name_option_provider_and_key() {
    let folder = Folder::new("errors");
    let (open, closed) = (folder.path("open"), folder.path("closed"));
    std::fs::write(folder.0.join("open/latin"), [0xe4]).unwrap();
    std::fs::write(folder.0.join("open/huge"), vec![b'x'; MOST_BYTES as usize + 1]).unwrap();
    let given = [("env.param.allowlist.pattern", "KAFKA_.*|CARGO"), ("file.param.allowed.paths", open.as_str())];
    let some = providers("env,file,directory", &given).unwrap();
    for (given, wanted) in [
        ("${env:KAFKA_NO_SUCH}".into(), "provider env has no KAFKA_NO_SUCH: there is no such environment variable"),
        ("${env:XKAFKA_A}".into(), "provider env must not give XKAFKA_A: config.providers.env.param.allowlist"),
        ("${env:CARGO_PKG_NAME}".into(), "must not give CARGO_PKG_NAME"),
        ("${env:/x:KAFKA_A}".into(), "provider env takes no path: write ${env:KAFKA_A}"),
        ("${env:}".into(), "provider env is asked for no key"),
        ("${file:k}".into(), "provider file needs a path"),
        ("${file:a/b:k}".into(), "provider file needs an absolute path, not a/b"),
        (format!("${{file:{closed}:password}}"), "provider file must not read "),
        (format!("${{file:{open}/../closed:password}}"), "provider file must not read "),
        (format!("${{file:{open}x/y:password}}"), "provider file must not read "),
        (format!("${{file:{open}/none:k}}"), "No such file"),
        (format!("${{file:{open}:k}}"), "it is no regular file"),
        (format!("${{file:{open}/latin:k}}"), "it is not UTF-8"),
        (format!("${{file:{open}/huge:k}}"), "it is larger than 1048576 bytes"),
        (format!("${{file:{open}/secrets.properties:k}}"), "provider file finds no k in "),
        (format!("${{directory:{open}:../closed}}"), "is not the name of a file"),
        (format!("${{directory:{open}:..}}"), "is not the name of a file"),
        ("${directory:/dev:null}".into(), "it is no regular file"),
    ] {
        let error = resolved(&some, &given).unwrap_err().to_string();
        assert!(error.starts_with("option sasl.password: provider ") && error.contains(wanted), "{given}: {error}");
        assert!(!error.contains("s3cr3t") && !error.contains("not for you"), "{error}");
    }
}

#[test]
fn providers_are_kafkas_own() {
    let fault = |list: &str, given: &[(&str, &str)]| providers(list, given).unwrap_err().to_string();
    let class = "org.apache.kafka.common.config.provider.FileConfigProvider";
    assert_eq!(providers("x", &[("x.class", class)]).unwrap().0.values().next().unwrap().source, Source::File);
    assert!(fault("vault", &[]).contains("set config.providers.vault.class to env (org.apache.kafka"));
    assert!(
        fault("v", &[("v.class", "com.example.Vault")]).contains("config.providers.v.class=com.example.Vault is no")
    );
    assert!(fault("env,env", &[]).contains("names provider env twice"));
    assert!(fault("env", &[("file.class", class)]).contains("describes provider file, which config.providers does"));
    assert!(fault("env", &[("env.param.lunch", "")]).contains("config.providers.env.param.lunch is unknown"));
    assert!(fault("env", &[("env.param.allowed.paths", "/")]).contains("means nothing to a provider of kind env"));
    assert!(fault("env", &[("env.param.allowlist.pattern", "(")]).contains("is no regular expression"));
    assert!(fault("file", &[("file.param.allowed.paths", "etc")]).contains("etc is not absolute"));
    assert!(fault("file", &[("file.param.allowed.paths", "/no/such")]).contains("/no/such does not exist"));
}

#[test]
fn what_looks_like_a_reference_is_noticed() {
    assert!(looks_like_a_reference("a ${env:B}"));
    assert!(
        !looks_like_a_reference("${vault:B}") && !looks_like_a_reference("${env:}") && !looks_like_a_reference("$")
    );
}
