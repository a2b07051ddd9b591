//! Transactional operations (KIP-98, and protocol V2, KIP-890): init, begin, commit and abort.
//!
//! An operation that sends requests to the coordinator runs in its own task. If a call times out or is cancelled, the
//! operation continues, and the next call of the same name waits for the same outcome. Therefore a request that ends a
//! transaction is never abandoned half-way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::error::{fail_fatal, resolve_old_epoch};
use super::shared::{not_transactional, transaction_of};
use crate::defects::Defect;
use crate::error::{Error, Result};
use crate::producer::batch::ProducerIdAndEpoch;
use crate::producer::flush::FlushGuard;
use crate::producer::shared::Shared;
use crate::producer::transactions::Transactions;
use crate::producer::transactions::state::{
    Operation, OperationEntry, Outcome, Phase, Protocol, Transaction, is_old_epoch, is_unknown_producer,
};

/// Runs `operation`, or waits for its outcome if an earlier call has started it.
pub(crate) async fn perform(shared: &Arc<Shared>, operation: Operation, limit: Duration) -> Result<()> {
    perform_for(operation.name(), shared, operation, limit).await
}

/// Runs an operation like [`perform`], for the application's call `name`.
async fn perform_for(name: &str, shared: &Arc<Shared>, operation: Operation, limit: Duration) -> Result<()> {
    let entry = {
        let mut accumulator = shared.lock();
        accumulator.check_open()?;
        transaction_of(&mut accumulator, name)?.start_or_join(operation)?
    };
    run_or_join(name, shared, operation, entry, limit).await
}

async fn run_or_join(
    name: &str,
    shared: &Arc<Shared>,
    operation: Operation,
    entry: OperationEntry,
    limit: Duration,
) -> Result<()> {
    let mut outcome = match entry {
        OperationEntry::Join(outcome) => outcome,
        OperationEntry::Start(sender, outcome) => {
            tokio::spawn(run_operation(Arc::clone(shared), operation, sender));
            outcome
        }
    };
    let result = tokio::time::timeout(limit, outcome.wait_for(Option::is_some)).await;
    match result.map(|result| result.map(|outcome| outcome.clone())) {
        Ok(Ok(result)) => {
            if let Some(transaction) = &mut shared.lock().transaction {
                transaction.outcome_returned(&outcome);
            }
            result.unwrap_or(Ok(()))
        }
        Ok(Err(_)) => Err(Error::closed("the producer")),
        Err(_) => {
            Err(Error::timeout(format!("{name} (it continues, and its outcome is unknown: call {name} again)"), limit))
        }
    }
}

async fn run_operation(shared: Arc<Shared>, operation: Operation, sender: watch::Sender<Outcome>) {
    tracing::debug!(
        client_id = shared.cluster.client_id(),
        transactional_id = shared.settings.transactional_id.as_deref(),
        "{} started",
        operation.name()
    );
    let mut stop = shared.stop.subscribe();
    let done = tokio::select! {
        done = async {
            match operation {
                Operation::Init => init(&shared).await,
                Operation::Commit => commit(&shared).await,
                Operation::Abort => abort(&shared).await,
            }
        } => done,
        _ = stop.wait_for(|stop| *stop) => Err(Error::closed("the producer")),
    };
    let (client_id, transactional_id) = (shared.cluster.client_id(), shared.settings.transactional_id.as_deref());
    match &done {
        Ok(()) => tracing::debug!(client_id, transactional_id, "{} succeeded", operation.name()),
        Err(error) => tracing::debug!(client_id, transactional_id, "{} failed: {error}", operation.name()),
    }
    sender.send_replace(Some(done));
}

