//! What a transactional producer may do now. No I/O: it lives behind the lock of the queues.
//!
//! ```text
//! New ─▶ Starting ─▶ Ready ─▶ Open ─▶ Committing ─▶ Ready
//!                               │          │
//!                               ▼          ▼
//!                           Abortable ◀────┘          any ─▶ Fatal
//!                               └─▶ Aborting ─▶ Ready
//! ```

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use samsarrow_wire::error_code::ErrorCode;
use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::producer::topic::Slot;

/// How broker and producer agree on what belongs to a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The producer registers partitions and groups before it writes; the epoch stays.
    V1,
    /// Writing registers, and each end raises the epoch (KIP-890).
    V2,
}

#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// Nothing asked yet.
    New,
    /// Asking for an identity.
    Starting,
    /// No transaction is open.
    Ready,
    /// Records are taken.
    Open,
    Committing,
    Aborting,
    /// All that is left is to abort.
    Abortable(Error),
    /// Nothing is left to do.
    Fatal(Error),
}

/// What changes the phase and takes its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Init,
    Commit,
    Abort,
}

impl Operation {
    /// As the user calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Init => "init_transactions",
            Self::Commit => "commit_transaction",
            Self::Abort => "abort_transaction",
        }
    }
}

/// The outcome of an operation, once it is there.
pub(crate) type Outcome = Option<Result<()>>;

/// An operation that goes on, or whose outcome nobody has seen.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) operation: Operation,
    pub(crate) outcome: watch::Receiver<Outcome>,
}

/// How to take part in an operation.
#[derive(Debug)]
pub(crate) enum Entry {
    /// It is new: do the work, and report here.
    Work(watch::Sender<Outcome>, watch::Receiver<Outcome>),
    /// It was begun by an earlier call.
    Join(watch::Receiver<Outcome>),
}

