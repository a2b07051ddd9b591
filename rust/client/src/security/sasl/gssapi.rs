//! GSSAPI: Kerberos 5 (RFC 4752), by the system's library.
//!
//! The library waits for the KDC in the calling thread, half a minute where nothing answers, and cannot be interrupted.
//! So it is called on threads for that, by one login of a client at a time; a login that nobody waits for any more goes
//! on, and who waited behind it shares its failure.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::gss_dl::{Context, Credentials, Fault, Kerberos, keytab_path};
use super::{Exchange, Mechanism, Waiting};
use crate::config::{KerberosOptions, RefreshOptions, SaslOptions};
use crate::error::{Error, Result};

/// Ends of a Kerberos error's number, which begins with `KERBEROS_ERRORS` (krb5.h).
mod minor {
    pub(super) const CLIENT_UNKNOWN: i32 = 6;
    pub(super) const SERVER_UNKNOWN: i32 = 7;
    pub(super) const PREAUTH_FAILED: i32 = 24;
    pub(super) const SERVICE_UNAVAILABLE: i32 = 29;
    pub(super) const BAD_INTEGRITY: i32 = 31;
    pub(super) const TICKET_EXPIRED: i32 = 32;
    pub(super) const SKEW: i32 = 37;
    pub(super) const NO_CREDENTIALS: i32 = 141;
    pub(super) const REALM_UNKNOWN: i32 = 154;
    pub(super) const UNREACHABLE: i32 = 156;
    pub(super) const NO_KEY: i32 = 181;
    pub(super) const NO_CACHE: i32 = 195;
    pub(super) const UNRESOLVED: i32 = 220;
}

/// How long a KDC may take before a warning says that it is waited for: what gives up on the login cannot know.
const PATIENCE: Duration = Duration::from_secs(2);
const RENEW: &str = "run kinit, or set sasl.kerberos.keytab";
const KERBEROS_ERRORS: i32 = -1_765_328_384;
/// The security layer "none", in the first byte of a broker's offer and of our choice.
const NO_LAYER: u8 = 1;

#[derive(Debug)]
pub(super) struct Gssapi {
    shared: Arc<Shared>,
    desk: Arc<Mutex<Desk>>,
}

/// What a login needs to know.
#[derive(Debug)]
struct Shared {
    kerberos: &'static Kerberos,
    service: String,
    domain: Option<String>,
    principal: Option<String>,
    keytab: Option<PathBuf>,
    refresh: RefreshOptions,
}

/// Where tickets are got, by one login at a time.
#[derive(Debug, Default)]
struct Desk {
    held: Option<Held>,
    failed: Option<(Instant, Error)>,
}

/// Tickets by the keytab.
#[derive(Debug)]
struct Held {
    credentials: Arc<Credentials>,
    /// What must be left of their life for them not to be renewed; zero if they hold for ever.
    enough: Duration,
    /// When others were last asked for.
    asked: Instant,
}

impl Gssapi {
    /// Loads the library and looks at the keytab.
    ///
    /// # Errors
    /// One of them is missing, or an option cannot be.
    pub(super) fn new(options: &SaslOptions) -> Result<Self> {
        let needs = |reason: String| Error::configuration(format!("sasl.mechanism=GSSAPI: {reason}"));
        let KerberosOptions { service_name, domain_name, principal, keytab, refresh } = options.kerberos.clone();
        for (name, value) in [
            ("sasl.kerberos.service.name", Some(&service_name)),
            ("sasl.kerberos.domain.name", domain_name.as_ref()),
            ("sasl.kerberos.principal", principal.as_ref()),
        ] {
            if value.is_some_and(|value| value.contains('\0')) {
                return Err(needs(format!("option {name} must not contain a NUL character")));
            }
        }
        if service_name.is_empty() || service_name.contains(['@', '/']) {
            let reason = format!(
                "option sasl.kerberos.service.name must be the first part of the brokers' principals, for example kafka, \
                 not {service_name:?}"
            );
            return Err(needs(reason));
        }
        let keytab = keytab.map(|path| keytab_path(&path).to_owned());
        if let Some(path) = &keytab {
            look_at(path).map_err(needs)?;
        }
        let kerberos = Kerberos::load().map_err(needs)?;
        if keytab.is_some() && !kerberos.takes_keytabs() {
            return Err(needs(format!(
                "{} takes no keytabs: leave out sasl.kerberos.keytab and run kinit, or install MIT Kerberos (brew install \
                 krb5) and set the environment variable SAMSARROW_GSSAPI to its libgssapi_krb5.dylib",
                kerberos.name()
            )));
        }
        let shared = Shared { kerberos, service: service_name, domain: domain_name, principal, keytab, refresh };
        Ok(Self { shared: Arc::new(shared), desk: Arc::default() })
    }
}