/// Opens a transaction, after initializing the producer ID if necessary.
pub(crate) async fn begin(shared: &Arc<Shared>, call: &BeginTransaction, limit: Duration) -> Result<()> {
    const CALL: &str = "begin_transaction";
    let transactions = shared.transactions.as_ref().ok_or_else(|| not_transactional(CALL))?;
    let new = transaction_of(&mut shared.lock(), CALL)?.needs_init();
    if new {
        perform_for(CALL, shared, Operation::Init, limit).await?;
    }
    let protocol = transactions.protocol();
    let renewal = {
        let mut accumulator = shared.lock();
        accumulator.check_open()?;
        let transaction = transaction_of(&mut accumulator, CALL)?;
        // Late requests of protocol V1 must have an older epoch than requests of V2.
        let upgraded = transaction.used && transaction.protocol == Protocol::V1 && protocol == Protocol::V2;
        if upgraded && matches!(transaction.phase(), Phase::Ready) { Some(transaction.renew()?) } else { None }
    };
    if let Some(entry) = renewal {
        run_or_join(CALL, shared, Operation::Init, entry, limit).await?;
    }
    let mut accumulator = shared.lock();
    let transaction = transaction_of(&mut accumulator, CALL)?;
    if call.cancelled.load(Ordering::Relaxed) {
        return Err(Error::State("begin_transaction was cancelled".into()));
    }
    transaction.begin(protocol)?;
    tracing::debug!(
        client_id = shared.cluster.client_id(),
        transactional_id = shared.settings.transactional_id.as_deref(),
        "transaction {} of this producer begins ({protocol:?})",
        transaction.number()
    );
    call.opened.store(true, Ordering::Relaxed);
    Ok(())
}

/// A `begin_transaction` call that can be cancelled. Its fields change only while the accumulator is locked.
#[derive(Debug, Default)]
pub struct BeginTransaction {
    opened: AtomicBool,
    cancelled: AtomicBool,
}

/// Cancels a `begin_transaction` call. Returns true if the call has already opened its transaction, which the caller
/// must then abort.
pub(crate) fn cancel_begin(shared: &Shared, call: &BeginTransaction) -> bool {
    let _accumulator = shared.lock();
    call.cancelled.store(true, Ordering::Relaxed);
    call.opened.load(Ordering::Relaxed)
}

/// Aborts an open transaction before the producer closes. Waits for a pending commit first.
pub(crate) async fn abort_on_close(shared: &Arc<Shared>, limit: Duration) {
    let deadline = Instant::now() + limit;
    loop {
        let operation = {
            let accumulator = shared.lock();
            let Some(transaction) = &accumulator.transaction else { return };
            match (transaction.pending(), transaction.phase()) {
                (Some(pending), _) if pending.operation == Operation::Init => return,
                (Some(pending), _) => pending.operation,
                (None, phase @ (Phase::Open | Phase::Abortable(_))) => {
                    if transaction.started && matches!(phase, Phase::Open) {
                        tracing::warn!(
                            client_id = shared.cluster.client_id(),
                            "the producer is closed with an open transaction, which is aborted: call \
                             commit_transaction before"
                        );
                    }
                    Operation::Abort
                }
                (None, _) => return,
            }
        };
        let remaining = deadline.saturating_duration_since(Instant::now());
        match perform(shared, operation, remaining).await {
            Err(error) if operation == Operation::Abort || remaining.is_zero() => {
                tracing::warn!(
                    client_id = shared.cluster.client_id(),
                    transactional_id = shared.settings.transactional_id.as_deref(),
                    "a transaction stays open until transaction.timeout.ms, as it could not be aborted: {error}"
                );
                return;
            }
            // After a failed commit the transaction can be aborted.
            _ => {}
        }
    }
}

async fn init(shared: &Shared) -> Result<()> {
    let transactions = transactions(shared)?;
    let current = shared.lock().identity;
    let response = transactions.identity(current).await;
    let mut accumulator = shared.lock();
    let done = response.map(|identity| {
        tracing::debug!(
            client_id = shared.cluster.client_id(),
            transactional_id = shared.settings.transactional_id.as_deref(),
            producer_id = identity.producer_id,
            epoch = identity.epoch,
            "producer ID assigned"
        );
        accumulator.set_producer_id(identity);
    });
    match done {
        Ok(()) => {
            transaction_of(&mut accumulator, "init_transactions")?.set_ready();
            Ok(())
        }
        Err(error) => {
            drop(accumulator);
            Err(fail_fatal(shared, error))
        }
    }
}

