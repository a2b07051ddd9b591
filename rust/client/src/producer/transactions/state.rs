//! State machine of a transactional producer. It does no I/O and is protected by the lock of the accumulator.
//!
//! ```text
//! New ─▶ Starting ─▶ Ready ─▶ Open ─▶ Committing ─▶ Ready
//!                               │          │
//!                               ▼          ▼
//!                           Abortable ◀────┘          any ─▶ Fatal
//!                               └─▶ Aborting ─▶ Ready
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::collections::HashSet;
use crate::error::{Error, Result};
use crate::producer::topic::Slot;
use crate::reached;

/// Version of the transaction protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The producer registers partitions and groups before it writes; the epoch does not change.
    V1,
    /// Brokers register partitions and groups on write, and each end of a transaction raises the epoch (KIP-890).
    V2,
}

#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// The producer ID was not requested yet.
    New,
    /// The producer ID is being requested.
    Starting,
    /// No transaction is open.
    Ready,
    /// A transaction is open and accepts records.
    Open,
    Committing,
    Aborting,
    /// The transaction failed and must be aborted.
    Abortable(Error),
    /// The producer failed and can only be closed.
    Fatal(Error),
}

impl Phase {
    fn name(&self) -> &'static str {
        match self {
            Self::New => "New",
            Self::Starting => "Starting",
            Self::Ready => "Ready",
            Self::Open => "Open",
            Self::Committing => "Committing",
            Self::Aborting => "Aborting",
            Self::Abortable(_) => "Abortable",
            Self::Fatal(_) => "Fatal",
        }
    }
}

/// Asynchronous operation that changes the phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Init,
    Commit,
    Abort,
}

impl Operation {
    /// Returns the name of the application's call.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Init => "init_transactions",
            Self::Commit => "commit_transaction",
            Self::Abort => "abort_transaction",
        }
    }
}

/// Outcome of an operation, or `None` until the operation is complete.
pub(crate) type Outcome = Option<Result<()>>;

/// An operation that is running, or whose outcome no call has returned yet.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) operation: Operation,
    pub(crate) outcome: watch::Receiver<Outcome>,
}

/// Result of [`Transaction::start_or_join`].
#[derive(Debug)]
pub(crate) enum OperationEntry {
    /// The operation is new, so the caller runs it and sends its outcome to this channel.
    Start(watch::Sender<Outcome>, watch::Receiver<Outcome>),
    /// The operation was started by an earlier call.
    Join(watch::Receiver<Outcome>),
}

#[derive(Debug)]
pub(crate) struct Transaction {
    id: Arc<str>,
    /// `transaction.timeout.ms`.
    timeout: Duration,
    phase: Phase,
    /// Number of the open or last transaction. A call that began in one transaction must not add records to the next.
    number: u64,
    pub(crate) protocol: Protocol,
    /// True if the coordinator may have started the transaction. The transaction must then be ended at the coordinator.
    pub(crate) started: bool,
    /// Time of the first request that may have started the transaction at the coordinator, where its timeout begins.
    first_request: Option<Instant>,
    /// True if sequences are uncertain. The next transaction then needs another epoch (KIP-360).
    pub(crate) bump_epoch: bool,
    /// True once a transaction has been opened.
    pub(crate) used: bool,
    /// Partitions registered with the coordinator.
    registered: HashSet<Slot>,
    /// Partitions to register before records are written to them.
    unregistered: BTreeSet<Slot>,
    pub(crate) registering: bool,
    /// Number of pending requests that add offsets.
    pub(crate) pending_offset_requests: usize,
    pending: Option<Pending>,
}

impl Transaction {
    pub(crate) fn new(id: Arc<str>, timeout: Duration) -> Self {
        Self {
            id,
            timeout,
            phase: Phase::New,
            number: 0,
            protocol: Protocol::V1,
            started: false,
            first_request: None,
            bump_epoch: false,
            used: false,
            registered: HashSet::default(),
            unregistered: BTreeSet::new(),
            registering: false,
            pending_offset_requests: 0,
            pending: None,
        }
    }

    /// Returns the number of the open or last transaction; 0 before the first transaction.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Returns the operation that is running, or whose outcome no call has returned yet.
    pub(crate) fn pending(&self) -> Option<&Pending> {
        self.pending.as_ref()
    }

    fn enter(&mut self, phase: Phase) {
        reached::transition("transaction", self.phase.name(), phase.name());
        self.phase = phase;
    }

    fn state_error(&self, call: &str, why: &str) -> Error {
        Error::State(format!("{call} of transactional id {}: {why}", self.id))
    }

    /// Returns the error that rejects all calls except an abort.
    pub(crate) fn error(&self) -> Option<Error> {
        match &self.phase {
            Phase::Abortable(cause) => Some(Error::Transaction { fatal: false, cause: Box::new(cause.clone()) }),
            Phase::Fatal(cause) => Some(Error::Transaction { fatal: true, cause: Box::new(cause.clone()) }),
            _ => None,
        }
    }

