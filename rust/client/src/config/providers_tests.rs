//! Tests that references to environment variables, files and directories are resolved, and that errors are clear.

use super::*;

fn providers(list: &str, settings: &[(&str, &str)]) -> Result<Providers> {
    Providers::new(list, settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

fn resolve(providers: &Providers, text: &str) -> Result<String> {
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
fn references_are_resolved_once() {
    let folder = Folder::new("replaced");
    let (secrets, open) = (folder.path("open/secrets.properties"), folder.path("open"));
    let all = providers("env, file ,dir", &[("dir.class", "DirectoryConfigProvider")]).unwrap();
    for (text, expected) in [
        (format!("${{file:{secrets}:password}}"), "s3cr3t ä".to_owned()),
        (format!("<${{file:{secrets}:user}}:${{dir:{open}:token}}>"), "<alice:from a file>".into()),
        (format!("${{${{file:{secrets}:user}}"), "${alice".into()),
        ("${env:CARGO_PKG_NAME}".into(), "samsarrow-client".into()),
        ("plain $ { } ${} ${x} }".into(), "plain $ { } ${} ${x} }".into()),
        ("a${vault:/x:y}b${env:CARGO_PKG_NAME}".into(), "a${vault:/x:y}bsamsarrow-client".into()),
    ] {
        assert_eq!(resolve(&all, &text).unwrap(), expected, "{text}");
    }
    std::fs::write(folder.0.join("open/again"), "${env:HOME}").unwrap();
    assert_eq!(resolve(&all, &format!("${{dir:{open}:again}}")).unwrap(), "${env:HOME}");
    let none = Providers::default();
    assert_eq!(resolve(&none, "${env:HOME}").unwrap(), "${env:HOME}", "nothing is resolved without config.providers");
}

#[test]
fn errors_name_option_provider_and_key() {
    let folder = Folder::new("errors");
    let (open, closed) = (folder.path("open"), folder.path("closed"));
    std::fs::write(folder.0.join("open/latin"), [0xe4]).unwrap();
    std::fs::write(folder.0.join("open/huge"), vec![b'x'; MAX_BYTES as usize + 1]).unwrap();
    let settings = [("env.param.allowlist.pattern", "KAFKA_.*|CARGO"), ("file.param.allowed.paths", open.as_str())];
    let some = providers("env,file,directory", &settings).unwrap();
    for (text, expected) in [
        ("${env:KAFKA_NO_SUCH}".into(), "provider env has no KAFKA_NO_SUCH: there is no such environment variable"),
        ("${env:XKAFKA_A}".into(), "provider env must not give XKAFKA_A: config.providers.env.param.allowlist"),
        ("${env:CARGO_PKG_NAME}".into(), "must not give CARGO_PKG_NAME"),
        ("${env:/x:KAFKA_A}".into(), "provider env takes no path: write ${env:KAFKA_A}"),
        ("${env:}".into(), "provider env needs a key"),
        ("${file:k}".into(), "provider file needs a path"),
        ("${file:a/b:k}".into(), "provider file needs an absolute path, not a/b"),
        (format!("${{file:{closed}:password}}"), "provider file must not read "),
        (format!("${{file:{open}/../closed:password}}"), "provider file must not read "),
        (format!("${{file:{open}x/y:password}}"), "provider file must not read "),
        (format!("${{file:{open}/none:k}}"), "No such file"),
        (format!("${{file:{open}:k}}"), "it is not a regular file"),
        (format!("${{file:{open}/latin:k}}"), "it is not UTF-8"),
        (format!("${{file:{open}/huge:k}}"), "it is larger than 1048576 bytes"),
        (format!("${{file:{open}/secrets.properties:k}}"), "provider file finds no k in "),
        (format!("${{directory:{open}:../closed}}"), "is not the name of a file"),
        (format!("${{directory:{open}:..}}"), "is not the name of a file"),
        ("${directory:/dev:null}".into(), "it is not a regular file"),
    ] {
        let error = resolve(&some, &text).unwrap_err().to_string();
        assert!(error.starts_with("option sasl.password: provider ") && error.contains(expected), "{text}: {error}");
        assert!(!error.contains("s3cr3t") && !error.contains("not for you"), "{error}");
    }
}

#[test]
fn supports_kafkas_providers_only() {
    let error_of = |list: &str, settings: &[(&str, &str)]| providers(list, settings).unwrap_err().to_string();
    let class = "org.apache.kafka.common.config.provider.FileConfigProvider";
    assert_eq!(providers("x", &[("x.class", class)]).unwrap().0.values().next().unwrap().source, Source::File);
    assert!(error_of("vault", &[]).contains("set config.providers.vault.class to env (org.apache.kafka"));
    assert!(
        error_of("v", &[("v.class", "com.example.Vault")]).contains("config.providers.v.class=com.example.Vault is no")
    );
    assert!(error_of("env,env", &[]).contains("names provider env twice"));
    assert!(error_of("env", &[("file.class", class)]).contains("describes provider file, which config.providers does"));
    assert!(error_of("env", &[("env.param.lunch", "")]).contains("config.providers.env.param.lunch is unknown"));
    assert!(error_of("env", &[("env.param.allowed.paths", "/")]).contains("has no effect for a provider of kind env"));
    assert!(error_of("env", &[("env.param.allowlist.pattern", "(")]).contains("is not a regular expression"));
    assert!(error_of("file", &[("file.param.allowed.paths", "etc")]).contains("etc is not absolute"));
    assert!(error_of("file", &[("file.param.allowed.paths", "/no/such")]).contains("/no/such does not exist"));
}

#[test]
fn detects_references() {
    assert!(looks_like_a_reference("a ${env:B}"));
    assert!(
        !looks_like_a_reference("${vault:B}") && !looks_like_a_reference("${env:}") && !looks_like_a_reference("$")
    );
}
