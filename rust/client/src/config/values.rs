//! Checked values by name.

use std::collections::BTreeMap;
use std::time::Duration;

use zeroize::Zeroize;

use super::ClientKind;
use super::table::{Kind, OPTIONS, OptionSpec};
use crate::error::Error;
use crate::secret::Secret;

/// Checked values by name.
#[derive(Default)]
pub(super) struct Values {
    pub(super) texts: BTreeMap<&'static str, String>,
    pub(super) given: BTreeMap<&'static str, Given>,
}

/// How an option was given.
pub(super) struct Given {
    /// Its name, in the user's spelling.
    pub(super) spelled: String,
    /// Whether a provider had the value, or a part of it.
    pub(super) kept_elsewhere: bool,
}

impl Drop for Values {
    fn drop(&mut self) {
        self.texts.values_mut().for_each(Zeroize::zeroize);
    }
}

impl Values {
    /// Whether the user gave it, whatever it is.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The name in the user's spelling.
    pub(super) fn spelled<'a>(&'a self, name: &'a str) -> &'a str {
        self.given.get(name).map_or(name, |given| &given.spelled)
    }

    /// The error without the values that providers had.
    pub(super) fn masked(&self, error: Error) -> Error {
        let Error::Configuration(mut text) = error else { return error };
        for spec in OPTIONS.iter().filter(|spec| matches!(spec.kind, Kind::Text | Kind::List | Kind::Path)) {
            if !self.given.get(spec.name).is_some_and(|given| given.kept_elsewhere) {
                continue;
            }
            let value = self.text(spec.name);
            let escaped = value.escape_debug().to_string();
            for shown in [value, &escaped].into_iter().filter(|shown| !shown.is_empty()) {
                text = text.replace(shown, Secret::MASK);
            }
        }
        Error::Configuration(text)
    }

    /// The given value or the default.
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
        let mine = OPTIONS.iter().filter(|spec| spec.clients.contains(&kind));
        let elsewhere = |spec: &OptionSpec| self.given.get(spec.name).is_some_and(|given| given.kept_elsewhere);
        let shown = |spec: &OptionSpec| match self.text(spec.name) {
            text if !text.is_empty() && (spec.kind == Kind::Secret || elsewhere(spec)) => Secret::MASK.to_owned(),
            text => text.to_owned(),
        };
        let chosen = api_versions.iter().map(|(api, version)| (format!("api.version.{api}"), version.to_string()));
        mine.map(|spec| (spec.name.to_owned(), shown(spec))).chain(chosen).collect()
    }

    pub(super) fn given(&self, name: &str) -> Option<String> {
        Some(self.text(name).to_owned()).filter(|text| !text.is_empty())
    }
}
