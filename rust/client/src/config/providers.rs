//! Config providers: `${provider:path:key}` references in option values (KIP-297, KIP-421, KIP-993).
//!
//! References are resolved only if `config.providers` is set (CVE-2024-31141). Resolved values are not searched for
//! further references, and no error contains a resolved value.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use regex::Regex;
use zeroize::{Zeroize, Zeroizing};

use super::properties;
use super::value::OptionValue;
use crate::error::{Error, Result};

/// Name of the option that lists providers. It is also the prefix of the options that configure them.
pub(super) const NAME: &str = "config.providers";

/// Environment variable that lists the kinds of providers allowed in this process. If it is not set, all kinds are
/// allowed.
const ALLOWED: &str = "SAMSARROW_CONFIG_PROVIDERS";

/// Maximum size of a file: larger than any password, key or certificate store in text form.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Env,
    File,
    Directory,
}

impl Source {
    const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Env, "env", "org.apache.kafka.common.config.provider.EnvVarConfigProvider"),
        (Self::File, "file", "org.apache.kafka.common.config.provider.FileConfigProvider"),
        (Self::Directory, "directory", "org.apache.kafka.common.config.provider.DirectoryConfigProvider"),
    ];

    fn named(text: &str) -> Option<Self> {
        let matches_class = |class: &str| class == text || class.rsplit('.').next() == Some(text);
        Self::ALL.iter().find(|(_, name, class)| *name == text || matches_class(class)).map(|(source, ..)| *source)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(source, ..)| *source == self).map_or("", |(_, name, _)| name)
    }
}

#[derive(Debug)]
struct Provider {
    source: Source,
    /// Paths of files and directories that may be read; `None` for any.
    paths: Option<Vec<PathBuf>>,
    /// Pattern that matches the environment variables that may be read; `None` for any.
    names: Option<Regex>,
}

/// The providers of one client.
#[derive(Debug, Default)]
pub(super) struct Providers(BTreeMap<String, Provider>);

impl Providers {
    /// Creates the providers named in `list`, the value of `config.providers`. `settings` are the options with that
    /// prefix.
    pub(super) fn new(list: &str, mut settings: BTreeMap<String, String>) -> Result<Self> {
        let mut providers = BTreeMap::new();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let class = settings.remove(&format!("{name}.class"));
            let kind = parse_source(name, class.as_deref())?;
            let paths = settings.remove(&format!("{name}.param.allowed.paths")).filter(|text| !text.trim().is_empty());
            let names = settings.remove(&format!("{name}.param.allowlist.pattern"));
            let unsupported_param = match kind {
                Source::Env => paths.as_ref().map(|_| "allowed.paths"),
                Source::File | Source::Directory => names.as_ref().map(|_| "allowlist.pattern"),
            };
            if let Some(param) = unsupported_param {
                return Err(Error::configuration(format!(
                    "option {NAME}.{name}.param.{param} has no effect for a provider of kind {}: leave it out",
                    kind.name()
                )));
            }
            let paths = paths.map(|text| allowed_paths(name, &text)).transpose()?;
            let names = names.map(|text| allowed_names(name, &text)).transpose()?;
            if providers.insert(name.to_owned(), Provider { source: kind, paths, names }).is_some() {
                return Err(Error::configuration(format!("option {NAME} names provider {name} twice")));
            }
        }
        if let Some(rest) = settings.keys().next() {
            let known = ["class", "param.allowed.paths", "param.allowlist.pattern"];
            let provider = known.iter().find_map(|end| rest.strip_suffix(end)?.strip_suffix('.'));
            return Err(Error::configuration(match provider {
                Some(name) => format!("option {NAME}.{rest} describes provider {name}, which {NAME} does not name"),
                None => format!(
                    "option {NAME}.{rest} is unknown; of a provider there are class, param.allowed.paths and \
                     param.allowlist.pattern"
                ),
            }));
        }
        Ok(Self(providers))
    }

    /// Resolves the references in the value of `option`. Returns the resolved value, and true if it contained
    /// references.
    pub(super) fn resolve(&self, option: &str, value: OptionValue) -> Result<(OptionValue, bool)> {
        let OptionValue::Str(text) = &value else { return Ok((value, false)) };
        if self.0.is_empty() {
            return Ok((value, false));
        }
        let (mut resolved, mut rest, mut has_references) = (Zeroizing::new(String::new()), text.as_str(), false);
        while let Some((before, reference, after)) = next_reference(rest) {
            // As in Java, a reference to an unknown provider stays in the value as text. No warning quotes the
            // reference, because it may be part of a password.
            match self.0.get(reference.provider) {
                Some(provider) => {
                    resolved.push_str(before);
                    resolved.push_str(&provider.get(option, &reference)?);
                    has_references = true;
                }
                None => resolved.push_str(rest.strip_suffix(after).unwrap_or(rest)),
            }
            rest = after;
        }
        resolved.push_str(rest);
        if !has_references {
            return Ok((value, false));
        }
        let resolved = OptionValue::Str(std::mem::take(&mut resolved));
        Ok((resolved, true))
    }
}

