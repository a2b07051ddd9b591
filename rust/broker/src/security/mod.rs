//! Security of the broker: protocols, logins and their counters.

mod counts;
mod oauth;
mod options;
mod plain;
mod sasl_exchange;
mod sasl_faults;
mod sasl_response;
mod scram;
mod session;
mod stream;
mod tls;

pub use counts::{Connections, Logins};
pub use options::{ClientAuth, Mechanism, Protocol, SecurityOptions, Users};
pub use sasl_faults::{Alteration, Replacement};
pub use sasl_response::LoginAnswer;

pub use tls::Identity;

pub(crate) use session::{Admission, Session};
pub(crate) use stream::Stream;
pub(crate) use tls::Tls;

use std::io;

use crate::socket::TcpStream;
use counts::{Counts, add};
use sasl_response::Hooks;
use scram::Credentials;

/// Security state shared by all connections of a broker.
#[derive(Debug)]
pub(crate) struct Security {
    pub(crate) options: SecurityOptions,
    pub(crate) hooks: Hooks,
    pub(crate) counts: Counts,
    pub(crate) tls: Option<Tls>,
    credentials: Credentials,
}

impl Security {
    /// Creates the state for a broker that advertises `host`.
    pub(crate) fn new(options: SecurityOptions, host: &str) -> io::Result<Self> {
        let credentials = Credentials::new(options.scram_iterations);
        let tls = options.protocol.is_encrypted().then(|| Tls::new(host, options.client_auth)).transpose()?;
        Ok(Self { options, hooks: Hooks::default(), counts: Counts::default(), tls, credentials })
    }

    /// Accepts a connection, and performs the TLS handshake if the protocol requires it.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<Stream> {
        add(&self.counts.accepted);
        match &self.tls {
            Some(tls) => tls.accept(stream, &self.counts).await,
            None => Ok(Stream::Plain(stream)),
        }
    }
}