/// A keytab begins with its format's version. The library takes one that is missing for one without keys.
fn look_at(keytab: &Path) -> std::result::Result<(), String> {
    use std::io::Read;
    let wrong = |reason: &str| format!("the keytab {} of option sasl.kerberos.keytab {reason}", keytab.display());
    let cannot = |error: std::io::Error| wrong(&format!("cannot be read: {error}"));
    let mut version = [0; 2];
    match std::fs::File::open(keytab).and_then(|mut file| file.read_exact(&mut version)) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {}
        other => other.map_err(cannot)?,
    }
    match version {
        [5, 1 | 2] => Ok(()),
        _ => Err(wrong("is no keytab")),
    }
}

impl Mechanism for Gssapi {
    fn name(&self) -> &'static str {
        "GSSAPI"
    }

    fn begin<'a>(&'a self, host: &'a str) -> Waiting<'a, Box<dyn Exchange>> {
        Box::pin(async move {
            let arrived = Instant::now();
            let (shared, broker) = (Arc::clone(&self.shared), host.to_owned());
            let mut desk = Arc::clone(&self.desk).lock_owned().await;
            if let Some((at, error)) = &desk.failed
                && *at > arrived
            {
                return Err(error.clone());
            }
            let exchange = blocking(move || {
                let begun = shared.begin(&mut desk, broker);
                // What is wrong with one broker's name says nothing of another's.
                let of_all = begun.as_ref().err().filter(|error| error.retriable());
                desk.failed = of_all.map(|error| (Instant::now(), error.clone()));
                begun
            });
            tokio::pin!(exchange);
            let begun = match timeout(PATIENCE, &mut exchange).await {
                Ok(begun) => begun?,
                Err(_) => {
                    tracing::warn!(host, "a Kerberos login waits for an answer of the KDC that krb5.conf names");
                    exchange.await?
                }
            };
            let exchange: Box<dyn Exchange> = Box::new(begun);
            Ok(exchange)
        })
    }
}

/// Runs what may wait where nobody minds.
async fn blocking<T: Send + 'static>(run: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(run).await {
        Ok(result) => result,
        Err(error) if error.is_cancelled() => Err(Error::closed("the client")),
        Err(error) => Err(Error::State(format!("the Kerberos login failed within: {error}"))),
    }
}

impl Shared {
    /// Tickets, and the first token for a broker.
    fn begin(self: &Arc<Self>, desk: &mut Desk, host: String) -> Result<Conversation> {
        let credentials = self.credentials(desk).map_err(|fault| self.error(&host, &fault))?;
        let name = self.domain.as_deref().unwrap_or(&host);
        let service = self.kerberos.service(&self.service, name);
        let mut context = Context::new(credentials, service.map_err(|fault| self.error(&host, &fault))?);
        let first = context.step(&[]).map_err(|fault| self.error(&host, &fault))?;
        let stage = if context.done() { Stage::Layers } else { Stage::Tokens };
        Ok(Conversation { shared: Arc::clone(self), host, context: Some(context), first: first.into(), stage })
    }

