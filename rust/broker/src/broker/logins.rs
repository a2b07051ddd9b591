//! Control and inspection of SASL logins and client certificates.

use std::io;

use super::{Broker, invalid};
use crate::security::{Alteration, Connections, Identity, LoginAnswer, Logins, Tls};

impl Broker {
    /// Adds a hook that may modify each response of a login, on every node; hooks run in the order they were added.
    /// Setting an error fails the login. A hook delays the response, so it must be quick.
    pub fn on_login(&self, hook: impl FnMut(&mut LoginAnswer) + Send + 'static) {
        self.state.security.hooks.add(hook);
    }

    /// Modifies login responses by a description.
    ///
    /// # Errors
    /// The alteration is empty or names an unknown node.
    pub fn alter_logins(&self, mut alteration: Alteration) -> io::Result<()> {
        if alteration.is_empty() {
            return Err(invalid("the alteration changes nothing"));
        }
        if let Some(node) = alteration.node.filter(|node| self.state.node(*node).is_none()) {
            return Err(invalid(format!("there is no node {node}")));
        }
        self.on_login(move |response| alteration.apply(response));
        Ok(())
    }

    /// Returns counts of client connections since the start.
    pub fn connections(&self) -> Connections {
        self.state.security.counts.connections()
    }

    /// Returns the certificate of the broker's CA as PEM, for the trust store of clients.
    ///
    /// # Errors
    /// The broker does not use TLS.
    pub fn ca_pem(&self) -> io::Result<&str> {
        self.tls().map(Tls::ca_pem)
    }

    /// Issues a client certificate for `name`, signed by the broker's CA.
    ///
    /// # Errors
    /// The broker does not use TLS.
    pub fn client_certificate(&self, name: &str) -> io::Result<Identity> {
        self.tls()?.client_certificate(name)
    }

    fn tls(&self) -> io::Result<&Tls> {
        let protocol = self.state.options.security.protocol.name();
        let tls = self.state.security.tls.as_ref();
        tls.ok_or_else(|| invalid(format!("certificates require SSL or SASL_SSL: this broker speaks {protocol}")))
    }

    /// Returns counts of logins since the start.
    pub fn logins(&self) -> Logins {
        self.state.security.counts.logins()
    }
}
