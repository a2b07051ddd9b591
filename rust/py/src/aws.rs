//! AWS credentials that are obtained in Python, for AWS_MSK_IAM and AWS Glue Schema Registry.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use samsarrow_bridge::callback_threads::{self, CallbackQueue, RunsOn};
use samsarrow_client::config::credentials::{AwsCredentialSource, AwsCredentials, AwsProvider};
use samsarrow_client::config::{Mechanism, SaslOptions, Secret};
use samsarrow_client::error::{Error, Foreign};
use samsarrow_client::security::aws::has_aws_environment;
use samsarrow_client::security::redact::redact;
use samsarrow_wire::sync::lock;
use tokio::sync::oneshot;

const NAME: &str = "AWS credentials";

type CredentialsResult = Result<AwsCredentials, Error>;

/// Sets the credential source of a client that uses AWS_MSK_IAM.
pub(crate) fn provide(py: Python<'_>, sasl: &mut SaslOptions) -> PyResult<()> {
    if sasl.mechanism == Mechanism::AwsMskIam {
        sasl.aws_provider = provider(py, &sasl.aws)?;
    }
    Ok(())
}

/// Returns the credential source for the options of MSK's login module. Without options, no source is needed if the
/// environment variables contain the credentials.
pub(crate) fn provider(py: Python<'_>, options: &[(String, Secret)]) -> PyResult<Option<AwsProvider>> {
    if options.is_empty() && has_aws_environment() {
        return Ok(None);
    }
    let options: BTreeMap<&str, &str> = options.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
    let source = py.import("samsarrow._aws")?.getattr("Source")?.call1((options,))?;
    let source = PythonCredentialSource {
        source: Arc::new(source.unbind()),
        queue: callback_threads::spawn(py, "samsarrow-credentials", RunsOn::NativeThread)?,
    };
    Ok(Some(AwsProvider(Arc::new(source))))
}

#[derive(Debug)]
struct PythonCredentialSource {
    source: Arc<Py<PyAny>>,
    queue: Arc<CallbackQueue>,
}

impl Drop for PythonCredentialSource {
    fn drop(&mut self) {
        if self.queue.is_of_this_process() {
            let source = Arc::clone(&self.source);
            self.queue
                .close_with(move |py| Ok((source.bind(py).getattr("close")?.unbind(), ().into_pyobject(py)?.unbind())));
        }
    }
}

impl AwsCredentialSource for PythonCredentialSource {
    fn fetch(&self) -> Pin<Box<dyn Future<Output = CredentialsResult> + Send + '_>> {
        let (sender, receiver) = oneshot::channel();
        let source = Arc::clone(&self.source);
        self.queue.push(usize::MAX, move |py| {
            let reply = Py::new(py, AwsReply { sender: Mutex::new(Some(sender)) })?;
            Ok((source.bind(py).getattr("answer")?.unbind(), (reply,).into_pyobject(py)?.unbind()))
        });
        Box::pin(async {
            receiver.await.unwrap_or_else(|_| Err(Error::connection(NAME, "they could not be looked up")))
        })
    }
}

/// Receives credentials or an error. Only the first result is used.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct AwsReply {
    sender: Mutex<Option<oneshot::Sender<CredentialsResult>>>,
}

impl AwsReply {
    fn complete(&self, result: CredentialsResult) {
        let sender = lock(&self.sender).take();
        if let Some(sender) = sender {
            // An error is ignored: the login that waits for the credentials may have been cancelled.
            let _ = sender.send(result);
        }
    }
}

#[pymethods]
impl AwsReply {
    #[pyo3(signature = (key_id, secret, token))]
    fn give(&self, key_id: String, secret: String, token: Option<String>) {
        self.complete(Ok(AwsCredentials { key_id, secret: secret.into(), token: token.map(Into::into) }));
    }

    /// Reports an error. `passing` is true if a retry may succeed.
    fn fail(&self, raised: Py<PyAny>, text: &str, passing: bool) {
        let text = redact(text, []);
        self.complete(Err(match passing {
            true => Error::connection(NAME, text),
            false => Error::authentication(NAME, text).caused_by(Foreign(Arc::new(raised))),
        }));
    }
}