#[derive(Debug)]
pub(crate) struct Transaction {
    id: Arc<str>,
    /// `transaction.timeout.ms`.
    timeout: Duration,
    phase: Phase,
    /// Counts transactions. A call that began in one takes no part in the next.
    number: u64,
    pub(crate) protocol: Protocol,
    /// The coordinator may know of the transaction, so that it must learn of its end.
    pub(crate) started: bool,
    /// The time of the first request from which the coordinator may know of the transaction: its timeout begins then.
    first_request: Option<Instant>,
    /// Sequences are uncertain: the next transaction needs another epoch (KIP-360).
    pub(crate) bump: bool,
    /// There was a transaction before.
    pub(crate) used: bool,
    /// Partitions that the coordinator knows of.
    registered: HashSet<Slot>,
    /// Partitions that it must learn of before anything is written to them.
    unregistered: BTreeSet<Slot>,
    pub(crate) registering: bool,
    /// Offsets on their way to the coordinators of their groups.
    pub(crate) offsets_under_way: usize,
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
            bump: false,
            used: false,
            registered: HashSet::new(),
            unregistered: BTreeSet::new(),
            registering: false,
            offsets_under_way: 0,
            pending: None,
        }
    }

    /// The number of the open transaction, or of the last one.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// An operation that goes on, or whose outcome nobody has seen.
    pub(crate) fn pending(&self) -> Option<&Pending> {
        self.pending.as_ref()
    }

    fn wrong(&self, call: &str, why: &str) -> Error {
        Error::State(format!("{call} of transactional id {}: {why}", self.id))
    }

    /// The error that keeps everything but an abort from being done.
    pub(crate) fn error(&self) -> Option<Error> {
        match &self.phase {
            Phase::Abortable(cause) => Some(Error::Transaction { fatal: false, cause: Box::new(cause.clone()) }),
            Phase::Fatal(cause) => Some(Error::Transaction { fatal: true, cause: Box::new(cause.clone()) }),
            _ => None,
        }
    }

    /// Whether `call` may add something to the transaction.
    #[inline]
    pub(crate) fn admits(&self, call: &str) -> Result<()> {
        if matches!(self.phase, Phase::Open) { Ok(()) } else { Err(self.refusal(call)) }
    }

    fn refusal(&self, call: &str) -> Error {
        if let Some(error) = self.error() {
            return error;
        }
        let why = match self.phase {
            Phase::Committing => "the transaction is being committed",
            Phase::Aborting => "the transaction is being aborted",
            _ => "no transaction is open: call begin_transaction first",
        };
        self.wrong(call, why)
    }

    /// A call must not overtake another that timed out: what came of that is not known yet.
    fn check_pending(&self, call: &str) -> Result<()> {
        match &self.pending {
            Some(pending) => {
                let before = pending.operation.name();
                Err(self
                    .wrong(call, &format!("an earlier call of {before} has not come to its end: call {before} again")))
            }
            None => Ok(()),
        }
    }

    /// Returns whether `begin_transaction` must wait for an identity first: there is none, or a call that asked for one has ended
    /// without its outcome.
    pub(crate) fn needs_init(&self) -> bool {
        matches!(self.phase, Phase::New | Phase::Starting)
            || self.pending.as_ref().is_some_and(|pending| pending.operation == Operation::Init)
    }

    /// Opens a transaction; an identity must be there.
    pub(crate) fn begin(&mut self, protocol: Protocol) -> Result<()> {
        const CALL: &str = "begin_transaction";
        self.check_pending(CALL)?;
        match self.phase {
            Phase::Ready => {
                self.protocol = protocol;
                self.used = true;
                self.number += 1;
                self.phase = Phase::Open;
                Ok(())
            }
            Phase::New | Phase::Starting => Err(self.wrong(CALL, "call init_transactions first")),
            _ => Err(self.error().unwrap_or_else(|| self.wrong(CALL, "a transaction is open already"))),
        }
    }

    /// Begins an operation, or finds the one that an earlier call began.
    pub(crate) fn enter(&mut self, operation: Operation) -> Result<Entry> {
        if let Some(pending) = &self.pending {
            if pending.operation == operation {
                return Ok(Entry::Join(pending.outcome.clone()));
            }
            self.check_pending(operation.name())?;
        }
        let next = match (operation, &self.phase) {
            (_, Phase::Fatal(_)) => Err(self.refusal(operation.name())),
            (Operation::Init, Phase::New) => Ok(Phase::Starting),
            (Operation::Init, _) => Err(self.wrong(operation.name(), "it was called before")),
            (Operation::Commit, Phase::Open) => Ok(Phase::Committing),
            // Whether it was fenced, or only its epoch is old, its coordinator knows.
            (Operation::Commit, Phase::Abortable(cause)) if self.started && epoch_is_old(cause) => {
                Ok(self.phase.clone())
            }
            (Operation::Abort, Phase::Open | Phase::Abortable(_)) => Ok(Phase::Aborting),
            (_, _) => Err(self.refusal(operation.name())),
        };
        self.phase = next?;
        Ok(self.start(operation))
    }

    /// Begins to ask for a newer epoch of an identity that has been used (KIP-360).
    pub(crate) fn renew(&mut self) -> Result<Entry> {
        self.check_pending("begin_transaction")?;
        self.phase = Phase::Starting;
        Ok(self.start(Operation::Init))
    }

    fn start(&mut self, operation: Operation) -> Entry {
        let (sender, outcome) = watch::channel(None);
        self.pending = Some(Pending { operation, outcome: outcome.clone() });
        Entry::Work(sender, outcome)
    }

    /// Anyone who called has seen the outcome. One who learns of it late, as a call whose wait was cancelled, takes away
    /// no operation that was begun since.
    pub(crate) fn seen(&mut self, outcome: &watch::Receiver<Outcome>) {
        self.pending.take_if(|pending| pending.outcome.same_channel(outcome));
    }

    /// The transaction has come to its end, or there is a new identity to begin one with.
    pub(crate) fn ready(&mut self) {
        if matches!(self.phase, Phase::Fatal(_)) {
            return;
        }
        self.phase = Phase::Ready;
        self.ended();
    }

    /// The coordinator holds nothing open any more.
    pub(crate) fn ended(&mut self) {
        self.started = false;
        self.first_request = None;
        self.bump = false;
        self.registered.clear();
        self.unregistered.clear();
    }

    /// Something of the transaction failed for good. Returns whether the phase is another now.
    pub(crate) fn fail(&mut self, error: &Error) -> bool {
        let fatal = is_fatal(error);
        if self.protocol == Protocol::V1 {
            // Without the sequences of what failed, later ones of the same epoch have no place.
            self.bump |= self.started || is_forgotten(error);
        }
        match self.phase {
            Phase::Fatal(_) => false,
            _ if fatal => {
                self.phase = Phase::Fatal(error.clone());
                true
            }
            Phase::Open | Phase::Committing => {
                self.phase = Phase::Abortable(error.clone());
                true
            }
            _ => false,
        }
    }

    /// The producer can do no more.
    pub(crate) fn fail_for_good(&mut self, error: Error) {
        if !matches!(self.phase, Phase::Fatal(_)) {
            self.phase = Phase::Fatal(error);
        }
    }

    /// Whether batches for a partition may be written; a partition that is new to the coordinator is registered first.
    pub(crate) fn may_write(&mut self, slot: Slot) -> bool {
        if self.protocol == Protocol::V2 || self.registered.contains(&slot) {
            return !matches!(self.phase, Phase::Fatal(_));
        }
        if matches!(self.phase, Phase::Open | Phase::Committing) {
            self.unregistered.insert(slot);
        }
        false
    }

    /// A batch goes out: where writing registers, the transaction has begun.
    pub(crate) fn writes(&mut self) {
        if self.protocol == Protocol::V2 {
            self.start_clock();
            self.started = true;
        }
    }

    /// Takes the time of the first request of the transaction.
    pub(crate) fn start_clock(&mut self) {
        self.first_request.get_or_insert_with(Instant::now);
    }

    /// Adds to an error that the transaction has timed out, if it was open for longer than its timeout. The codes with
    /// which brokers reject what follows are those of fenced producers and of calls in a wrong state.
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

    /// Whether a registration is to be started now. One that was refused is not: it would be refused again, at once and
    /// for as long as nobody ends the transaction.
    pub(crate) fn start_registering(&mut self) -> bool {
        let start = self.goes_on() && !self.registering && !self.unregistered.is_empty();
        if start {
            self.start_clock();
        }
        self.registering |= start;
        start
    }

    /// The partitions to register.
    pub(crate) fn unregistered(&self) -> Vec<Slot> {
        self.unregistered.iter().copied().collect()
    }

    /// The coordinator has taken these partitions.
    pub(crate) fn registered(&mut self, slots: &[Slot]) {
        self.started = true;
        for slot in slots {
            self.unregistered.remove(slot);
            self.registered.insert(*slot);
        }
    }

    /// What waits to be registered is not going to be written.
    pub(crate) fn forget_unregistered(&mut self) {
        self.unregistered.clear();
    }

    /// Whether asking again for what was refused makes sense.
    pub(crate) fn goes_on(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Committing)
    }

    /// Whether requests are under way that must be answered before the transaction ends.
    pub(crate) fn busy(&self) -> bool {
        self.registering || self.offsets_under_way > 0
    }
}

/// A leader knows a newer epoch: of another producer, or of the coordinator that timed the transaction out.
pub(crate) fn epoch_is_old(error: &Error) -> bool {
    error.code() == Some(ErrorCode::INVALID_PRODUCER_EPOCH.code())
}

/// The coordinator no longer knows the producer: there is nothing that it could end.
pub(crate) fn is_forgotten(error: &Error) -> bool {
    error.code() == Some(ErrorCode::INVALID_PRODUCER_ID_MAPPING.code())
}

/// Whether a producer whose records or offsets were refused has no way on (KIP-1050). What only says that these were not
/// taken is healed by an abort, during which the coordinator says if it is worse.
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
