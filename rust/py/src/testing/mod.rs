//! The embedded broker of `samsarrow._core`.

mod security;

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use samsarrow_bridge::runtime::{Owned, run};
use samsarrow_broker::{
    Broker as Core, BrokerOptions, Codec, Fault, GroupOptions, Release, ShareOptions, TelemetryOptions, TelemetryPush,
    TransactionOptions,
};
use samsarrow_client::config::nearest;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

use security::{Altered, Security};

/// See `samsarrow.testing.Broker`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Broker {
    core: Owned<Core>,
}

/// Converts an error for invalid arguments to `ValueError`, and other errors to `OSError`.
pub(crate) fn to_py(error: io::Error) -> PyErr {
    if error.kind() == io::ErrorKind::InvalidInput { PyValueError::new_err(error.to_string()) } else { error.into() }
}

pub(crate) fn value_error<T>(text: String) -> PyResult<T> {
    Err(PyValueError::new_err(text))
}

/// Returns the element of `all` that is called `expected`. If there is no such element, the error lists the valid
/// names.
pub(crate) fn by_name<T>(
    what: &str,
    expected: &str,
    all: impl Iterator<Item = T> + Clone,
    name: fn(&T) -> &'static str,
) -> PyResult<T> {
    match all.clone().find(|item| name(item) == expected) {
        Some(item) => Ok(item),
        None => {
            let names: Vec<_> = all.map(|item| name(&item)).collect();
            let hint = match nearest(expected, names.iter().copied()) {
                Some(name) => format!("did you mean {name}?"),
                None if names.len() <= 8 => format!("it is one of {}", names.join(", ")),
                None => "it is named as in Kafka's protocol".to_owned(),
            };
            value_error(format!("{what} {expected} is unknown; {hint}"))
        }
    }
}

fn api_named(name: &str) -> PyResult<ApiKey> {
    let served: Vec<_> = Core::apis().collect();
    by_name("API", name, served.into_iter(), |key| key.name())
}

pub(crate) fn error_named(name: &str) -> PyResult<ErrorCode> {
    let failures: Vec<_> = ErrorCode::ALL.iter().copied().filter(|code| !code.is_none()).collect();
    by_name("error", name, failures.into_iter(), |code| code.name())
}

pub(crate) fn duration(what: &str, seconds: f64) -> PyResult<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) => Ok(duration),
        Err(_) => value_error(format!("{what} of {seconds} seconds: it must be 0 or more")),
    }
}

/// Converts the arguments of `Broker.fail`: one of `error`, `drop` and `garbage` with an optional `delay`, or only a
/// `delay`.
fn fault(error: Option<&str>, drop: Option<&str>, garbage: bool, delay: Option<f64>, handled: bool) -> PyResult<Fault> {
    let dropped = match drop {
        None => None,
        Some("before") => Some(Fault::DropBefore),
        Some("after") => Some(Fault::DropAfter),
        Some(other) => return value_error(format!("drop={other:?}: it must be \"before\" or \"after\"")),
    };
    if handled && error.is_none() {
        return value_error("handled=True is for an error: give its name".to_owned());
    }
    let error = error.map(error_named).transpose()?;
    let error = error.map(if handled { Fault::Answer } else { Fault::Error });
    let delay = delay.map(|delay| duration("a delay", delay)).transpose()?;
    let faults: Vec<Fault> = [error, dropped, garbage.then_some(Fault::Garbage)].into_iter().flatten().collect();
    match (<[Fault; 1]>::try_from(faults), delay) {
        (Ok([fault]), None) => Ok(fault),
        (Ok([fault]), Some(delay)) => Ok(Fault::Late(delay, Box::new(fault))),
        (Err(faults), Some(delay)) if faults.is_empty() => Ok(Fault::Delay(delay)),
        (Err(faults), None) if faults.is_empty() => {
            value_error("no fault given: pass error, drop, garbage or delay".to_owned())
        }
        (Err(_), _) => value_error("error, drop and garbage exclude each other: give one of them".to_owned()),
    }
}

