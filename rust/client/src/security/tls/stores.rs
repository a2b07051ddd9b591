//! Files with certificates and keys, distinguished by their first bytes.

use std::io::Read;
use std::path::Path;

use zeroize::Zeroizing;

use super::awslc::{self, Opened};
use super::{jks, pem, x509};
use crate::config::StoreType;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// More than any store: Java's own with all authorities of the world has a quarter of a MiB.
const LARGEST: u64 = 16 << 20;

/// Where bytes come from, and what opens them.
pub(super) struct Source<'a> {
    /// The option that names it.
    pub(super) option: &'static str,
    /// The file, unless the option has the text itself.
    pub(super) path: Option<&'a Path>,
    /// The option that has the password.
    pub(super) password_option: &'static str,
    /// That password.
    pub(super) password: Option<&'a Secret>,
    /// What kind it is said to be.
    pub(super) said: Option<StoreType>,
}

impl Source<'_> {
    /// Option and file.
    fn name(&self) -> String {
        match self.path {
            Some(path) => format!("{} ({})", self.option, path.display()),
            None => self.option.to_owned(),
        }
    }

    pub(super) fn error(&self, what: impl std::fmt::Display) -> Error {
        Error::configuration(format!("{}: {what}", self.name()))
    }

    fn path(&self) -> String {
        self.path.map_or_else(|| "STORE".into(), |path| path.display().to_string())
    }

    /// The bytes of the file.
    pub(super) fn read(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>> {
        let cannot = |error: std::io::Error| self.error(format!("cannot be read: {error}"));
        let mut file = std::fs::File::open(path).map_err(cannot)?;
        let size = file.metadata().map_err(cannot)?;
        if size.is_dir() {
            return Err(self.error("is a folder, not a file"));
        }
        let mut bytes = Zeroizing::new(Vec::new());
        Read::by_ref(&mut file).take(LARGEST + 1).read_to_end(&mut bytes).map_err(cannot)?;
        if bytes.len() as u64 > LARGEST {
            return Err(self.error(format!("is larger than {} MiB: that is no store of certificates", LARGEST >> 20)));
        }
        if bytes.is_empty() {
            return Err(self.error("is empty"));
        }
        Ok(bytes)
    }

    /// What is in a store of whatever kind. The key is of interest if `key` has its password, or says that there is
    /// none.
    pub(super) fn open(&self, bytes: &[u8], key: Option<KeyPassword<'_>>) -> Result<Opened> {
        let found = self.kind(bytes)?;
        match (self.said, found) {
            (None, _)
            | (Some(StoreType::Jks), Kind::Jks | Kind::Pkcs12)
            | (Some(StoreType::Pkcs12), Kind::Pkcs12)
            | (Some(StoreType::Pem), Kind::Pem) => {}
            (Some(said), found) => {
                let said = match said {
                    StoreType::Jks => "JKS",
                    StoreType::Pkcs12 => "PKCS12",
                    StoreType::Pem => "PEM",
                };
                let reason = match self.option.strip_suffix("store.location") {
                    Some(of) => {
                        format!(
                            "is {}, but {of}store.type={said}: leave the type out, or name the right store",
                            found.name()
                        )
                    }
                    None => format!("is {}, not {said}: set ssl.keystore.location to it instead", found.name()),
                };
                return Err(self.error(reason));
            }
        }
        match found {
            Kind::Pem => self.open_pem(bytes, key),
            Kind::Der => Ok(Opened { certificates: vec![bytes.to_vec()], ..Opened::default() }),
            Kind::Pkcs12 => {
                let password = self.password.or(key.as_ref().and_then(|key| key.password));
                awslc::pkcs12(bytes, password.map_or("", Secret::reveal)).map_err(|error| match error {
                    awslc::Refused::Password => self.wrong_password(password.is_some()),
                    awslc::Refused::Because(reason) => self.error(format!("is a PKCS12 that cannot be used: {reason}")),
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
                    jks::Refused::Password => self.wrong_password(true),
                    jks::Refused::KeyPassword => {
                        self.error("the password of its key is another one: set ssl.key.password")
                    }
                    jks::Refused::Because(reason) => self.error(format!("is a JKS that cannot be used: {reason}")),
                })
            }
        }
    }

    fn wrong_password(&self, given: bool) -> Error {
        let option = self.password_option;
        if given {
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
                "is a JCEKS, which is not read: convert it with keytool -importkeystore -srckeystore {path} \
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
                "is no PEM, PKCS12 or JKS, but perhaps a {kind} of BouncyCastle, which is not read: convert it with \
                 keytool -importkeystore -srckeystore {path} -srcstoretype {kind} -destkeystore {path}.p12 \
                 -deststoretype PKCS12 and the -provider options that made it"
            )))
        } else {
            Err(self.error("is no PEM, PKCS12 or JKS"))
        }
    }

    /// PEM, without asking what kind it is.
    pub(super) fn open_pem(&self, bytes: &[u8], key: Option<KeyPassword<'_>>) -> Result<Opened> {
        let text = std::str::from_utf8(bytes).map_err(|_| self.error("is no PEM: it is not text"))?;
        let mut opened = Opened::default();
        for section in pem::sections(text).map_err(|reason| self.error(reason))? {
            match section.label.as_str() {
                "CERTIFICATE" | "X509 CERTIFICATE" => opened.certificates.push(section.der.to_vec()),
                "TRUSTED CERTIFICATE" => {
                    return Err(self.error(
                        "has a TRUSTED CERTIFICATE, which only OpenSSL reads: convert it with openssl x509 -in FILE \
                         -out FILE.pem",
                    ));
                }
                label if label.ends_with("PRIVATE KEY") => {
                    let Some(key) = &key else { continue };
                    if opened.key.is_some() {
                        return Err(self.error("has more than one private key"));
                    }
                    opened.key = Some(self.pem_key(section, key)?);
                }
                _ => {}
            }
        }
        Ok(opened)
    }

    fn pem_key(&self, section: pem::Section, key: &KeyPassword<'_>) -> Result<Zeroizing<Vec<u8>>> {
        if section.old_encryption {
            let path = self.path();
            return Err(self.error(format!(
                "its private key is encrypted in OpenSSL's old way (Proc-Type: 4,ENCRYPTED), which is weak and not \
                 read: convert it with openssl pkcs8 -topk8 -in {path} -out {path}.pk8"
            )));
        }
        if section.label != "ENCRYPTED PRIVATE KEY" {
            return Ok(section.der);
        }
        let Some(password) = key.password.or(self.password) else {
            return Err(self.error("its private key is encrypted: set ssl.key.password"));
        };
        awslc::encrypted_pkcs8(&section.der, password.reveal()).map_err(|error| match error {
            awslc::Refused::Password => {
                self.error("its private key cannot be decrypted with the password in ssl.key.password")
            }
            awslc::Refused::Because(reason) => {
                self.error(format!("its encrypted private key cannot be used: {reason}"))
            }
        })
    }
}

/// What a key may be encrypted with.
#[derive(Clone, Copy)]
pub(super) struct KeyPassword<'a> {
    /// Of the key itself; else the store's is tried.
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
