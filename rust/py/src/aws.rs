//! AWS credentials that Python finds, for AWS_MSK_IAM.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use samsarrow_bridge::lanes::{self, By, Lane};
use samsarrow_client::config::credentials::{AwsCredentialSource, AwsCredentials, AwsProvider};
use samsarrow_client::config::{Mechanism, SaslOptions};
use samsarrow_client::error::{Error, Foreign};
use samsarrow_client::security::redact::redact;
use samsarrow_client::security::sasl::has_aws_environment;
use tokio::sync::oneshot;

const NAME: &str = "AWS credentials";

type Found = Result<AwsCredentials, Error>;

/// Has a login take what Python finds, where that is needed.
pub(crate) fn provide(py: Python<'_>, sasl: &mut SaslOptions) -> PyResult<()> {
    if sasl.mechanism != Mechanism::AwsMskIam || sasl.aws.is_empty() && has_aws_environment() {
        return Ok(());
    }
    let options: BTreeMap<&str, &str> = sasl.aws.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
    let source = py.import("samsarrow._aws")?.getattr("Source")?.call1((options,))?;
    let source =
        Provided { source: Arc::new(source.unbind()), lane: lanes::begin(py, "samsarrow-credentials", By::Thread)? };
    sasl.aws_provider = Some(AwsProvider(Arc::new(source)));
    Ok(())
}

#[derive(Debug)]
struct Provided {
    source: Arc<Py<PyAny>>,
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

impl AwsCredentialSource for Provided {
    fn fetch(&self) -> Pin<Box<dyn Future<Output = Found> + Send + '_>> {
        let (sender, answer) = oneshot::channel();
        let source = Arc::clone(&self.source);
        self.lane.push(usize::MAX, move |py| {
            let reply = Py::new(py, AwsReply { sender: Mutex::new(Some(sender)) })?;
            Ok((source.bind(py).getattr("answer")?.unbind(), (reply,).into_pyobject(py)?.unbind()))
        });
        Box::pin(async { answer.await.unwrap_or_else(|_| Err(Error::connection(NAME, "they could not be looked up"))) })
    }
}

/// Takes credentials, or why there are none, once.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct AwsReply {
    sender: Mutex<Option<oneshot::Sender<Found>>>,
}

impl AwsReply {
    fn settle(&self, found: Found) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // Nobody may wait any more.
            let _ = sender.send(found);
        }
    }
}

#[pymethods]
impl AwsReply {
    #[pyo3(signature = (key_id, secret, token))]
    fn give(&self, key_id: String, secret: String, token: Option<String>) {
        self.settle(Ok(AwsCredentials { key_id, secret: secret.into(), token: token.map(Into::into) }));
    }

    /// `passing`: whether another attempt may do.
    fn fail(&self, raised: Py<PyAny>, text: &str, passing: bool) {
        let text = redact(text, []);
        self.settle(Err(match passing {
            true => Error::connection(NAME, text),
            false => Error::authentication(NAME, text).caused_by(Foreign(Arc::new(raised))),
        }));
    }
}