/// Converts the time options of groups and transactions, which are given in seconds by keyword. Missing options keep
/// their defaults.
fn group_and_transaction_options(times: &BTreeMap<String, f64>) -> PyResult<(GroupOptions, TransactionOptions)> {
    let (mut options, mut transactions) = (GroupOptions::default(), TransactionOptions::default());
    for (name, seconds) in times {
        let option = match name.as_str() {
            "transaction_max_timeout" => &mut transactions.max_timeout,
            "transaction_marker_delay" => &mut transactions.marker_delay,
            "transactional_id_expiration" => &mut transactions.id_expiration,
            "producer_id_expiration" => &mut transactions.producer_id_expiration,
            "group_initial_rebalance_delay" => &mut options.initial_rebalance_delay,
            "group_min_session_timeout" => &mut options.min_session_timeout,
            "group_max_session_timeout" => &mut options.max_session_timeout,
            "consumer_group_heartbeat_interval" => &mut options.consumer_heartbeat_interval,
            "consumer_group_session_timeout" => &mut options.consumer_session_timeout,
            "offsets_retention" => &mut options.offsets_retention,
            other => return value_error(format!("option {other} is unknown")),
        };
        *option = duration(name, *seconds)?;
    }
    Ok((options, transactions))
}

/// Lock duration in seconds, delivery limit and record locks of share groups. Missing options keep their defaults.
type Shares = (Option<f64>, Option<i16>, Option<u32>);

fn share_options((lock, delivery_limit, record_locks): Shares) -> PyResult<ShareOptions> {
    let default = ShareOptions::default();
    Ok(ShareOptions {
        lock: lock.map_or(Ok(default.lock), |lock| duration("share_lock", lock))?,
        delivery_limit: delivery_limit.unwrap_or(default.delivery_limit),
        record_locks: record_locks.unwrap_or(default.record_locks),
        ..default
    })
}

/// Returns the Kafka release for a version number.
fn release(version: &str) -> PyResult<Release> {
    let known = || Release::ALL.iter().map(Release::to_string).collect::<Vec<_>>().join(", ");
    Release::named(version)
        .map_or_else(|| value_error(format!("kafka_version={version:?}: it must be one of {}", known())), Ok)
}

