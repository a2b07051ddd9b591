//! Values that are kept elsewhere: `${provider:path:key}` in options (KIP-297, KIP-421, KIP-993).
//!
//! Nothing is read unless `config.providers` is given (CVE-2024-31141), what is read is not looked at for further
//! references, and no error has a value in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use regex::Regex;
use zeroize::{Zeroize, Zeroizing};

use super::properties;
use super::value::OptionValue;
use crate::error::{Error, Result};

/// The option that names providers, and the beginning of those that describe them.
pub(super) const NAME: &str = "config.providers";

/// The environment variable that says which kinds of providers options may use in this process; without it all.
const ALLOWED: &str = "SAMSARROW_CONFIG_PROVIDERS";

/// More than any password, key or certificate store as text.
const MOST_BYTES: u64 = 1 << 20;

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
        let fits = |class: &str| class == text || class.rsplit('.').next() == Some(text);
        Self::ALL.iter().find(|(_, name, class)| *name == text || fits(class)).map(|(source, ..)| *source)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(source, ..)| *source == self).map_or("", |(_, name, _)| name)
    }
}

#[derive(Debug)]
struct Provider {
    source: Source,
    /// Of files and directories; `None` for any.
    paths: Option<Vec<PathBuf>>,
    /// Of environment variables; `None` for any.
    names: Option<Regex>,
}

/// The providers of one client.
#[derive(Debug, Default)]
pub(super) struct Providers(BTreeMap<String, Provider>);

impl Providers {
    /// Those that `given` describes: the value of `config.providers`, and the options that begin with it.
    pub(super) fn new(list: &str, mut given: BTreeMap<String, String>) -> Result<Self> {
        let mut providers = BTreeMap::new();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let class = given.remove(&format!("{name}.class"));
            let source = source(name, class.as_deref())?;
            let paths = given.remove(&format!("{name}.param.allowed.paths")).filter(|text| !text.trim().is_empty());
            let names = given.remove(&format!("{name}.param.allowlist.pattern"));
            let foreign = match source {
                Source::Env => paths.as_ref().map(|_| "allowed.paths"),
                Source::File | Source::Directory => names.as_ref().map(|_| "allowlist.pattern"),
            };
            if let Some(param) = foreign {
                return Err(Error::configuration(format!(
                    "option {NAME}.{name}.param.{param} means nothing to a provider of kind {}: leave it out",
                    source.name()
                )));
            }
            let paths = paths.map(|text| allowed_paths(name, &text)).transpose()?;
            let names = names.map(|text| allowed_names(name, &text)).transpose()?;
            if providers.insert(name.to_owned(), Provider { source, paths, names }).is_some() {
                return Err(Error::configuration(format!("option {NAME} names provider {name} twice")));
            }
        }
        if let Some(rest) = given.keys().next() {
            let known = ["class", "param.allowed.paths", "param.allowlist.pattern"];
            let whose = known.iter().find_map(|end| rest.strip_suffix(end)?.strip_suffix('.'));
            return Err(Error::configuration(match whose {
                Some(name) => format!("option {NAME}.{rest} describes provider {name}, which {NAME} does not name"),
                None => format!(
                    "option {NAME}.{rest} is unknown; of a provider there are class, param.allowed.paths and \
                     param.allowlist.pattern"
                ),
            }));
        }
        Ok(Self(providers))
    }

    /// The value of `option` with what its references stand for, and whether there were any.
    pub(super) fn resolve(&self, option: &str, value: OptionValue) -> Result<(OptionValue, bool)> {
        let OptionValue::Str(text) = &value else { return Ok((value, false)) };
        if self.0.is_empty() {
            return Ok((value, false));
        }
        let (mut resolved, mut rest, mut any) = (Zeroizing::new(String::new()), text.as_str(), false);
        while let Some((before, reference, after)) = next_reference(rest) {
            // As Java has it: what names no provider stands for itself. It may be part of a password, so it is not named.
            match self.0.get(reference.provider) {
                Some(provider) => {
                    resolved.push_str(before);
                    resolved.push_str(&provider.get(option, &reference)?);
                    any = true;
                }
                None => resolved.push_str(rest.strip_suffix(after).unwrap_or(rest)),
            }
            rest = after;
        }
        resolved.push_str(rest);
        if !any {
            return Ok((value, false));
        }
        let resolved = OptionValue::Str(std::mem::take(&mut resolved));
        Ok((resolved, true))
    }
}

/// Whether `text` has what a provider would be asked for, if there was one.
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

