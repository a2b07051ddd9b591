//! Control and inspection of SASL logins and client certificates.

use std::io;

use super::{Broker, invalid};
use crate::security::{Alteration, Connections, Identity, LoginAnswer, Logins, Tls};

impl Broker {
    /// Adds a hook that may modify each login response of every node. Hooks run in the order in which they were added.
    /// If a hook sets an error, the login fails. Responses wait for the hooks, so hooks must be quick.
    pub fn on_login(&self, hook: impl FnMut(&mut LoginAnswer) + Send + 'static) {
        self.state.security.hooks.add(hook);
    }

    /// Modifies login responses as `alteration` describes.
    ///
    /// # Errors
    /// Fails if `alteration` changes nothing or names an unknown node.
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

    /// Returns the number of client connections since the broker started, by kind.
    pub fn connections(&self) -> Connections {
        self.state.security.counts.connections()
    }

    /// Returns the certificate of the broker's CA in PEM format, for the trust store of clients.
    ///
    /// # Errors
    /// Fails if the broker does not use TLS.
    pub fn ca_pem(&self) -> io::Result<&str> {
        self.tls().map(Tls::ca_pem)
    }

    /// Issues a client certificate for `name`, signed by the broker's CA.
    ///
    /// # Errors
    /// Fails if the broker does not use TLS.
    pub fn client_certificate(&self, name: &str) -> io::Result<Identity> {
        self.tls()?.client_certificate(name)
    }

    fn tls(&self) -> io::Result<&Tls> {
        let protocol = self.state.options.security.protocol.name();
        let tls = self.state.security.tls.as_ref();
        tls.ok_or_else(|| invalid(format!("certificates require SSL or SASL_SSL: this broker uses {protocol}")))
    }

    /// Returns the number of logins since the broker started, by outcome.
    pub fn logins(&self) -> Logins {
        self.state.security.counts.logins()
    }
}