/// Metric prefixes, push interval in seconds, maximum size of a push in bytes, true for delta temporality, and codecs.
type Telemetry = (Vec<String>, f64, usize, bool, Vec<String>);
/// Client id, client instance id, true if the client is terminating, codec, and encoded metrics.
type Push = (String, [u8; 16], bool, &'static str, Vec<u8>);

fn telemetry_options((requested, interval, max_bytes, delta, codecs): Telemetry) -> PyResult<TelemetryOptions> {
    let compression =
        codecs.iter().map(|name| Codec::from_name(name).map_err(|e| PyValueError::new_err(e.to_string())));
    let compression = compression.collect::<PyResult<_>>()?;
    Ok(TelemetryOptions {
        requested,
        interval: duration("telemetry_interval", interval)?,
        max_bytes,
        delta,
        compression,
    })
}

#[pymethods]
impl Broker {
    #[new]
    #[allow(clippy::too_many_arguments, reason = "the arguments of Python's constructor")]
    fn new(
        py: Python<'_>,
        brokers: usize,
        topics: Vec<(String, i32)>,
        port: u16,
        auto_create_topics: bool,
        transaction_version: i16,
        times: BTreeMap<String, f64>,
        kafka_version: Option<&str>,
        security: Security,
        telemetry: Option<Telemetry>,
        shares: Shares,
    ) -> PyResult<Self> {
        let kafka = kafka_version.map(release).transpose()?;
        let (groups, transactions) = group_and_transaction_options(&times)?;
        let transactions = TransactionOptions { version: transaction_version, ..transactions };
        let options = BrokerOptions {
            brokers,
            topics,
            port,
            auto_create_topics,
            groups,
            transactions,
            kafka,
            telemetry: telemetry.map(telemetry_options).transpose()?,
            security: security.options()?,
            shares: share_options(shares)?,
            ..Default::default()
        };
        let core = run(py, async { Ok(Core::start(options).await) })?.map_err(to_py)?;
        Ok(Self { core: Owned::new("broker", core) })
    }

    #[getter]
    fn bootstrap_servers(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.core.get(py)?.bootstrap_servers())
    }

    fn create_topic(&self, py: Python<'_>, name: &str, partitions: i32) -> PyResult<()> {
        self.core.get(py)?.create_topic(name, partitions).map_err(to_py)
    }

    fn stop_node(&self, py: Python<'_>, node: i32) -> PyResult<()> {
        let core = self.core.get(py)?;
        run(py, async { Ok(core.stop_node(node).await) })?.map_err(to_py)
    }

    fn start_node(&self, py: Python<'_>, node: i32) -> PyResult<()> {
        let core = self.core.get(py)?;
        run(py, async { Ok(core.start_node(node).await) })?.map_err(to_py)
    }

    fn move_leader(&self, py: Python<'_>, topic: &str, partition: i32, node: i32) -> PyResult<()> {
        self.core.get(py)?.move_leader(topic, partition, node).map_err(to_py)
    }

    fn move_coordinator(&self, py: Python<'_>, group: &str, node: i32) -> PyResult<()> {
        self.core.get(py)?.move_coordinator(group, node).map_err(to_py)
    }

    fn expire_locks(&self, py: Python<'_>, group: &str) -> PyResult<()> {
        self.core.get(py)?.expire_locks(group).map_err(to_py)
    }

    fn move_transaction_coordinator(&self, py: Python<'_>, transactional_id: &str, node: i32) -> PyResult<()> {
        self.core.get(py)?.move_transaction_coordinator(transactional_id, node).map_err(to_py)
    }

    fn transaction_state(&self, py: Python<'_>, transactional_id: &str) -> PyResult<Option<&'static str>> {
        Ok(self.core.get(py)?.transaction_state(transactional_id))
    }

    /// Returns the metrics that clients have pushed, with the oldest first.
    fn telemetry(&self, py: Python<'_>) -> PyResult<Vec<Push>> {
        let convert = |push: TelemetryPush| {
            (push.client_id, push.client_instance_id.0, push.terminating, push.compression, push.metrics.to_vec())
        };
        Ok(self.core.get(py)?.telemetry().into_iter().map(convert).collect())
    }

    fn fence(&self, py: Python<'_>, transactional_id: &str) -> PyResult<()> {
        self.core.get(py)?.fence(transactional_id).map_err(to_py)
    }

    fn stale_metadata(&self, py: Python<'_>, times: Option<usize>, without: Vec<String>) -> PyResult<()> {
        self.core.get(py)?.stale_metadata(times, &without);
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "the arguments of Python's method")]
    fn fail(
        &self,
        py: Python<'_>,
        api: &str,
        error: Option<&str>,
        times: Option<usize>,
        delay: Option<f64>,
        drop: Option<&str>,
        garbage: bool,
        node: Option<i32>,
        handled: bool,
    ) -> PyResult<()> {
        let core = self.core.get(py)?;
        let fault = fault(error, drop, garbage, delay, handled)?;
        if let Some(node) = node
            && !usize::try_from(node).is_ok_and(|node| node < core.node_count())
        {
            return value_error(format!("there is no node {node}"));
        }
        core.fail(api_named(api)?, node, &fault, times);
        Ok(())
    }

    fn alter_logins(&self, py: Python<'_>, altered: Altered) -> PyResult<()> {
        self.core.get(py)?.alter_logins(altered.alteration()?).map_err(to_py)
    }

    fn ca_pem(&self, py: Python<'_>) -> PyResult<String> {
        self.core.get(py)?.ca_pem().map(str::to_owned).map_err(to_py)
    }

    /// Returns a client certificate and its private key in PEM format.
    fn client_certificate(&self, py: Python<'_>, name: &str) -> PyResult<(String, String)> {
        let identity = self.core.get(py)?.client_certificate(name).map_err(to_py)?;
        Ok((identity.certificate, identity.key))
    }

    /// Returns the numbers of accepted, rejected and resumed connections, and the number of connections with a client
    /// certificate.
    fn connections(&self, py: Python<'_>) -> PyResult<(u64, u64, u64, u64)> {
        let connections = self.core.get(py)?.connections();
        Ok((connections.accepted, connections.refused, connections.resumed, connections.with_certificate))
    }

    /// Returns the numbers of succeeded, failed, repeated and expired logins.
    fn logins(&self, py: Python<'_>) -> PyResult<(u64, u64, u64, u64)> {
        let logins = self.core.get(py)?.logins();
        Ok((logins.succeeded, logins.failed, logins.repeated, logins.expired))
    }

    fn heal(&self, py: Python<'_>, api: Option<&str>) -> PyResult<()> {
        let core = self.core.get(py)?;
        match api {
            Some(api) => core.clear_faults_of(api_named(api)?),
            None => core.clear_faults(),
        }
        Ok(())
    }

    fn requests(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, u64>> {
        let requests = self.core.get(py)?.requests();
        Ok(requests.into_iter().map(|(key, count)| (key.name(), count)).collect())
    }

    fn requests_of(&self, py: Python<'_>, api: &str) -> PyResult<u64> {
        let key = api_named(api)?;
        Ok(self.core.get(py)?.requests().get(&key).copied().unwrap_or_default())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let core = self.core.get(py)?;
        run(py, async {
            core.shutdown().await;
            Ok(())
        })
    }
}