/// Returns true if `text` contains a reference to a provider of a known kind.
pub(super) fn looks_like_a_reference(text: &str) -> bool {
    next_reference(text).is_some_and(|(_, reference, _)| {
        Source::ALL.iter().any(|(_, name, _)| *name == reference.provider) && !reference.key.is_empty()
    })
}

struct Reference<'a> {
    provider: &'a str,
    path: &'a str,
    key: &'a str,
}

/// Finds the first `${provider:path:key}` or `${provider:key}`. Returns the text before it, the reference, and the text
/// after it.
fn next_reference(text: &str) -> Option<(&str, Reference<'_>, &str)> {
    let mut searched = 0;
    loop {
        let tail = text.get(searched..)?;
        let close = searched + tail.find('}')?;
        let open = text.get(searched..close)?.rfind("${").map(|index| searched + index);
        searched = close + 1;
        let Some(open) = open else { continue };
        let inner = text.get(open + 2..close)?;
        if let Some((provider, rest)) = inner.split_once(':') {
            let (path, key) = rest.split_once(':').unwrap_or(("", rest));
            return Some((text.get(..open)?, Reference { provider, path, key }, text.get(close + 1..)?));
        }
    }
}

impl Provider {
    fn get(&self, option: &str, reference: &Reference<'_>) -> Result<Zeroizing<String>> {
        let Reference { provider, path, key } = reference;
        let error = |problem: String| Error::configuration(format!("option {option}: provider {provider} {problem}"));
        if key.is_empty() {
            return Err(error("needs a key: write ${provider:key} or ${provider:/path:key}".into()));
        }
        match self.source {
            Source::Env => {
                if !path.is_empty() {
                    return Err(error(format!("takes no path: write ${{{provider}:{key}}}")));
                }
                if self.names.as_ref().is_some_and(|names| !names.is_match(key)) {
                    return Err(error(format!(
                        "must not give {key}: {NAME}.{provider}.param.allowlist.pattern does not match it"
                    )));
                }
                let value = std::env::var_os(key)
                    .ok_or_else(|| error(format!("has no {key}: there is no such environment variable here")))?;
                let value = value.into_string().map_err(|_| error(format!("has a {key} that is not UTF-8")))?;
                Ok(Zeroizing::new(value))
            }
            Source::File => {
                let path = self.checked_path(path).map_err(error)?;
                let text = read(&path).map_err(|why| error(format!("cannot read {}: {why}", path.display())))?;
                let found = properties::lookup(&text, key);
                let found = found.map_err(|why| error(format!("cannot read {} of {}: {why}", key, path.display())))?;
                found.ok_or_else(|| error(format!("finds no {key} in {}", path.display())))
            }
            Source::Directory => {
                if Path::new(key).components().count() != 1 || key.contains('/') || matches!(*key, "." | "..") {
                    return Err(error(format!("cannot read {key:?}, which is not the name of a file in a directory")));
                }
                let path = self.checked_path(path).map_err(error)?.join(key);
                let mut text = read(&path).map_err(|why| error(format!("cannot read {}: {why}", path.display())))?;
                // Editors and `echo` append a line end, which is not part of the value.
                let kept =
                    text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
                let length = kept.len();
                text.truncate(length);
                Ok(text)
            }
        }
    }

