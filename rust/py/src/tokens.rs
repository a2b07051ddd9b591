//! Tokens that Python makes, for OAUTHBEARER.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyString;
use samsarrow_bridge::lanes::{self, By, Lane};
use samsarrow_client::config::credentials::{Fetching, Provider, Token, TokenSource};
use samsarrow_client::config::{Mechanism, SaslOptions, Secret};
use samsarrow_client::error::{Error, Foreign};
use samsarrow_client::security::redact::redact;
use tokio::sync::oneshot;

const OPTION: &str = "sasl.oauthbearer.token.provider";
/// The option in all its spellings; confluent-kafka's is called with the configuration, whatever it takes.
const NAMES: [&str; 3] = [OPTION, CONFLUENT, "sasl.oauth.token.provider"];
const CONFLUENT: &str = "oauth.cb";

/// Code of the user's, and whether it is called as confluent-kafka calls it.
#[derive(Debug)]
pub(crate) struct Given {
    object: Py<PyAny>,
    confluent: bool,
}

/// If an option is a source of tokens: that, and the text that stands for it among options.
pub(crate) fn of_option<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Option<(Given, Bound<'py, PyAny>)>> {
    let dotted = name.replace('_', ".");
    if !NAMES.contains(&dotted.as_str()) {
        return Ok(None);
    }
    let text = match value.is_instance_of::<PyString>() {
        true => value.clone(),
        false => value.py().import("samsarrow.tokens")?.getattr("describe")?.call1((value,))?,
    };
    Ok(Some((Given { object: value.clone().unbind(), confluent: dotted == CONFLUENT }, text)))
}

/// Has a login take the tokens that Python makes, where there are such.
pub(crate) fn provide(py: Python<'_>, sasl: &mut SaslOptions, given: Option<Given>) -> PyResult<()> {
    let given = given.filter(|_| sasl.mechanism == Mechanism::OAuthBearer);
    let Some((given, name)) = given.zip(sasl.oauth.provider_name.as_ref()) else { return Ok(()) };
    // Text may have been a reference to where the text is.
    let object = match given.object.bind(py).is_instance_of::<PyString>() {
        true => PyString::new(py, name).into_any(),
        false => given.object.bind(py).clone(),
    };
    let source = py.import("samsarrow.tokens")?.getattr("Source")?.call1((object, given.confluent))?;
    let source = Provided {
        name: format!("{OPTION} ({name})"),
        source: Arc::new(source.unbind()),
        config: sasl.oauth.config.clone().unwrap_or_default(),
        lane: lanes::begin(py, "samsarrow-tokens", By::Thread)?,
    };
    sasl.oauth.provider = Some(Provider(Arc::new(source)));
    Ok(())
}

/// Tokens of one client, made on a thread of their own: a function that hangs keeps no other client from its tokens.
#[derive(Debug)]
struct Provided {
    name: String,
    source: Arc<Py<PyAny>>,
    config: Secret,
    lane: Arc<Lane>,
}

impl Drop for Provided {
    fn drop(&mut self) {
        if self.lane.is_ours() {
            let source = Arc::clone(&self.source);
            self.lane
                .finish(move |py| Ok((source.bind(py).getattr("close")?.unbind(), ().into_pyobject(py)?.unbind())));
        }
    }
}

impl TokenSource for Provided {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn fetch(&self) -> Fetching<'_> {
        let (sender, answer) = oneshot::channel();
        let (source, config, name) = (Arc::clone(&self.source), self.config.clone(), self.name.clone());
        self.lane.push(usize::MAX, move |py| {
            let config_text = config.reveal().to_owned();
            let reply = Py::new(py, TokenReply { name, config, sender: Mutex::new(Some(sender)) })?;
            let answer = source.bind(py).getattr("answer")?.unbind();
            Ok((answer, (config_text, reply).into_pyobject(py)?.unbind()))
        });
        Box::pin(async {
            // Nobody is called any more once Python ends.
            answer.await.unwrap_or_else(|_| Err(Error::connection(&self.name, "it could not be called")))
        })
    }
}

/// Takes a token, or why there is none, once.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct TokenReply {
    name: String,
    config: Secret,
    sender: Mutex<Option<oneshot::Sender<Result<Token, Error>>>>,
}

impl TokenReply {
    fn settle(&self, found: Result<Token, Error>) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // Nobody may wait any more.
            let _ = sender.send(found);
        }
    }
}

#[pymethods]
impl TokenReply {
    /// `until`: seconds since 1970.
    fn give(&self, token: String, until: Option<f64>, extensions: Vec<(String, String)>) {
        let made = Token::until_seconds(token, until).and_then(|token| token.with_extensions(extensions));
        self.settle(made.map_err(|text| Error::authentication(&self.name, text)));
    }

    /// `passing`: whether another attempt may do.
    fn fail(&self, raised: Py<PyAny>, text: &str, passing: bool) {
        let text = redact(text, [self.config.clone()]);
        self.settle(Err(match passing {
            true => Error::connection(&self.name, text),
            false => Error::authentication(&self.name, text).caused_by(Foreign(Arc::new(raised))),
        }));
    }
}
