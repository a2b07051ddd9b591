//! PLAIN: name and password as they are (RFC 4616).

use bytes::{BufMut, Bytes, BytesMut};

use super::{Exchange, Mechanism, Waiting};
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
            |what| Error::configuration(format!("sasl.mechanism=PLAIN needs option {what}, or sasl.jaas.config"));
        let username = options.username.clone().ok_or_else(|| missing("sasl.username"))?;
        let password = options.password.clone().ok_or_else(|| missing("sasl.password"))?;
        // NUL stands between the parts of the message.
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

    fn begin<'a>(&'a self, _: &'a str) -> Waiting<'a, Box<dyn Exchange>> {
        let mut message = BytesMut::new();
        message.put_u8(0);
        message.put_slice(self.username.as_bytes());
        message.put_u8(0);
        message.put_slice(self.password.reveal().as_bytes());
        let exchange: Box<dyn Exchange> = Box::new(Once(message.freeze()));
        Box::pin(std::future::ready(Ok(exchange)))
    }
}

struct Once(Bytes);

impl Exchange for Once {
    fn initial(&mut self) -> Waiting<'_, Bytes> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }

    fn answer(&mut self, _: Bytes) -> Waiting<'_, Option<Bytes>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}
