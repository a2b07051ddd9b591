//! Logins and certificates of clients.

use std::io;

use super::{Broker, invalid};
use crate::security::{Alteration, Connections, Identity, LoginAnswer, Logins, Tls};

impl Broker {
    /// Shows `hook` each answer of a login on every node, in the order of hooks; what it changes is sent. An error where
    /// there was none refuses the client. A hook runs while the answer waits: it must be quick.
    pub fn on_login(&self, hook: impl FnMut(&mut LoginAnswer) + Send + 'static) {
        self.state.security.hooks.add(hook);
    }

    /// Changes answers of logins by description.
    ///
    /// # Errors
    /// Nothing is to change, or there is no such node.
    pub fn alter_logins(&self, mut alteration: Alteration) -> io::Result<()> {
        if alteration.is_empty() {
            return Err(invalid("an alteration that changes nothing"));
        }
        if let Some(node) = alteration.node.filter(|node| self.state.node(*node).is_none()) {
            return Err(invalid(format!("there is no node {node}")));
        }
        self.on_login(move |answer| alteration.apply(answer));
        Ok(())
    }

    /// How clients connected so far.
    pub fn connections(&self) -> Connections {
        self.state.security.counts.connections()
    }

    /// The certificate of the broker's authority as PEM: what clients must trust.
    ///
    /// # Errors
    /// The broker does not speak TLS.
    pub fn ca_pem(&self) -> io::Result<&str> {
        self.tls().map(Tls::ca_pem)
    }

    /// A new certificate for a client of this name, of the broker's authority.
    ///
    /// # Errors
    /// The broker does not speak TLS.
    pub fn client_certificate(&self, name: &str) -> io::Result<Identity> {
        self.tls()?.client_certificate(name)
    }

    fn tls(&self) -> io::Result<&Tls> {
        let protocol = self.state.options.security.protocol.name();
        let tls = self.state.security.tls.as_ref();
        tls.ok_or_else(|| invalid(format!("certificates are of SSL and SASL_SSL: this broker speaks {protocol}")))
    }

    /// How logins went so far.
    pub fn logins(&self) -> Logins {
        self.state.security.counts.logins()
    }
}
