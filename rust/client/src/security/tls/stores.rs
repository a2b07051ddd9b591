//! Reads certificate and key files. The first bytes of a file determine its format.

use std::io::Read;
use std::path::Path;

use zeroize::Zeroizing;

use super::awslc::{self, StoreContents};
use super::{jks, pem, x509};
use crate::config::StoreType;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Maximum file size. Java's default store with all public authorities has only a quarter of a MiB.
const MAX_SIZE: u64 = 16 << 20;

/// Source of a store's bytes: an option that names a file or contains the text, and the password of the store.
pub(super) struct Source<'a> {
    /// Name of the option with the file or text.
    pub(super) option: &'static str,
    /// Path of the file; `None` if the option contains the text itself.
    pub(super) path: Option<&'a Path>,
    /// Name of the option with the password.
    pub(super) password_option: &'static str,
    /// The password.
    pub(super) password: Option<&'a Secret>,
    /// Type that the user declared, if any.
    pub(super) declared_type: Option<StoreType>,
}

impl Source<'_> {
    /// Returns the names of the option and the file, for error texts.
    fn name(&self) -> String {
        match self.path {
            Some(path) => format!("{} ({})", self.option, path.display()),
            None => self.option.to_owned(),
        }
    }

    pub(super) fn error(&self, problem: impl std::fmt::Display) -> Error {
        Error::configuration(format!("{}: {problem}", self.name()))
    }

    fn path(&self) -> String {
        self.path.map_or_else(|| "STORE".into(), |path| path.display().to_string())
    }

    /// Reads the file.
    pub(super) fn read(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>> {
        let read_error = |error: std::io::Error| self.error(format!("cannot be read: {error}"));
        let mut file = std::fs::File::open(path).map_err(read_error)?;
        let metadata = file.metadata().map_err(read_error)?;
        if metadata.is_dir() {
            return Err(self.error("is a folder, not a file"));
        }
        let mut bytes = Zeroizing::new(Vec::new());
        Read::by_ref(&mut file).take(MAX_SIZE + 1).read_to_end(&mut bytes).map_err(read_error)?;
        if bytes.len() as u64 > MAX_SIZE {
            return Err(self.error(format!("is larger than {} MiB: is it a certificate store?", MAX_SIZE >> 20)));
        }
        if bytes.is_empty() {
            return Err(self.error("is empty"));
        }
        Ok(bytes)
    }

    /// Opens a store of any type. The private key is read only if `key` is `Some`, whether or not it contains a
    /// password.
    pub(super) fn open(&self, bytes: &[u8], key: Option<KeyPassword<'_>>) -> Result<StoreContents> {
        let detected = self.kind(bytes)?;
        match (self.declared_type, detected) {
            (None, _)
            | (Some(StoreType::Jks), Kind::Jks | Kind::Pkcs12)
            | (Some(StoreType::Pkcs12), Kind::Pkcs12)
            | (Some(StoreType::Pem), Kind::Pem) => {}
            (Some(declared), detected) => {
                let declared = match declared {
                    StoreType::Jks => "JKS",
                    StoreType::Pkcs12 => "PKCS12",
                    StoreType::Pem => "PEM",
                };
                let reason = match self.option.strip_suffix("store.location") {
                    Some(prefix) => {
                        format!(
                            "is {}, but {prefix}store.type={declared}: leave the type out, or set the right store",
                            detected.name()
                        )
                    }
                    None => format!("is {}, not {declared}: set ssl.keystore.location to it instead", detected.name()),
                };
                return Err(self.error(reason));
            }
        }
        match detected {
            Kind::Pem => self.open_pem(bytes, key),
            Kind::Der => Ok(StoreContents { certificates: vec![bytes.to_vec()], ..StoreContents::default() }),
            Kind::Pkcs12 => {
                let password = self.password.or(key.as_ref().and_then(|key| key.password));
                awslc::pkcs12(bytes, password.map_or("", Secret::reveal)).map_err(|error| match error {
                    awslc::StoreError::Password => self.wrong_password(password.is_some()),
                    awslc::StoreError::Invalid(reason) => {
                        self.error(format!("is a PKCS12 that cannot be used: {reason}"))
                    }
                })
            }
            Kind::Jks => {
                let password = self.password.map(Secret::reveal);
                let key_password = match &key {
                    None => None,
                    Some(key) => match key.password.map(Secret::reveal).or(password) {
                        None => return Err(self.wrong_password(false)),
                        some => some,
                    },
                };
                jks::open(bytes, password, key_password).map_err(|error| match error {
                    jks::JksError::Password => self.wrong_password(true),
                    jks::JksError::KeyPassword => self.error("its key has another password: set ssl.key.password"),
                    jks::JksError::Invalid(reason) => self.error(format!("is a JKS that cannot be used: {reason}")),
                })
            }
        }
    }

    fn wrong_password(&self, has_password: bool) -> Error {
        let option = self.password_option;
        if has_password {
            self.error(format!("cannot be opened with the password in {option}; or it is damaged"))
        } else {
            self.error(format!("needs a password: set {option}"))
        }
    }

    fn kind(&self, bytes: &[u8]) -> Result<Kind> {
        let path = self.path();
        if jks::is_jks(bytes) {
            Ok(Kind::Jks)
        } else if bytes.starts_with(&[0xCE, 0xCE, 0xCE, 0xCE]) {
            Err(self.error(format!(
                "is a JCEKS, which is not supported: convert it with keytool -importkeystore -srckeystore {path} \
                 -srcstoretype JCEKS -destkeystore {path}.p12 -deststoretype PKCS12"
            )))
        } else if x509::is_pkcs12(bytes) {
            Ok(Kind::Pkcs12)
        } else if pem::is_pem(bytes) {
            Ok(Kind::Pem)
        } else if x509::Certificate::parse(bytes).is_some() {
            Ok(Kind::Der)
        } else if bytes.starts_with(&[0x30]) || bytes.starts_with(&[0, 0, 0, 1]) || bytes.starts_with(&[0, 0, 0, 2]) {
            let kind = if bytes.starts_with(&[0x30]) { "BCFKS" } else { "BKS" };
            Err(self.error(format!(
                "is no PEM, PKCS12 or JKS, but perhaps a {kind} of BouncyCastle, which is not supported: convert it with \
                 keytool -importkeystore -srckeystore {path} -srcstoretype {kind} -destkeystore {path}.p12 \
                 -deststoretype PKCS12 and the -provider options that made it"
            )))
        } else {
            Err(self.error("is no PEM, PKCS12 or JKS"))
        }
    }

    /// Parses the bytes as PEM, regardless of the declared type.
    pub(super) fn open_pem(&self, bytes: &[u8], key: Option<KeyPassword<'_>>) -> Result<StoreContents> {
        let text = std::str::from_utf8(bytes).map_err(|_| self.error("is no PEM: it is not text"))?;
        let mut contents = StoreContents::default();
        for section in pem::sections(text).map_err(|reason| self.error(reason))? {
            match section.label.as_str() {
                "CERTIFICATE" | "X509 CERTIFICATE" => contents.certificates.push(section.der.to_vec()),
                "TRUSTED CERTIFICATE" => {
                    return Err(self.error(
                        "has a TRUSTED CERTIFICATE, which only OpenSSL reads: convert it with openssl x509 -in FILE \
                         -out FILE.pem",
                    ));
                }
                label if label.ends_with("PRIVATE KEY") => {
                    let Some(key) = &key else { continue };
                    if contents.key.is_some() {
                        return Err(self.error("has more than one private key"));
                    }
                    contents.key = Some(self.pem_key(section, key)?);
                }
                _ => {}
            }
        }
        Ok(contents)
    }

    fn pem_key(&self, section: pem::Section, key: &KeyPassword<'_>) -> Result<Zeroizing<Vec<u8>>> {
        if section.legacy_encryption {
            let path = self.path();
            return Err(self.error(format!(
                "its private key is encrypted in OpenSSL's old way (Proc-Type: 4,ENCRYPTED), which is weak and not \
                 supported: convert it with openssl pkcs8 -topk8 -in {path} -out {path}.pk8"
            )));
        }
        if section.label != "ENCRYPTED PRIVATE KEY" {
            return Ok(section.der);
        }
        let Some(password) = key.password.or(self.password) else {
            return Err(self.error("its private key is encrypted: set ssl.key.password"));
        };
        awslc::encrypted_pkcs8(&section.der, password.reveal()).map_err(|error| match error {
            awslc::StoreError::Password => {
                self.error("its private key cannot be decrypted with the password in ssl.key.password")
            }
            awslc::StoreError::Invalid(reason) => {
                self.error(format!("its encrypted private key cannot be used: {reason}"))
            }
        })
    }
}

/// Password for a private key in a store.
#[derive(Clone, Copy)]
pub(super) struct KeyPassword<'a> {
    /// Password of the key. If it is `None`, the password of the store is used.
    pub(super) password: Option<&'a Secret>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Pem,
    Der,
    Pkcs12,
    Jks,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Pem => "PEM",
            Self::Der => "a single certificate (DER)",
            Self::Pkcs12 => "PKCS12",
            Self::Jks => "JKS",
        }
    }
}
