//! Validated option values, by name.

use std::collections::BTreeMap;
use std::time::Duration;

use zeroize::Zeroize;

use super::ClientKind;
use super::table::{Kind, OPTIONS, OptionSpec};
use crate::error::Error;
use crate::secret::Secret;

/// Validated option values, by name.
#[derive(Default)]
pub(super) struct Values {
    pub(super) texts: BTreeMap<&'static str, String>,
    pub(super) set: BTreeMap<&'static str, Setting>,
}

/// An option set by the user.
pub(super) struct Setting {
    /// Name of the option as spelled by the user.
    pub(super) spelling: String,
    /// True if a config provider supplied the value or a part of it.
    pub(super) from_provider: bool,
}

impl Drop for Values {
    fn drop(&mut self) {
        self.texts.values_mut().for_each(Zeroize::zeroize);
    }
}

impl Values {
    /// Returns true if the user set the option to any value.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.set.contains_key(name)
    }

    /// Returns the name of the option as spelled by the user.
    pub(super) fn spelling<'a>(&'a self, name: &'a str) -> &'a str {
        self.set.get(name).map_or(name, |setting| &setting.spelling)
    }

    /// Masks values from config providers in the text of an error.
    pub(super) fn redact_provider_values(&self, error: Error) -> Error {
        let Error::Configuration(mut text) = error else { return error };
        for spec in OPTIONS.iter().filter(|spec| matches!(spec.kind, Kind::Text | Kind::List | Kind::Path)) {
            if !self.set.get(spec.name).is_some_and(|setting| setting.from_provider) {
                continue;
            }
            let value = self.text(spec.name);
            let escaped = value.escape_debug().to_string();
            for secret in [value, &escaped].into_iter().filter(|text| !text.is_empty()) {
                text = text.replace(secret, Secret::MASK);
            }
        }
        Error::Configuration(text)
    }

    /// Returns the value set by the user, otherwise the default.
    pub(super) fn text(&self, name: &str) -> &str {
        let default = || OPTIONS.iter().find(|spec| spec.name == name).map_or("", |spec| spec.default);
        self.texts.get(name).map_or_else(default, String::as_str)
    }

    pub(super) fn number<T: TryFrom<i64> + Default>(&self, name: &str) -> T {
        self.text(name).parse::<i64>().ok().and_then(|n| T::try_from(n).ok()).unwrap_or_default()
    }

    pub(super) fn millis(&self, name: &str) -> Duration {
        Duration::from_millis(self.number(name))
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    pub(super) fn effective(
        &self,
        kind: ClientKind,
        api_versions: &BTreeMap<&'static str, i16>,
    ) -> Vec<(String, String)> {
        let specs = OPTIONS.iter().filter(|spec| spec.clients.contains(&kind));
        let is_from_provider = |spec: &OptionSpec| self.set.get(spec.name).is_some_and(|setting| setting.from_provider);
        let displayed = |spec: &OptionSpec| match self.text(spec.name) {
            text if !text.is_empty() && (spec.kind == Kind::Secret || is_from_provider(spec)) => {
                Secret::MASK.to_owned()
            }
            text => text.to_owned(),
        };
        let configured_versions =
            api_versions.iter().map(|(api, version)| (format!("api.version.{api}"), version.to_string()));
        specs.map(|spec| (spec.name.to_owned(), displayed(spec))).chain(configured_versions).collect()
    }

    pub(super) fn non_empty(&self, name: &str) -> Option<String> {
        Some(self.text(name).to_owned()).filter(|text| !text.is_empty())
    }
}
