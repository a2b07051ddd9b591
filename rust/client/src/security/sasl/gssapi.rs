//! The GSSAPI mechanism: Kerberos 5 (RFC 4752), based on the system's Kerberos library.
//!
//! The library waits for the KDC in the calling thread, up to half a minute if nothing responds, and cannot be
//! interrupted. Therefore it is called on blocking threads, and by only one login of a client at a time. A login that
//! the client has abandoned continues, and the logins queued behind it share its failure.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::gss_dl::{Context, Credentials, GssError, Kerberos, keytab_path};
use super::{BoxFuture, Exchange, Mechanism};
use crate::config::{KerberosOptions, RefreshOptions, SaslOptions};
use crate::error::{Error, Result};

/// Low bytes of Kerberos error numbers. In krb5.h they are relative to `KERBEROS_ERRORS`.
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

/// Time to wait for the KDC before a warning is logged. The warning is needed because the timeout error of the login
/// does not name the KDC.
const KDC_WARNING_DELAY: Duration = Duration::from_secs(2);
const RENEW: &str = "run kinit, or set sasl.kerberos.keytab";
const KERBEROS_ERRORS: i32 = -1_765_328_384;
/// The security layer "none", as a bit in the broker's offer and in the client's choice.
const NO_LAYER: u8 = 1;

#[derive(Debug)]
pub(super) struct Gssapi {
    shared: Arc<Shared>,
    tickets: Arc<Mutex<TicketState>>,
}

/// Parameters of logins with GSSAPI.
#[derive(Debug)]
struct Shared {
    kerberos: &'static Kerberos,
    service: String,
    domain: Option<String>,
    principal: Option<String>,
    keytab: Option<PathBuf>,
    refresh: RefreshOptions,
}

/// The tickets and the last failure. Only one login at a time holds the lock.
#[derive(Debug, Default)]
struct TicketState {
    current: Option<KeytabTickets>,
    last_failure: Option<(Instant, Error)>,
}

/// Tickets obtained with the keytab.
#[derive(Debug)]
struct KeytabTickets {
    credentials: Arc<Credentials>,
    /// Remaining lifetime below which the tickets are renewed; zero if their lifetime is unlimited.
    renew_below: Duration,
    /// Time at which tickets were last requested.
    requested_at: Instant,
}

impl Gssapi {
    /// Loads the library and checks the keytab.
    ///
    /// # Errors
    /// Fails if the library or the keytab is missing, or if an option is invalid.
    pub(super) fn new(options: &SaslOptions) -> Result<Self> {
        let configuration_error = |reason: String| Error::configuration(format!("sasl.mechanism=GSSAPI: {reason}"));
        let KerberosOptions { service_name, domain_name, principal, keytab, refresh } = options.kerberos.clone();
        for (name, value) in [
            ("sasl.kerberos.service.name", Some(&service_name)),
            ("sasl.kerberos.domain.name", domain_name.as_ref()),
            ("sasl.kerberos.principal", principal.as_ref()),
        ] {
            if value.is_some_and(|value| value.contains('\0')) {
                return Err(configuration_error(format!("option {name} must not contain a NUL character")));
            }
        }
        if service_name.is_empty() || service_name.contains(['@', '/']) {
            let reason = format!(
                "option sasl.kerberos.service.name must be the first part of the brokers' principals, for example kafka, \
                 not {service_name:?}"
            );
            return Err(configuration_error(reason));
        }
        let keytab = keytab.map(|path| keytab_path(&path).to_owned());
        if let Some(path) = &keytab {
            check_keytab(path).map_err(configuration_error)?;
        }
        let kerberos = Kerberos::load().map_err(configuration_error)?;
        if keytab.is_some() && !kerberos.supports_keytabs() {
            return Err(configuration_error(format!(
                "{} does not support keytabs: leave out sasl.kerberos.keytab and run kinit, or install MIT Kerberos (brew install \
                 krb5) and set the environment variable SAMSARROW_GSSAPI to its libgssapi_krb5.dylib",
                kerberos.name()
            )));
        }
        let shared = Shared { kerberos, service: service_name, domain: domain_name, principal, keytab, refresh };
        Ok(Self { shared: Arc::new(shared), tickets: Arc::default() })
    }
}

/// Checks that the file begins with the format version of keytabs, because the library treats a missing file as an
/// empty keytab.
fn check_keytab(keytab: &Path) -> std::result::Result<(), String> {
    use std::io::Read;
    let error = |reason: &str| format!("the keytab {} of option sasl.kerberos.keytab {reason}", keytab.display());
    let unreadable = |e: std::io::Error| error(&format!("cannot be read: {e}"));
    let mut version = [0; 2];
    match std::fs::File::open(keytab).and_then(|mut file| file.read_exact(&mut version)) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {}
        other => other.map_err(unreadable)?,
    }
    match version {
        [5, 1 | 2] => Ok(()),
        _ => Err(error("is no keytab")),
    }
}