async fn commit(shared: &Shared) -> Result<()> {
    let transactions = transactions(shared)?;
    wait_for_pending(shared, transactions).await;
    let (identity, protocol, outdated) = {
        let mut accumulator = shared.lock();
        let identity = accumulator.identity;
        let transaction = transaction_of(&mut accumulator, "commit_transaction")?;
        let outdated = match transaction.error() {
            Some(Error::Transaction { fatal: false, cause }) if transaction.started && is_old_epoch(&cause) => {
                Some(*cause)
            }
            Some(error) if !Defect::CommitAfterFailure.is_on() || error.fatal() => return Err(error),
            _ if !transaction.started => {
                transaction.set_ready();
                return Ok(());
            }
            _ => None,
        };
        (identity, transaction.protocol, outdated)
    };
    if let Some(cause) = outdated {
        return Err(resolve_old_epoch(shared, transactions, identity, protocol, cause).await);
    }
    match transactions.end(identity, protocol, true).await {
        Ok(renewed) => finish(shared, renewed),
        Err(error) => Err(shared.fail_transaction(error, true)),
    }
}

async fn abort(shared: &Shared) -> Result<()> {
    let transactions = transactions(shared)?;
    let dropped =
        shared.lock().abort_unsent(&Error::Aborted("the record was not sent: its transaction was aborted".into()));
    shared.complete(dropped);
    wait_for_pending(shared, transactions).await;
    let (identity, protocol, started, mut bump_epoch) = {
        let mut accumulator = shared.lock();
        let identity = accumulator.identity;
        let transaction = transaction_of(&mut accumulator, "abort_transaction")?;
        if let Some(error) = transaction.error() {
            return Err(error);
        }
        (identity, transaction.protocol, transaction.started, transaction.bump_epoch)
    };
    let mut renewed = None;
    if started {
        match transactions.end(identity, protocol, false).await {
            Ok(next) => renewed = next,
            // The transactional ID has expired, so the coordinator has no transaction to abort and assigns a new
            // producer ID.
            Err(error) if is_unknown_producer(&error) => bump_epoch = true,
            // Another abort would fail as well.
            Err(error) => return Err(fail_fatal(shared, error)),
        }
    }
    if bump_epoch && renewed.is_none() {
        let identity = transactions.identity(identity).await.map_err(|error| fail_fatal(shared, error))?;
        renewed = Some(identity);
    }
    finish(shared, renewed)
}

/// Ends the transaction. If the coordinator has assigned a new producer ID, the next transaction uses it.
fn finish(shared: &Shared, renewed: Option<ProducerIdAndEpoch>) -> Result<()> {
    let mut accumulator = shared.lock();
    if let Some(identity) = renewed {
        tracing::debug!(
            client_id = shared.cluster.client_id(),
            transactional_id = shared.settings.transactional_id.as_deref(),
            producer_id = identity.producer_id,
            "the next transaction uses producer epoch {}",
            identity.epoch
        );
        accumulator.set_producer_id(identity);
    }
    transaction_of(&mut accumulator, "the end of a transaction")?.set_ready();
    Ok(())
}

fn transactions(shared: &Shared) -> Result<&Transactions> {
    shared.transactions.as_ref().ok_or_else(|| not_transactional("a transaction"))
}

/// Waits until all records have their results and all requests of the transaction are complete.
async fn wait_for_pending(shared: &Shared, transactions: &Transactions) {
    FlushGuard::new(shared).wait().await;
    let mut changed = transactions.changed.subscribe();
    loop {
        changed.borrow_and_update();
        if !shared.lock().transaction.as_ref().is_some_and(Transaction::busy) {
            return;
        }
        if changed.changed().await.is_err() {
            return;
        }
    }
}
