//! Tests of the transaction state machine.

use super::*;

const SLOT: Slot = Slot { topic: 0, partition: 1 };

fn ready(protocol: Protocol) -> Transaction {
    let mut transaction = Transaction::new("t".into(), Duration::from_millis(20));
    let Ok(OperationEntry::Start(_, outcome)) = transaction.start_or_join(Operation::Init) else {
        panic!("nothing to do")
    };
    transaction.set_ready();
    transaction.outcome_returned(&outcome);
    transaction.begin(protocol).unwrap();
    transaction
}

fn text(result: Result<impl std::fmt::Debug>) -> String {
    result.unwrap_err().to_string()
}

fn code(code: ErrorCode) -> Error {
    Error::server(code, "test")
}

#[test]
fn timed_out_call_is_joined() {
    let mut transaction = ready(Protocol::V2);
    let Ok(OperationEntry::Start(sender, _)) = transaction.start_or_join(Operation::Commit) else {
        panic!("nothing to do")
    };
    assert!(text(transaction.start_or_join(Operation::Abort)).contains("call commit_transaction again"));
    assert!(text(transaction.begin(Protocol::V2)).contains("call commit_transaction again"));
    assert!(text(transaction.check_state("send")).contains("being committed"));
    transaction.set_ready();
    sender.send_replace(Some(Ok(())));
    // The operation is complete, but no call has returned its outcome yet.
    assert!(transaction.begin(Protocol::V2).is_err());
    let Ok(OperationEntry::Join(outcome)) = transaction.start_or_join(Operation::Commit) else { panic!("begun anew") };
    assert_eq!(*outcome.borrow(), Some(Ok(())));
    transaction.outcome_returned(&outcome);
    transaction.begin(Protocol::V2).unwrap();
}

#[test]
fn late_outcome_keeps_newer_operation() {
    let mut transaction = ready(Protocol::V2);
    let Ok(OperationEntry::Start(_, late)) = transaction.start_or_join(Operation::Commit) else {
        panic!("nothing to do")
    };
    let Ok(OperationEntry::Join(joined)) = transaction.start_or_join(Operation::Commit) else { panic!("begun anew") };
    transaction.set_ready();
    transaction.outcome_returned(&joined);
    transaction.begin(Protocol::V2).unwrap();
    let Ok(OperationEntry::Start(..)) = transaction.start_or_join(Operation::Commit) else { panic!("nothing to do") };
    transaction.outcome_returned(&late);
    assert!(
        matches!(transaction.start_or_join(Operation::Commit), Ok(OperationEntry::Join(_))),
        "the second commit is under way"
    );
}

#[test]
fn abortable_error_requires_abort() {
    let mut transaction = ready(Protocol::V1);
    transaction.registered(&[SLOT]);
    assert!(transaction.fail(&code(ErrorCode::MESSAGE_TOO_LARGE)));
    assert!(!transaction.fail(&code(ErrorCode::INVALID_RECORD)), "the first cause stays");
    for rejected in [transaction.check_state("send"), transaction.begin(Protocol::V1)] {
        assert!(text(rejected).contains("must be aborted: test: MESSAGE_TOO_LARGE"));
    }
    assert!(transaction.start_or_join(Operation::Commit).unwrap_err().abortable());
    let Ok(OperationEntry::Start(_, outcome)) = transaction.start_or_join(Operation::Abort) else {
        panic!("nothing to do")
    };
    assert!(transaction.bump_epoch, "its sequences are uncertain");
    transaction.outcome_returned(&outcome);
    transaction.set_ready();
    assert!(!transaction.bump_epoch && !transaction.started);
    assert!(transaction.begin(Protocol::V1).is_ok());
}

#[test]
fn commit_resolves_old_epoch() {
    let mut transaction = ready(Protocol::V2);
    transaction.batch_sent();
    transaction.fail(&code(ErrorCode::INVALID_PRODUCER_EPOCH));
    assert!(matches!(transaction.start_or_join(Operation::Commit), Ok(OperationEntry::Start(..))));
    assert!(matches!(transaction.phase(), Phase::Abortable(_)));
}

#[test]
fn fatal_error_fails_all_calls() {
    for fatal in [ErrorCode::PRODUCER_FENCED, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED] {
        let mut transaction = ready(Protocol::V2);
        assert!(transaction.fail(&code(fatal)));
        transaction.set_ready();
        transaction.fail_fatal(code(ErrorCode::UNKNOWN_SERVER_ERROR));
        let mut errors = vec![transaction.check_state("send"), transaction.begin(Protocol::V2)];
        for operation in [Operation::Init, Operation::Commit, Operation::Abort] {
            errors.push(transaction.start_or_join(operation).map(drop));
        }
        for error in errors {
            assert_eq!(error.unwrap_err(), Error::Transaction { fatal: true, cause: Box::new(code(fatal)) });
        }
    }
}

#[test]
fn v1_registers_partitions_before_writes() {
    let mut transaction = ready(Protocol::V1);
    assert!(!transaction.may_write(SLOT) && !transaction.may_write(SLOT));
    transaction.batch_sent();
    assert!(!transaction.started);
    assert!(transaction.start_registering() && !transaction.start_registering(), "one request at a time");
    assert_eq!(transaction.unregistered(), [SLOT]);
    transaction.registered(&[SLOT]);
    transaction.registering = false;
    assert!(transaction.may_write(SLOT) && transaction.started && !transaction.start_registering());
    transaction.reset();
    assert!(!transaction.may_write(SLOT), "the next transaction begins anew");

    let mut transaction = ready(Protocol::V2);
    assert!(transaction.may_write(SLOT) && !transaction.start_registering() && !transaction.started);
    transaction.batch_sent();
    assert!(transaction.started);
}

#[test]
fn rejected_registration_is_not_retried() {
    for rejected in [ErrorCode::TOPIC_AUTHORIZATION_FAILED, ErrorCode::PRODUCER_FENCED] {
        let mut transaction = ready(Protocol::V1);
        assert!(!transaction.may_write(SLOT) && transaction.start_registering());
        transaction.fail(&code(rejected));
        transaction.registering = false;
        assert!(!transaction.may_write(SLOT) && !transaction.start_registering());
    }
}

#[test]
fn error_after_timeout_reports_timeout() {
    let mut transaction = ready(Protocol::V2);
    let fenced = code(ErrorCode::PRODUCER_FENCED);
    std::thread::sleep(Duration::from_millis(40));
    assert_eq!(transaction.explain(fenced.clone()), fenced, "the coordinator knows nothing of it yet");
    transaction.batch_sent();
    std::thread::sleep(Duration::from_millis(40));
    let explained = transaction.explain(fenced.clone());
    let text = explained.to_string();
    assert!(text.contains("longer than transaction.timeout.ms (0.02 s): the coordinator has aborted it"), "{text}");
    assert!(!text.contains("took over"), "{text}");
    assert_eq!((explained.name(), explained.code()), (fenced.name(), fenced.code()));
    let other = code(ErrorCode::MESSAGE_TOO_LARGE);
    assert_eq!(transaction.explain(other.clone()), other);
    assert!(transaction.fail(&explained) && matches!(transaction.phase(), Phase::Fatal(_)));
}

#[test]
fn unknown_producer_needs_new_epoch() {
    let mut transaction = ready(Protocol::V1);
    transaction.fail(&code(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    assert!(transaction.bump_epoch);
    let mut unsent = ready(Protocol::V1);
    unsent.fail(&Error::timeout("delivery", std::time::Duration::from_secs(1)));
    assert!(!unsent.bump_epoch, "nothing was sent");
}
