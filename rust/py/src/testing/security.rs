//! Security options of the embedded broker.

use std::collections::BTreeMap;

use bytes::Bytes;
use pyo3::prelude::*;
use samsarrow_broker::{Alteration, ClientAuth, Mechanism, Protocol, Replacement, SecurityOptions};
use samsarrow_wire::error_code::ErrorCode;

use super::{by_name, duration, error_named, to_py, value_error};

/// The security arguments of `Broker`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Security {
    protocol: String,
    users: BTreeMap<String, String>,
    mechanisms: Option<Vec<String>>,
    session_lifetime: Option<f64>,
    client_auth: String,
}

impl Security {
    pub(crate) fn options(self) -> PyResult<SecurityOptions> {
        let mechanism = |name: String| {
            by_name("mechanism", &name.to_ascii_uppercase(), Mechanism::ALL.iter().copied(), Mechanism::name)
        };
        let (protocols, defaults) = (Protocol::ALL.iter().copied(), SecurityOptions::default());
        let auths = ClientAuth::ALL.iter().copied();
        Ok(SecurityOptions {
            protocol: by_name("security", &self.protocol.to_ascii_uppercase(), protocols, Protocol::name)?,
            client_auth: by_name("client_auth", &self.client_auth, auths, ClientAuth::name)?,
            users: self.users.into_iter().collect(),
            mechanisms: match self.mechanisms {
                Some(names) => names.into_iter().map(mechanism).collect::<PyResult<_>>()?,
                None => defaults.mechanisms.clone(),
            },
            session_lifetime: self.session_lifetime.map(|seconds| duration("session_lifetime", seconds)).transpose()?,
            ..defaults
        })
    }
}

/// Arguments of `Broker.alter_logins`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Altered {
    step: Option<u32>,
    node: Option<i32>,
    times: Option<usize>,
    error: Option<String>,
    message: Option<String>,
    mechanisms: Option<Vec<String>>,
    token: Option<Vec<u8>>,
    replace: Option<(String, Vec<u8>)>,
    session_lifetime: Option<f64>,
}

impl Altered {
    pub(crate) fn alteration(self) -> PyResult<Alteration> {
        let code = |name: String| if name == "NONE" { Ok(ErrorCode::NONE) } else { error_named(&name) };
        let replacement = |(pattern, with): (String, Vec<u8>)| Replacement::new(&pattern, &with).map_err(to_py);
        if self.token.is_some() && self.replace.is_some() {
            return value_error("token and replace exclude each other: give one of them".to_owned());
        }
        Ok(Alteration {
            step: self.step,
            node: self.node,
            times: self.times,
            error: self.error.map(code).transpose()?,
            message: self.message,
            mechanisms: self.mechanisms,
            token: self.token.map(Bytes::from),
            replace: self.replace.map(replacement).transpose()?,
            session_lifetime: self.session_lifetime.map(|seconds| duration("session_lifetime", seconds)).transpose()?,
        })
    }
}