    /// Returns the normalized path if it is allowed. Because `..` is resolved first, it cannot lead out of the allowed
    /// paths.
    fn checked_path(&self, path: &str) -> std::result::Result<PathBuf, String> {
        if path.is_empty() {
            return Err("needs a path: write ${provider:/path:key}".into());
        }
        let path = Path::new(path);
        if !path.is_absolute() {
            return Err(format!("needs an absolute path, not {}", path.display()));
        }
        let path = normalize(path);
        match &self.paths {
            Some(roots) if !roots.iter().any(|root| path.starts_with(root)) => {
                let roots: Vec<_> = roots.iter().map(|root| root.display().to_string()).collect();
                Err(format!("must not read {}: param.allowed.paths is {}", path.display(), roots.join(",")))
            }
            _ => Ok(path),
        }
    }
}

fn parse_source(name: &str, class: Option<&str>) -> Result<Source> {
    let known = || {
        let classes: Vec<_> = Source::ALL.iter().map(|(_, name, class)| format!("{name} ({class})")).collect();
        classes.join(", ")
    };
    let source = match class {
        Some(class) => Source::named(class.trim()).ok_or_else(|| {
            Error::configuration(format!(
                "option {NAME}.{name}.class={class} is no provider that this client supports; supported are {}",
                known()
            ))
        })?,
        None => Source::named(name).ok_or_else(|| {
            Error::configuration(format!("option {NAME} names provider {name}: set {NAME}.{name}.class to {}", known()))
        })?,
    };
    let permitted = std::env::var(ALLOWED);
    match permitted {
        Ok(list) if !list.split(',').any(|kind| kind.trim() == source.name()) => Err(Error::configuration(format!(
            "option {NAME}: provider {name} is of kind {}, which the environment variable {ALLOWED}={list} does not allow \
             in this process",
            source.name()
        ))),
        _ => Ok(source),
    }
}

fn allowed_paths(name: &str, text: &str) -> Result<Vec<PathBuf>> {
    let option = format!("{NAME}.{name}.param.allowed.paths");
    let parse_path = |part: &str| {
        let path = Path::new(part);
        if !path.is_absolute() {
            return Err(Error::configuration(format!("option {option}: {part} is not absolute")));
        }
        if !path.exists() {
            return Err(Error::configuration(format!("option {option}: {part} does not exist")));
        }
        Ok(normalize(path))
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(parse_path).collect()
}

fn allowed_names(name: &str, text: &str) -> Result<Regex> {
    Regex::new(&format!("^(?:{text})$")).map_err(|_| {
        Error::configuration(format!(
            "option {NAME}.{name}.param.allowlist.pattern: {text:?} is not a regular expression"
        ))
    })
}

/// Resolves `.` and `..` in a path.
fn normalize(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(normalized.pop()),
            other => normalized.push(other),
        }
    }
    normalized
}

fn read(path: &Path) -> std::result::Result<Zeroizing<String>, String> {
    // Only regular files are read, because reading a pipe would block.
    if !std::fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a regular file".into());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    String::from_utf8(std::mem::take(&mut bytes)).map(Zeroizing::new).map_err(|error| {
        error.into_bytes().zeroize();
        "it is not UTF-8".into()
    })
}

#[cfg(test)]
#[path = "providers_tests.rs"]
mod tests;
