//! The order in which sources of AWS credentials are tried: that of the AWS SDK for Java 2.

use super::process::run;
use super::profiles::{Profile, Profiles};
use super::requests::Environment;
use super::sts::{self, Role};
use super::{AwsCredentials, Found, NAME, metadata, sso};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Maximum number of profiles that refer to each other by `source_profile`.
const MAX_PROFILES: usize = 8;

/// A chain of sources, and the profile and role that options select.
#[derive(Debug)]
pub(super) struct Chain {
    environment: Environment,
    profile: Option<String>,
    role: Option<Role>,
}

impl Chain {
    pub(super) fn new(
        options: &[(String, Secret)],
        get: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let option =
            |wanted: &str| options.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.reveal().to_owned());
        let role = option("awsRoleArn").map(|arn| Role {
            arn,
            session: option("awsRoleSessionName"),
            external_id: option("awsRoleExternalId"),
            duration: None,
            region: option("awsStsRegion"),
        });
        Self { environment: Environment::new(get), profile: option("awsProfileName"), role }
    }

    /// Returns the credentials of environment variables, unless options select others.
    pub(super) fn environment(&self) -> Result<Option<AwsCredentials>> {
        match (&self.profile, &self.role) {
            (None, None) => from_environment(&self.environment),
            _ => Ok(None),
        }
    }

    /// Looks up credentials.
    pub(super) async fn find(&self) -> Result<Found> {
        let base = match &self.profile {
            Some(name) => {
                let profiles = Profiles::read(&self.environment).await?;
                let found = self.of_profile(&profiles, name).await?;
                found.ok_or_else(|| failed(format!("profile {name} has none: {}", profiles.places())))?
            }
            None => self.default_chain().await?,
        };
        match &self.role {
            Some(role) => {
                let profiles = Profiles::read(&self.environment).await?;
                let profile = profiles.find(self.profile_name().as_str());
                let region = profile.and_then(|profile| profile.get("region").map(str::to_owned));
                sts::assume(&self.environment, role, region, &base.credentials).await
            }
            None => Ok(base),
        }
    }

    fn profile_name(&self) -> String {
        let set = || self.environment.get("AWS_PROFILE").or_else(|| self.environment.get("AWS_DEFAULT_PROFILE"));
        self.profile.clone().or_else(set).unwrap_or_else(|| "default".to_owned())
    }

    async fn default_chain(&self) -> Result<Found> {
        let environment = &self.environment;
        let mut tried = Vec::new();
        if let Some(credentials) = from_environment(environment)? {
            return Ok(Found { credentials, expires: None });
        }
        tried.push("environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set".to_owned());

        match (environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"), environment.get("AWS_ROLE_ARN")) {
            (Some(file), Some(arn)) => {
                let session = environment.get("AWS_ROLE_SESSION_NAME");
                let role = Role { arn, session, ..Role::default() };
                return sts::assume_with_web_identity(environment, &role, None, &file).await;
            }
            (Some(_), None) => return Err(failed("AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not")),
            (None, _) => tried.push("web identity: AWS_WEB_IDENTITY_TOKEN_FILE is not set".to_owned()),
        }

        let profiles = Profiles::read(environment).await?;
        let name = self.profile_name();
        if name != "default" || profiles.find(&name).is_some() {
            if let Some(found) = self.of_profile(&profiles, &name).await? {
                return Ok(found);
            }
            tried.push(format!("profile {name}: it has no credentials ({})", profiles.places()));
        } else {
            tried.push(format!("profile default: {}", profiles.places()));
        }

        match metadata::container(environment).await? {
            Ok(found) => return Ok(found),
            Err(reason) => tried.push(format!("container: {reason}")),
        }
        match metadata::instance(environment).await? {
            Ok(found) => Ok(found),
            Err(reason) => {
                tried.push(format!("instance metadata: {reason}"));
                Err(failed(format!("there are none in any of these sources: {}", tried.join("; "))))
            }
        }
    }

    /// Returns the credentials of a profile, or `None` if it has none.
    async fn of_profile(&self, profiles: &Profiles, name: &str) -> Result<Option<Found>> {
        // Roles are assumed in the reverse order, the first one with the credentials of the last profile.
        let mut roles: Vec<(Role, Option<String>)> = Vec::new();
        let mut profile = profiles.require(name)?;
        let mut found = loop {
            let Some(arn) = profile.get("role_arn") else { break self.without_role(profile).await? };
            if !roles.is_empty() && profile.has_keys() {
                break self.without_role(profile).await?;
            }
            if roles.len() >= MAX_PROFILES {
                return Err(profile.error(format!("more than {MAX_PROFILES} profiles follow it by source_profile")));
            }
            let role = profile.role(arn)?;
            let region = profile.get("region").map(str::to_owned);
            if let Some(file) = profile.get("web_identity_token_file") {
                break Some(sts::assume_with_web_identity(&self.environment, &role, region, file).await?);
            }
            roles.push((role, region));
            match (profile.get("source_profile"), profile.get("credential_source")) {
                (Some(source), None) if source == profile.name => {
                    if !profile.has_keys() {
                        return Err(profile.error("source_profile names the profile itself, which has no access key"));
                    }
                    break self.without_role(profile).await?;
                }
                (Some(source), None) => profile = profiles.require(source)?,
                (None, Some(source)) => break Some(self.of_source(profile, source).await?),
                _ => {
                    return Err(profile
                        .error("role_arn needs one of source_profile, credential_source and web_identity_token_file"));
                }
            }
        };
        for (role, region) in roles.into_iter().rev() {
            let Some(base) = &found else {
                return Err(profile.error("it has no credentials, with which a role is to be assumed"));
            };
            found = Some(sts::assume(&self.environment, &role, region, &base.credentials).await?);
        }
        Ok(found)
    }

    /// Returns the credentials of a profile, whose role is ignored.
    async fn without_role(&self, profile: &Profile) -> Result<Option<Found>> {
        if profile.get("sso_session").or(profile.get("sso_start_url")).is_some() {
            return sso::credentials(&self.environment, profile).await.map(Some);
        }
        if let Some(credentials) = profile.keys()? {
            return Ok(Some(Found { credentials, expires: None }));
        }
        match profile.get("credential_process") {
            Some(command) => run(&profile.name, command).await.map(Some),
            None => Ok(None),
        }
    }

    async fn of_source(&self, profile: &Profile, source: &str) -> Result<Found> {
        let found = match source {
            "Environment" => {
                let credentials = from_environment(&self.environment)?;
                credentials
                    .map(|credentials| Found { credentials, expires: None })
                    .ok_or_else(|| "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set".to_owned())
            }
            "EcsContainer" => metadata::container(&self.environment).await?,
            "Ec2InstanceMetadata" => metadata::instance(&self.environment).await?,
            _ => Err("it must be Environment, EcsContainer or Ec2InstanceMetadata".to_owned()),
        };
        found.map_err(|reason| profile.error(format!("credential_source={source}: {reason}")))
    }
}

/// Returns an error that no retry can change.
pub(super) fn failed(reason: impl Into<String>) -> Error {
    Error::authentication(NAME, reason)
}

fn from_environment(environment: &Environment) -> Result<Option<AwsCredentials>> {
    let (key_id, secret) = (environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY"));
    let missing = |name| failed(format!("environment variable {name} is missing"));
    match (key_id, secret) {
        (Some(key_id), Some(secret)) => {
            let token = environment.get("AWS_SESSION_TOKEN").or_else(|| environment.get("AWS_SECURITY_TOKEN"));
            Ok(Some(AwsCredentials { key_id, secret: secret.into(), token: token.map(Secret::from) }))
        }
        (Some(_), None) => Err(missing("AWS_SECRET_ACCESS_KEY")),
        (None, Some(_)) => Err(missing("AWS_ACCESS_KEY_ID")),
        (None, None) => Ok(None),
    }
}