impl Mechanism for Gssapi {
    fn name(&self) -> &'static str {
        "GSSAPI"
    }

    fn begin<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Box<dyn Exchange>> {
        Box::pin(async move {
            let arrival = Instant::now();
            let (shared, broker) = (Arc::clone(&self.shared), host.to_owned());
            let mut tickets = Arc::clone(&self.tickets).lock_owned().await;
            if let Some((time, error)) = &tickets.last_failure
                && *time > arrival
            {
                return Err(error.clone());
            }
            let task = blocking(move || {
                let exchange = shared.begin(&mut tickets, broker);
                // Only retriable failures are shared. If one broker's service name is rejected, logins at other brokers
                // may still succeed.
                let shared_failure = exchange.as_ref().err().filter(|error| error.retriable());
                tickets.last_failure = shared_failure.map(|error| (Instant::now(), error.clone()));
                exchange
            });
            tokio::pin!(task);
            let exchange = match timeout(KDC_WARNING_DELAY, &mut task).await {
                Ok(exchange) => exchange?,
                Err(_) => {
                    tracing::warn!(host, "a Kerberos login waits for a response of the KDC set in krb5.conf");
                    task.await?
                }
            };
            let boxed: Box<dyn Exchange> = Box::new(exchange);
            Ok(boxed)
        })
    }
}

/// Runs a blocking call on a blocking thread.
async fn blocking<T: Send + 'static>(run: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(run).await {
        Ok(result) => result,
        Err(error) if error.is_cancelled() => Err(Error::closed("the client")),
        Err(error) => Err(Error::State(format!("the Kerberos login failed unexpectedly: {error}"))),
    }
}

impl Shared {
    /// Obtains tickets and the first token to send to a broker.
    fn begin(self: &Arc<Self>, tickets: &mut TicketState, host: String) -> Result<GssapiExchange> {
        let credentials = self.credentials(tickets).map_err(|fault| self.error(&host, &fault))?;
        let name = self.domain.as_deref().unwrap_or(&host);
        let service = self.kerberos.service(&self.service, name);
        let mut context = Context::new(credentials, service.map_err(|fault| self.error(&host, &fault))?);
        let first = context.step(&[]).map_err(|fault| self.error(&host, &fault))?;
        let stage = if context.is_established() { Stage::SecurityLayer } else { Stage::Context };
        Ok(GssapiExchange { shared: Arc::clone(self), host, context: Some(context), first: first.into(), stage })
    }

    /// Returns valid credentials. The user's ticket cache is read again for every login, because the user renews its
    /// tickets.
    fn credentials(&self, tickets: &mut TicketState) -> std::result::Result<Arc<Credentials>, GssError> {
        let principal = self.principal.as_deref();
        let Some(keytab) = &self.keytab else {
            return Credentials::from_user_cache(self.kerberos, principal).map(Arc::new);
        };
        let remaining = match &tickets.current {
            // Credentials whose cache can no longer be read count as expired.
            Some(current) => current.credentials.lifetime().unwrap_or(Some(Duration::ZERO)),
            None => Some(Duration::ZERO),
        };
        if let Some(current) = &mut tickets.current {
            let renew =
                must_renew(remaining, current.renew_below, current.requested_at.elapsed(), self.refresh.min_period);
            if !renew {
                return Ok(Arc::clone(&current.credentials));
            }
            current.requested_at = Instant::now();
        }
        match self.acquire(principal, keytab) {
            Ok(current) => {
                tracing::debug!(principal, "tickets were obtained with the keytab");
                Ok(Arc::clone(&tickets.current.insert(current).credentials))
            }
            Err(fault) => match &tickets.current {
                Some(current) if remaining != Some(Duration::ZERO) => {
                    tracing::warn!(%fault, "Kerberos tickets could not be renewed: the previous ones are used until they expire");
                    Ok(Arc::clone(&current.credentials))
                }
                _ => Err(fault),
            },
        }
    }

    fn acquire(&self, principal: Option<&str>, keytab: &Path) -> std::result::Result<KeytabTickets, GssError> {
        let credentials = Credentials::from_keytab(self.kerberos, principal, keytab)?;
        let part = self.refresh.window_factor + self.refresh.window_jitter * fastrand::f64();
        let renew_below = credentials.lifetime()?.map(|life| life.mul_f64((1.0 - part).clamp(0.0, 1.0)));
        Ok(KeytabTickets {
            credentials: Arc::new(credentials),
            renew_below: renew_below.unwrap_or_default(),
            requested_at: Instant::now(),
        })
    }

