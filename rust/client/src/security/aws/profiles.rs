//! Profiles in the shared files of AWS: `~/.aws/credentials` and `~/.aws/config`.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use super::AwsCredentials;
use super::chain::failed;
use super::requests::Environment;
use super::sts::Role;
use crate::error::{Error, Result};
use crate::security::sasl::file::read_text;

/// Settings of a section, by their names in lower case.
type Settings = BTreeMap<String, String>;

/// A profile: its settings in both files, of which those of the credentials file take precedence.
#[derive(Debug)]
pub(super) struct Profile {
    pub(super) name: String,
    settings: Settings,
    /// Section `[sso-session …]` that the profile names.
    pub(super) session: Option<Settings>,
}

/// All profiles.
#[derive(Debug)]
pub(super) struct Profiles {
    profiles: Vec<Profile>,
    /// Both files, and whether they exist.
    places: String,
}

impl Profiles {
    /// Reads both files. A missing file has no profiles.
    pub(super) async fn read(environment: &Environment) -> Result<Self> {
        let file = |variable: &str, name: &str| match environment.get(variable) {
            Some(path) => match (path.strip_prefix("~/"), environment.home()) {
                (Some(rest), Some(home)) => Some((home.join(rest), true)),
                _ => Some((PathBuf::from(path), true)),
            },
            None => environment.home().map(|home| (home.join(".aws").join(name), false)),
        };
        let paths = [file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), file("AWS_CONFIG_FILE", "config")];
        let read = tokio::task::spawn_blocking(move || read_files(paths)).await;
        read.unwrap_or_else(|_| Err(Error::connection(super::NAME, "reading of the profiles was cancelled")))
    }

    /// Describes the files that were read.
    pub(super) fn places(&self) -> &str {
        &self.places
    }

    pub(super) fn find(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == name)
    }

    /// Returns a profile that must exist.
    pub(super) fn require(&self, name: &str) -> Result<&Profile> {
        self.find(name).ok_or_else(|| {
            let known: Vec<&str> = self.profiles.iter().map(|profile| &*profile.name).take(20).collect();
            let known =
                if known.is_empty() { "there are none".to_owned() } else { format!("there are {}", known.join(", ")) };
            failed(format!("profile {name} does not exist: {known} ({})", self.places))
        })
    }
}

impl Profile {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns an error about the profile.
    pub(super) fn error(&self, reason: impl AsRef<str>) -> Error {
        failed(format!("profile {}: {}", self.name, reason.as_ref()))
    }

    /// Returns true if the profile has an access key.
    pub(super) fn has_keys(&self) -> bool {
        self.get("aws_access_key_id").is_some()
    }

    /// Returns the access key of the profile, if it has one.
    pub(super) fn keys(&self) -> Result<Option<AwsCredentials>> {
        let Some(key_id) = self.get("aws_access_key_id") else { return Ok(None) };
        let secret = self.get("aws_secret_access_key");
        let secret = secret.ok_or_else(|| self.error("it has aws_access_key_id without aws_secret_access_key"))?;
        let token = self.get("aws_session_token").or(self.get("aws_security_token"));
        let token = token.map(|token| token.to_owned().into());
        Ok(Some(AwsCredentials { key_id: key_id.to_owned(), secret: secret.to_owned().into(), token }))
    }

    /// Returns the role of the profile.
    pub(super) fn role(&self, arn: &str) -> Result<Role> {
        if self.get("mfa_serial").is_some() {
            return Err(self.error(
                "mfa_serial needs a code that a client cannot enter: use credential_process or temporary credentials",
            ));
        }
        let duration = self.get("duration_seconds").map(|seconds| {
            seconds.parse::<u32>().map_err(|_| self.error(format!("duration_seconds must be a number, not {seconds}")))
        });
        let owned = |name| self.get(name).map(str::to_owned);
        Ok(Role {
            arn: arn.to_owned(),
            session: owned("role_session_name"),
            external_id: owned("external_id"),
            duration: duration.transpose()?,
            region: None,
        })
    }
}

/// Reads both files, each with whether a variable names it.
fn read_files([credentials, config]: [Option<(PathBuf, bool)>; 2]) -> Result<Profiles> {
    let mut places = Vec::new();
    let mut sections = |file: Option<(PathBuf, bool)>| -> Result<Vec<(String, Settings)>> {
        let Some((path, is_named)) = file else { return Ok(Vec::new()) };
        match read_text(&path) {
            Ok(text) => {
                places.push(format!("{} exists", path.display()));
                Ok(parse(&text))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                places.push(format!("{} does not exist", path.display()));
                Ok(Vec::new())
            }
            // HOME may be that of another user, as in containers.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_named => {
                places.push(format!("{} cannot be read: {error}", path.display()));
                Ok(Vec::new())
            }
            Err(error) => Err(failed(format!("{} cannot be read: {error}", path.display()))),
        }
    };
    let (credentials, config) = (sections(credentials)?, sections(config)?);
    if places.is_empty() {
        places.push("HOME is not set, so there are no files".to_owned());
    }
    let (mut all, mut sessions) = (BTreeMap::<String, Settings>::new(), BTreeMap::<String, Settings>::new());
    for (title, settings) in config {
        match title.split_once(char::is_whitespace) {
            None if title == "default" => all.entry(title).or_default().extend(settings),
            Some(("profile", name)) => all.entry(unquoted(name)).or_default().extend(settings),
            Some(("sso-session", name)) => sessions.entry(unquoted(name)).or_default().extend(settings),
            _ => (),
        }
    }
    for (title, settings) in credentials {
        all.entry(title).or_default().extend(settings);
    }
    let profile = |(name, settings): (String, Settings)| {
        let session = settings.get("sso_session").and_then(|name| sessions.get(name)).cloned();
        Profile { name, settings, session }
    };
    Ok(Profiles { profiles: all.into_iter().map(profile).collect(), places: places.join(", ") })
}

fn unquoted(name: &str) -> String {
    name.trim().trim_matches(['"', '\'']).to_owned()
}

/// Returns the sections of a file. Nested settings, which have more indentation than the setting before, are left out.
fn parse(text: &str) -> Vec<(String, Settings)> {
    let mut sections: Vec<(String, Settings)> = Vec::new();
    // Indentation of the settings of the section.
    let mut outer: Option<usize> = None;
    for line in text.trim_start_matches('\u{feff}').lines() {
        let indentation = line.len() - line.trim_start().len();
        let is_text = !line.trim_start().is_empty() && !line.trim_start().starts_with(['#', ';']);
        if !is_text || outer.is_some_and(|outer| indentation > outer) {
            continue;
        }
        outer = (!line.trim_start().starts_with('[')).then_some(indentation);
        if let Some(title) = line.trim().strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            sections.push((title.trim().to_owned(), Settings::new()));
        } else if let (Some((name, value)), Some((_, settings))) = (line.split_once('='), sections.last_mut()) {
            settings.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    sections
}
