//! OAUTHBEARER tokens from a Python provider.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::PyString;
use samsarrow_bridge::callback_threads::{self, CallbackQueue, RunsOn};
use samsarrow_client::config::credentials::{Fetching, Provider, Token, TokenSource};
use samsarrow_client::config::{Mechanism, SaslOptions, Secret};
use samsarrow_client::error::{Error, Foreign};
use samsarrow_client::security::redact::redact;
use samsarrow_wire::sync::lock;
use tokio::sync::oneshot;

const OPTION: &str = "sasl.oauthbearer.token.provider";
/// All names of the option. If the provider is given as `oauth.cb`, it is called with the configuration, as in
/// confluent-kafka.
const NAMES: [&str; 3] = [OPTION, CONFLUENT, "sasl.oauth.token.provider"];
const CONFLUENT: &str = "oauth.cb";

/// A token provider. `confluent` is true if it is called with the configuration, as in confluent-kafka.
#[derive(Debug)]
pub(crate) struct UserProvider {
    object: Py<PyAny>,
    confluent: bool,
}

/// Returns the token provider, and its description, which becomes the value of the option. Returns `None` if the option
/// is not a token provider.
pub(crate) fn from_option<'py>(
    name: &str,
    value: &Bound<'py, PyAny>,
) -> PyResult<Option<(UserProvider, Bound<'py, PyAny>)>> {
    let dotted = name.replace('_', ".");
    if !NAMES.contains(&dotted.as_str()) {
        return Ok(None);
    }
    let text = match value.is_instance_of::<PyString>() {
        true => value.clone(),
        false => value.py().import("samsarrow.tokens")?.getattr("describe")?.call1((value,))?,
    };
    Ok(Some((UserProvider { object: value.clone().unbind(), confluent: dotted == CONFLUENT }, text)))
}

/// Sets the token source of a client, if a provider is configured.
pub(crate) fn provide(py: Python<'_>, sasl: &mut SaslOptions, provider: Option<UserProvider>) -> PyResult<()> {
    let provider = provider.filter(|_| sasl.mechanism == Mechanism::OAuthBearer);
    let Some((provider, name)) = provider.zip(sasl.oauth.provider_name.as_ref()) else { return Ok(()) };
    // The text may be a reference, such as the name of a variable, which is resolved only in the parsed options.
    let object = match provider.object.bind(py).is_instance_of::<PyString>() {
        true => PyString::new(py, name).into_any(),
        false => provider.object.bind(py).clone(),
    };
    let source = py.import("samsarrow.tokens")?.getattr("Source")?.call1((object, provider.confluent))?;
    let source = PythonTokenSource {
        name: format!("{OPTION} ({name})"),
        source: Arc::new(source.unbind()),
        config: sasl.oauth.config.clone().unwrap_or_default(),
        queue: callback_threads::spawn(py, "samsarrow-tokens", RunsOn::NativeThread)?,
    };
    sasl.oauth.provider = Some(Provider(Arc::new(source)));
    Ok(())
}

/// Token source of one client. Each source has its own thread, so that a provider that hangs does not delay other
/// clients.
#[derive(Debug)]
struct PythonTokenSource {
    name: String,
    source: Arc<Py<PyAny>>,
    config: Secret,
    queue: Arc<CallbackQueue>,
}

impl Drop for PythonTokenSource {
    fn drop(&mut self) {
        if self.queue.is_of_this_process() {
            let source = Arc::clone(&self.source);
            self.queue
                .close_with(move |py| Ok((source.bind(py).getattr("close")?.unbind(), ().into_pyobject(py)?.unbind())));
        }
    }
}

impl TokenSource for PythonTokenSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn fetch(&self) -> Fetching<'_> {
        let (sender, receiver) = oneshot::channel();
        let (source, config, name) = (Arc::clone(&self.source), self.config.clone(), self.name.clone());
        self.queue.push(usize::MAX, move |py| {
            let config_text = config.reveal().to_owned();
            let reply = Py::new(py, TokenReply { name, config, sender: Mutex::new(Some(sender)) })?;
            let answer = source.bind(py).getattr("answer")?.unbind();
            Ok((answer, (config_text, reply).into_pyobject(py)?.unbind()))
        });
        Box::pin(async {
            // The channel is closed if the interpreter exits, because the queue then drops its calls.
            receiver.await.unwrap_or_else(|_| Err(Error::connection(&self.name, "it could not be called")))
        })
    }
}

/// Receives a token or an error. Only the first result is used.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct TokenReply {
    name: String,
    config: Secret,
    sender: Mutex<Option<oneshot::Sender<Result<Token, Error>>>>,
}

impl TokenReply {
    fn complete(&self, result: Result<Token, Error>) {
        let sender = lock(&self.sender).take();
        if let Some(sender) = sender {
            // An error is ignored: the login that waits for the token may have been cancelled.
            let _ = sender.send(result);
        }
    }
}

#[pymethods]
impl TokenReply {
    /// Reports a token. `until` is its expiry in seconds since 1970.
    fn give(&self, token: String, until: Option<f64>, extensions: Vec<(String, String)>) {
        let token = Token::until_seconds(token, until).and_then(|token| token.with_extensions(extensions));
        self.complete(token.map_err(|text| Error::authentication(&self.name, text)));
    }

    /// Reports an error. `passing` is true if a retry may succeed.
    fn fail(&self, raised: Py<PyAny>, text: &str, passing: bool) {
        let text = redact(text, [self.config.clone()]);
        self.complete(Err(match passing {
            true => Error::connection(&self.name, text),
            false => Error::authentication(&self.name, text).caused_by(Foreign(Arc::new(raised))),
        }));
    }
}