/// What is before the first `${provider:path:key}` or `${provider:key}`, its parts, and what is behind it.
fn next_reference(text: &str) -> Option<(&str, Reference<'_>, &str)> {
    let mut searched = 0;
    loop {
        let tail = text.get(searched..)?;
        let close = searched + tail.find('}')?;
        let open = text.get(searched..close)?.rfind("${").map(|at| searched + at);
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
        let fail = |what: String| Error::configuration(format!("option {option}: provider {provider} {what}"));
        if key.is_empty() {
            return Err(fail("is asked for no key: write ${provider:key} or ${provider:/path:key}".into()));
        }
        match self.source {
            Source::Env => {
                if !path.is_empty() {
                    return Err(fail(format!("takes no path: write ${{{provider}:{key}}}")));
                }
                if self.names.as_ref().is_some_and(|names| !names.is_match(key)) {
                    return Err(fail(format!(
                        "must not give {key}: {NAME}.{provider}.param.allowlist.pattern does not match it"
                    )));
                }
                let value = std::env::var_os(key)
                    .ok_or_else(|| fail(format!("has no {key}: there is no such environment variable here")))?;
                let value = value.into_string().map_err(|_| fail(format!("has a {key} that is not UTF-8")))?;
                Ok(Zeroizing::new(value))
            }
            Source::File => {
                let path = self.allowed(path).map_err(fail)?;
                let text = read(&path).map_err(|why| fail(format!("cannot read {}: {why}", path.display())))?;
                let found = properties::lookup(&text, key);
                let found = found.map_err(|why| fail(format!("cannot read {} of {}: {why}", key, path.display())))?;
                found.ok_or_else(|| fail(format!("finds no {key} in {}", path.display())))
            }
            Source::Directory => {
                if Path::new(key).components().count() != 1 || key.contains('/') || matches!(*key, "." | "..") {
                    return Err(fail(format!("is asked for {key:?}, which is not the name of a file in a directory")));
                }
                let path = self.allowed(path).map_err(fail)?.join(key);
                let mut text = read(&path).map_err(|why| fail(format!("cannot read {}: {why}", path.display())))?;
                // Editors and `echo` end files with a line end that belongs to no password.
                let kept =
                    text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
                let length = kept.len();
                text.truncate(length);
                Ok(text)
            }
        }
    }

    /// The path to open, which `..` does not lead out of where it may be.
    fn allowed(&self, path: &str) -> std::result::Result<PathBuf, String> {
        if path.is_empty() {
            return Err("needs a path: write ${provider:/path:key}".into());
        }
        let path = Path::new(path);
        if !path.is_absolute() {
            return Err(format!("needs an absolute path, not {}", path.display()));
        }
        let path = normal(path);
        match &self.paths {
            Some(allowed) if !allowed.iter().any(|root| path.starts_with(root)) => {
                let roots: Vec<_> = allowed.iter().map(|root| root.display().to_string()).collect();
                Err(format!("must not read {}: param.allowed.paths is {}", path.display(), roots.join(",")))
            }
            _ => Ok(path),
        }
    }
}

fn source(name: &str, class: Option<&str>) -> Result<Source> {
    let known = || {
        let classes: Vec<_> = Source::ALL.iter().map(|(_, name, class)| format!("{name} ({class})")).collect();
        classes.join(", ")
    };
    let source = match class {
        Some(class) => Source::named(class.trim()).ok_or_else(|| {
            Error::configuration(format!(
                "option {NAME}.{name}.class={class} is no provider that this client has: there are {}",
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
    let one = |part: &str| {
        let path = Path::new(part);
        if !path.is_absolute() {
            return Err(Error::configuration(format!("option {option}: {part} is not absolute")));
        }
        if !path.exists() {
            return Err(Error::configuration(format!("option {option}: {part} does not exist")));
        }
        Ok(normal(path))
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(one).collect()
}

fn allowed_names(name: &str, text: &str) -> Result<Regex> {
    Regex::new(&format!("^(?:{text})$")).map_err(|_| {
        Error::configuration(format!("option {NAME}.{name}.param.allowlist.pattern: {text:?} is no regular expression"))
    })
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}

fn read(path: &Path) -> std::result::Result<Zeroizing<String>, String> {
    // A pipe would be waited for.
    if !std::fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
        return Err("it is no regular file".into());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("it is larger than {MOST_BYTES} bytes"));
    }
    String::from_utf8(std::mem::take(&mut bytes)).map(Zeroizing::new).map_err(|error| {
        error.into_bytes().zeroize();
        "it is not UTF-8".into()
    })
}

#[cfg(test)]
#[path = "providers_tests.rs"]
mod tests;