    /// Checks that `call` may add records or offsets to the transaction.
    #[inline]
    pub(crate) fn check_state(&self, call: &str) -> Result<()> {
        if matches!(self.phase, Phase::Open) { Ok(()) } else { Err(self.rejection(call)) }
    }

    fn rejection(&self, call: &str) -> Error {
        if let Some(error) = self.error() {
            return error;
        }
        let why = match self.phase {
            Phase::Committing => "the transaction is being committed",
            Phase::Aborting => "the transaction is being aborted",
            _ => "no transaction is open: call begin_transaction first",
        };
        self.state_error(call, why)
    }

    /// Rejects a call while the outcome of an earlier call that timed out is unknown.
    fn check_pending(&self, call: &str) -> Result<()> {
        match &self.pending {
            Some(pending) => {
                let earlier = pending.operation.name();
                Err(self
                    .state_error(call, &format!("an earlier call of {earlier} has not ended: call {earlier} again")))
            }
            None => Ok(()),
        }
    }

    /// Returns true if `begin_transaction` must wait for a producer ID first, because the producer has no ID or because
    /// an earlier call that requested the ID timed out.
    pub(crate) fn needs_init(&self) -> bool {
        matches!(self.phase, Phase::New | Phase::Starting)
            || self.pending.as_ref().is_some_and(|pending| pending.operation == Operation::Init)
    }

    /// Opens a transaction. The producer ID must be initialized.
    pub(crate) fn begin(&mut self, protocol: Protocol) -> Result<()> {
        const CALL: &str = "begin_transaction";
        self.check_pending(CALL)?;
        match self.phase {
            Phase::Ready => {
                self.protocol = protocol;
                self.used = true;
                self.number += 1;
                self.enter(Phase::Open);
                Ok(())
            }
            Phase::New | Phase::Starting => Err(self.state_error(CALL, "call init_transactions first")),
            _ => Err(self.error().unwrap_or_else(|| self.state_error(CALL, "a transaction is open already"))),
        }
    }

    /// Starts an operation, or joins it if an earlier call has started it.
    pub(crate) fn start_or_join(&mut self, operation: Operation) -> Result<OperationEntry> {
        if let Some(pending) = &self.pending {
            if pending.operation == operation {
                return Ok(OperationEntry::Join(pending.outcome.clone()));
            }
            self.check_pending(operation.name())?;
        }
        let next = match (operation, &self.phase) {
            (_, Phase::Fatal(_)) => Err(self.rejection(operation.name())),
            (Operation::Init, Phase::New) => Ok(Phase::Starting),
            (Operation::Init, _) => Err(self.state_error(operation.name(), "it was called before")),
            (Operation::Commit, Phase::Open) => Ok(Phase::Committing),
            // The coordinator decides whether the producer was fenced or only has an old epoch.
            (Operation::Commit, Phase::Abortable(cause)) if self.started && is_old_epoch(cause) => {
                Ok(self.phase.clone())
            }
            (Operation::Abort, Phase::Open | Phase::Abortable(_)) => Ok(Phase::Aborting),
            (_, _) => Err(self.rejection(operation.name())),
        };
        self.enter(next?);
        Ok(self.start(operation))
    }

    /// Starts the request for a newer epoch of the current producer ID (KIP-360).
    pub(crate) fn renew(&mut self) -> Result<OperationEntry> {
        self.check_pending("begin_transaction")?;
        self.enter(Phase::Starting);
        Ok(self.start(Operation::Init))
    }

    fn start(&mut self, operation: Operation) -> OperationEntry {
        let (sender, outcome) = watch::channel(None);
        self.pending = Some(Pending { operation, outcome: outcome.clone() });
        OperationEntry::Start(sender, outcome)
    }

    /// Records that a call has returned this outcome. A late call, for example after a cancelled wait, does not affect
    /// an operation that was started after its own operation.
    pub(crate) fn outcome_returned(&mut self, outcome: &watch::Receiver<Outcome>) {
        self.pending.take_if(|pending| pending.outcome.same_channel(outcome));
    }

    /// Enters the ready phase after the end of a transaction or with a new producer ID.
    pub(crate) fn set_ready(&mut self) {
        if matches!(self.phase, Phase::Fatal(_)) {
            return;
        }
        self.enter(Phase::Ready);
        self.reset();
    }

    /// Resets the state after the coordinator has ended the transaction.
    pub(crate) fn reset(&mut self) {
        self.started = false;
        self.first_request = None;
        self.bump_epoch = false;
        self.registered.clear();
        self.unregistered.clear();
    }