    /// Converts a library error that occurred for the broker at `host` to an error that names the cause and the remedy.
    /// The login adds the broker's address.
    fn error(&self, host: &str, fault: &GssError) -> Error {
        let error_number = error_number(fault);
        let for_principal = self.principal.as_ref().map_or(String::new(), |principal| format!(" of {principal}"));
        let hint = match error_number {
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
            _ => match (&self.keytab, error_number) {
                (Some(keytab), Some(minor::NO_KEY | minor::NO_CREDENTIALS | minor::NO_CACHE)) => {
                    format!(
                        "the keytab {0} has no key{for_principal}: klist -kt {0} lists what it has",
                        keytab.display()
                    )
                }
                (Some(keytab), _) => format!("with the keytab {}", keytab.display()),
                (None, Some(minor::TICKET_EXPIRED)) => {
                    format!("the ticket cache's ticket{for_principal} has expired: {RENEW}")
                }
                (None, Some(minor::NO_CREDENTIALS | minor::NO_CACHE)) => {
                    format!("the ticket cache has no ticket{for_principal}: {RENEW}")
                }
                (None, _) => "with tickets of the ticket cache".into(),
            },
        };
        Error::authentication("", format!("the Kerberos login failed: {hint}: {fault}"))
    }
}

/// Returns the Kerberos error number. If another mechanism reported the error first in this process, the library
/// assigns it another number. In this case an unreachable KDC is recognised by the error text, because the login must
/// be retried.
fn error_number(fault: &GssError) -> Option<i32> {
    let unreachable = ["contact any KDC", "reach any KDC"].iter().any(|text| fault.text().contains(text));
    match fault.minor().checked_sub(KERBEROS_ERRORS) {
        Some(error_number @ 0..256) => Some(error_number),
        _ => unreachable.then_some(minor::UNREACHABLE),
    }
}

/// Returns true if tickets with the lifetime `remaining` must be renewed. Expired tickets are renewed immediately,
/// other tickets no more often than every `min_period`.
fn must_renew(
    remaining: Option<Duration>,
    renew_below: Duration,
    since_request: Duration,
    min_period: Duration,
) -> bool {
    match remaining {
        None => false,
        Some(Duration::ZERO) => true,
        Some(remaining) => remaining <= renew_below && since_request >= min_period,
    }
}

/// One login.
struct GssapiExchange {
    shared: Arc<Shared>,
    host: String,
    /// `None` while a blocking thread uses the context, and after an error.
    context: Option<Context>,
    first: Bytes,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Client and broker authenticate each other.
    Context,
    /// The broker offers security layers, and the client chooses "none".
    SecurityLayer,
    /// All messages of the exchange are sent.
    Complete,
}

impl Exchange for GssapiExchange {
    fn initial(&mut self) -> BoxFuture<'_, Bytes> {
        Box::pin(std::future::ready(Ok(self.first.clone())))
    }

    fn respond(&mut self, challenge: Bytes) -> BoxFuture<'_, Option<Bytes>> {
        Box::pin(async move {
            if self.stage == Stage::Complete {
                return match challenge.is_empty() {
                    true => Ok(None),
                    false => Err(Self::protocol_error("it sent a token after the end of the login")),
                };
            }
            let Some(mut context) = self.context.take() else {
                return Err(Self::protocol_error("it sent a token after an error"));
            };
            let (stage, shared, host) = (self.stage, Arc::clone(&self.shared), self.host.clone());
            // Runs on a blocking thread, because Kerberos may read files in this step, such as caches.
            let step = blocking(move || {
                let error = |fault| shared.error(&host, &fault);
                let token = match stage {
                    Stage::Context => context.step(&challenge).map_err(error)?,
                    Stage::SecurityLayer | Stage::Complete => {
                        check_layer_offer(&context.unwrap(&challenge).map_err(error)?).map_err(|reason| {
                            Error::authentication("", format!("the Kerberos login failed: {reason}"))
                        })?;
                        let initiator = context.initiator().map_err(error)?;
                        context.wrap(&layer_choice(&initiator)).map_err(error)?
                    }
                };
                Ok((context, token))
            });
            let (context, token) = step.await?;
            self.stage = match stage {
                Stage::Context if !context.is_established() => Stage::Context,
                Stage::Context => Stage::SecurityLayer,
                Stage::SecurityLayer | Stage::Complete => Stage::Complete,
            };
            self.context = Some(context);
            Ok(Some(token.into()))
        })
    }

    fn expects_no_response(&self) -> bool {
        self.stage == Stage::Complete
    }
}

impl GssapiExchange {
    fn protocol_error(problem: &str) -> Error {
        Error::authentication("", format!("the broker violates RFC 4752 (GSSAPI): {problem}"))
    }
}

/// Checks that the broker's offer of security layers includes "none". As in every Kafka client, TLS provides
/// confidentiality instead.
pub(super) fn check_layer_offer(offer: &[u8]) -> std::result::Result<(), String> {
    match offer {
        [layers, _, _, _] if layers & NO_LAYER != 0 => Ok(()),
        [_, _, _, _] => {
            Err("the broker requires a SASL security layer, which no Kafka client supports: use SASL_SSL".into())
        }
        _ => Err(format!("the broker's offer of security layers has {} bytes instead of 4", offer.len())),
    }
}

/// Returns the client's choice: no security layer, therefore a maximum message size of zero, and the name of
/// `principal`.
fn layer_choice(principal: &str) -> Vec<u8> {
    [&[NO_LAYER, 0, 0, 0], principal.as_bytes()].concat()
}

#[cfg(test)]
#[path = "gssapi_tests.rs"]
mod tests;
