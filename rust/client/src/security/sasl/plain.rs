//! The PLAIN mechanism: name and password in plain text (RFC 4616).

use bytes::{BufMut, Bytes, BytesMut};

use super::{BoxFuture, Exchange, Mechanism};
use crate::config::SaslOptions;
use crate::error::{Error, Result};
use crate::secret::Secret;

#[derive(Debug)]
pub(super) struct Plain {
    username: String,
    password: Secret,
}

impl Plain {
    pub(super) fn new(options: &SaslOptions) -> Result<Self> {
        let missing =
            |option| Error::configuration(format!("sasl.mechanism=PLAIN needs option {option}, or sasl.jaas.config"));
        let username = options.username.clone().ok_or_else(|| missing("sasl.username"))?;
        let password = options.password.clone().ok_or_else(|| missing("sasl.password"))?;
        // The fields of the message are separated by NUL, so they must not contain NUL.
        if username.contains('\0') || password.reveal().contains('\0') {
            return Err(Error::configuration("sasl.username and sasl.password must not contain a NUL character"));
        }
        Ok(Self { username, password })
    }
}

impl Mechanism for Plain {
    fn name(&self) -> &'static str {
        "PLAIN"
    }

    fn begin<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Box<dyn Exchange>> {
        let mut message = BytesMut::new();
        message.put_u8(0);
        message.put_slice(self.username.as_bytes());
        message.put_u8(0);
        message.put_slice(self.password.reveal().as_bytes());
        let exchange: Box<dyn Exchange> = Box::new(SingleMessage(message.freeze()));
        Box::pin(std::future::ready(Ok(exchange)))
    }
}

struct SingleMessage(Bytes);

impl Exchange for SingleMessage {
    fn initial(&mut self) -> BoxFuture<'_, Bytes> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }

    fn respond(&mut self, _: Bytes) -> BoxFuture<'_, Option<Bytes>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}