    /// Fails the transaction after a permanent error. Returns true if the phase has changed.
    pub(crate) fn fail(&mut self, error: &Error) -> bool {
        let fatal = is_fatal(error);
        if self.protocol == Protocol::V1 {
            // After a failed batch, the sequences of later batches of the same epoch would not follow the last appended
            // batch, so the next transaction needs another epoch.
            self.bump_epoch |= self.started || is_unknown_producer(error);
        }
        match self.phase {
            Phase::Fatal(_) => false,
            _ if fatal => {
                self.enter(Phase::Fatal(error.clone()));
                true
            }
            Phase::Open | Phase::Committing => {
                self.enter(Phase::Abortable(error.clone()));
                true
            }
            _ => false,
        }
    }

    /// Fails the producer permanently. The first cause is kept.
    pub(crate) fn fail_fatal(&mut self, error: Error) {
        if !matches!(self.phase, Phase::Fatal(_)) {
            self.enter(Phase::Fatal(error));
        }
    }

    /// Returns true if batches may be sent to a partition. Otherwise adds the partition to the partitions to register.
    pub(crate) fn may_write(&mut self, slot: Slot) -> bool {
        if self.protocol == Protocol::V2 || self.registered.contains(&slot) {
            return !matches!(self.phase, Phase::Fatal(_));
        }
        if matches!(self.phase, Phase::Open | Phase::Committing) {
            self.unregistered.insert(slot);
        }
        false
    }

    /// Records that a batch is sent, which starts the transaction in protocol V2.
    pub(crate) fn batch_sent(&mut self) {
        if self.protocol == Protocol::V2 {
            self.start_clock();
            self.started = true;
        }
    }

    /// Records the time of the first request of the transaction.
    pub(crate) fn start_clock(&mut self) {
        self.first_request.get_or_insert_with(Instant::now);
    }

    /// Wraps an error in [`Error::TransactionTimedOut`] if the transaction was open for longer than
    /// `transaction.timeout.ms`. Brokers reject later requests with the codes of fenced producers and of invalid
    /// states.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let Some(open) = self.first_request.map(|first| first.elapsed()) else { return error };
        let follows = matches!(
            error,
            Error::Server {
                code: ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_PRODUCER_EPOCH | ErrorCode::INVALID_TXN_STATE,
                ..
            }
        );
        if follows && open > self.timeout {
            return Error::TransactionTimedOut { open, timeout: self.timeout, cause: Box::new(error) };
        }
        error
    }

    /// Returns true if a registration must be started now, and marks it as started. A rejected registration is not
    /// repeated, because it would be rejected again until the application aborts the transaction.
    pub(crate) fn start_registering(&mut self) -> bool {
        let start = self.in_progress() && !self.registering && !self.unregistered.is_empty();
        if start {
            self.start_clock();
        }
        self.registering |= start;
        start
    }

    /// Returns the partitions to register.
    pub(crate) fn unregistered(&self) -> Vec<Slot> {
        self.unregistered.iter().copied().collect()
    }

    /// Records that the coordinator has registered these partitions.
    pub(crate) fn registered(&mut self, slots: &[Slot]) {
        self.started = true;
        for slot in slots {
            self.unregistered.remove(slot);
            self.registered.insert(*slot);
        }
    }

    /// Discards the partitions to register, because no records will be written to them.
    pub(crate) fn forget_unregistered(&mut self) {
        self.unregistered.clear();
    }

    /// Returns true while requests may be retried, which is the case while the transaction is open or being committed.
    pub(crate) fn in_progress(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Committing)
    }

    /// Returns true while requests are pending that must complete before the transaction ends.
    pub(crate) fn busy(&self) -> bool {
        self.registering || self.pending_offset_requests > 0
    }
}

/// Returns true if a leader has reported a newer epoch. The epoch belongs to another producer, or the coordinator has
/// raised it after a timeout of the transaction.
pub(crate) fn is_old_epoch(error: &Error) -> bool {
    error.code() == Some(ErrorCode::INVALID_PRODUCER_EPOCH.code())
}

/// Returns true if the coordinator no longer knows the producer, and therefore has no transaction to end.
pub(crate) fn is_unknown_producer(error: &Error) -> bool {
    error.code() == Some(ErrorCode::INVALID_PRODUCER_ID_MAPPING.code())
}

/// Returns true if the error of a batch or offset commit is fatal to the producer (KIP-1050). After other errors, the
/// producer can recover by an abort. If the producer has been fenced, the coordinator rejects the abort.
fn is_fatal(error: &Error) -> bool {
    match error {
        Error::Server { code, .. } => matches!(
            *code,
            ErrorCode::PRODUCER_FENCED
                | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
                | ErrorCode::UNSUPPORTED_VERSION
                | ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT
        ),
        Error::TransactionTimedOut { cause, .. } => is_fatal(cause),
        Error::Closed(_) | Error::UnsupportedVersion(_) => true,
        _ => false,
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