    /// Tickets that hold. The user's cache is read anew each time: it is the user who renews them.
    fn credentials(&self, desk: &mut Desk) -> std::result::Result<Arc<Credentials>, Fault> {
        let principal = self.principal.as_deref();
        let Some(keytab) = &self.keytab else {
            return Credentials::of_user(self.kerberos, principal).map(Arc::new);
        };
        let left = match &desk.held {
            // A cache that can no longer be looked into holds nothing.
            Some(held) => held.credentials.lifetime().unwrap_or(Some(Duration::ZERO)),
            None => Some(Duration::ZERO),
        };
        if let Some(held) = &mut desk.held {
            let renew = due(left, held.enough, held.asked.elapsed(), self.refresh.min_period);
            if !renew {
                return Ok(Arc::clone(&held.credentials));
            }
            held.asked = Instant::now();
        }
        match self.acquire(principal, keytab) {
            Ok(held) => {
                tracing::debug!(principal, "tickets were got by the keytab");
                Ok(Arc::clone(&desk.held.insert(held).credentials))
            }
            Err(fault) => match &desk.held {
                Some(held) if left != Some(Duration::ZERO) => {
                    tracing::warn!(%fault, "Kerberos tickets could not be renewed: those of before are used while they hold");
                    Ok(Arc::clone(&held.credentials))
                }
                _ => Err(fault),
            },
        }
    }

    fn acquire(&self, principal: Option<&str>, keytab: &Path) -> std::result::Result<Held, Fault> {
        let credentials = Credentials::by_keytab(self.kerberos, principal, keytab)?;
        let part = self.refresh.window_factor + self.refresh.window_jitter * fastrand::f64();
        let enough = credentials.lifetime()?.map(|life| life.mul_f64((1.0 - part).clamp(0.0, 1.0)));
        Ok(Held { credentials: Arc::new(credentials), enough: enough.unwrap_or_default(), asked: Instant::now() })
    }

    /// A fault on the way to the broker at `host`, whose address the login adds: what it means, and what to do.
    fn error(&self, host: &str, fault: &Fault) -> Error {
        let number = number(fault);
        let of_whom = self.principal.as_ref().map_or(String::new(), |principal| format!(" of {principal}"));
        let hint = match number {
            Some(minor::UNREACHABLE | minor::UNRESOLVED | minor::SERVICE_UNAVAILABLE) => {
                return Error::connection("", format!("the login waits for a KDC (Kerberos server): {fault}"));
            }
            Some(minor::SERVER_UNKNOWN) => {
                let service = format!("{}/{}", self.service, self.domain.as_deref().unwrap_or(host));
                format!(
                    "the KDC knows no service {service}: look at sasl.kerberos.service.name, \
                     sasl.kerberos.domain.name and the host name in bootstrap.servers or advertised.listeners"
                )
            }
            Some(minor::CLIENT_UNKNOWN) => "the KDC does not know the client: look at sasl.kerberos.principal".into(),
            Some(minor::REALM_UNKNOWN) => "krb5.conf names no KDC for the realm".into(),
            Some(minor::PREAUTH_FAILED | minor::BAD_INTEGRITY) => {
                "the KDC has other keys: was the password changed since the keytab was written?".into()
            }
            Some(minor::SKEW) => "set the clocks of client, KDC and broker".into(),
            _ => match (&self.keytab, number) {
                (Some(keytab), Some(minor::NO_KEY | minor::NO_CREDENTIALS | minor::NO_CACHE)) => {
                    format!("the keytab {0} has no key{of_whom}: klist -kt {0} lists what it has", keytab.display())
                }
                (Some(keytab), _) => format!("by the keytab {}", keytab.display()),
                (None, Some(minor::TICKET_EXPIRED)) => {
                    format!("the ticket cache's ticket{of_whom} has expired: {RENEW}")
                }
                (None, Some(minor::NO_CREDENTIALS | minor::NO_CACHE)) => {
                    format!("the ticket cache has no ticket{of_whom}: {RENEW}")
                }
                (None, _) => "with tickets of the ticket cache".into(),
            },
        };
        Error::authentication("", format!("the Kerberos login failed: {hint}: {fault}"))
    }
}

/// Which of Kerberos' errors it is. Where another mechanism met it first in this process, the library gives it a number
/// of its own making; that the KDC is away must be known all the same, as it is no reason to give up.
fn number(fault: &Fault) -> Option<i32> {
    let away = ["contact any KDC", "reach any KDC"].iter().any(|text| fault.text().contains(text));
    match fault.minor().checked_sub(KERBEROS_ERRORS) {
        Some(number @ 0..256) => Some(number),
        _ => away.then_some(minor::UNREACHABLE),
    }
}

/// Whether tickets with so much life `left` are to be renewed: not too often while they hold, at once when they do not.
fn due(left: Option<Duration>, enough: Duration, asked: Duration, min_period: Duration) -> bool {
    match left {
        None => false,
        Some(Duration::ZERO) => true,
        Some(left) => left <= enough && asked >= min_period,
    }
}

/// One login.
struct Conversation {
    shared: Arc<Shared>,
    host: String,
    /// None while a thread has it, and after an error.
    context: Option<Context>,
    first: Bytes,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Each proves who it is.
    Tokens,
    /// The broker offers security layers.
    Layers,
    /// Everything is said.
    Said,
}

impl Exchange for Conversation {
    fn initial(&mut self) -> Waiting<'_, Bytes> {
        Box::pin(std::future::ready(Ok(self.first.clone())))
    }

    fn answer(&mut self, challenge: Bytes) -> Waiting<'_, Option<Bytes>> {
        Box::pin(async move {
            if self.stage == Stage::Said {
                return match challenge.is_empty() {
                    true => Ok(None),
                    false => Err(Self::strange("it goes on after the login's end")),
                };
            }
            let Some(mut context) = self.context.take() else {
                return Err(Self::strange("it goes on after an error"));
            };
            let (stage, shared, host) = (self.stage, Arc::clone(&self.shared), self.host.clone());
            // Kerberos may still look at files: time offsets, caches.
            let said = blocking(move || {
                let wrong = |fault| shared.error(&host, &fault);
                let said = match stage {
                    Stage::Tokens => context.step(&challenge).map_err(wrong)?,
                    Stage::Layers | Stage::Said => {
                        choose(&context.unwrap(&challenge).map_err(wrong)?).map_err(|reason| {
                            Error::authentication("", format!("the Kerberos login failed: {reason}"))
                        })?;
                        let initiator = context.initiator().map_err(wrong)?;
                        context.wrap(&chosen(&initiator)).map_err(wrong)?
                    }
                };
                Ok((context, said))
            });
            let (context, said) = said.await?;
            self.stage = match stage {
                Stage::Tokens if !context.done() => Stage::Tokens,
                Stage::Tokens => Stage::Layers,
                Stage::Layers | Stage::Said => Stage::Said,
            };
            self.context = Some(context);
            Ok(Some(said.into()))
        })
    }

    fn spoken(&self) -> bool {
        self.stage == Stage::Said
    }
}

impl Conversation {
    fn strange(what: &str) -> Error {
        Error::authentication("", format!("the broker does not speak GSSAPI as RFC 4752 says: {what}"))
    }
}

/// Whether the broker's offer of security layers has "none": confidentiality is TLS's, as in every Kafka client.
pub(super) fn choose(offer: &[u8]) -> std::result::Result<(), String> {
    match offer {
        [layers, _, _, _] if layers & NO_LAYER != 0 => Ok(()),
        [_, _, _, _] => {
            Err("the broker insists on a security layer of SASL, which no Kafka client has: use SASL_SSL".into())
        }
        _ => Err(format!("the broker's offer of security layers has {} bytes instead of 4", offer.len())),
    }
}

/// No layer, so no message of one either, in the name of `principal`.
fn chosen(principal: &str) -> Vec<u8> {
    [&[NO_LAYER, 0, 0, 0], principal.as_bytes()].concat()
}

#[cfg(test)]
#[path = "gssapi_tests.rs"]
mod tests;
