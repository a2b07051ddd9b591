//! Tests of the transaction state machine.

use super::*;

const SLOT: Slot = Slot { topic: 0, partition: 1 };

fn ready(protocol: Protocol) -> Transaction {
    let mut transaction = Transaction::new("t".into(), Duration::from_millis(20));
    let Ok(OperationEntry::Start(_, outcome)) = transaction.start_or_join(Operation::Init) else {
        panic!("nothing to do")
    };
    transaction.ready();
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
fn a_call_that_timed_out_is_joined_and_not_overtaken() {
    let mut transaction = ready(Protocol::V2);
    let Ok(OperationEntry::Start(sender, _)) = transaction.start_or_join(Operation::Commit) else {
        panic!("nothing to do")
    };
    assert!(text(transaction.start_or_join(Operation::Abort)).contains("call commit_transaction again"));
    assert!(text(transaction.begin(Protocol::V2)).contains("call commit_transaction again"));
    assert!(text(transaction.check_state("send")).contains("being committed"));
    transaction.ready();
    sender.send_replace(Some(Ok(())));
    // The operation is complete, but no call has returned its outcome yet.
    assert!(transaction.begin(Protocol::V2).is_err());
    let Ok(OperationEntry::Join(outcome)) = transaction.start_or_join(Operation::Commit) else { panic!("begun anew") };
    assert_eq!(*outcome.borrow(), Some(Ok(())));
    transaction.outcome_returned(&outcome);
    transaction.begin(Protocol::V2).unwrap();
}

#[test]
fn who_learns_late_of_an_outcome_leaves_what_was_begun_since_alone() {
    let mut transaction = ready(Protocol::V2);
    let Ok(OperationEntry::Start(_, late)) = transaction.start_or_join(Operation::Commit) else {
        panic!("nothing to do")
    };
    let Ok(OperationEntry::Join(joined)) = transaction.start_or_join(Operation::Commit) else { panic!("begun anew") };
    transaction.ready();
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
fn after_an_abortable_error_only_an_abort_is_let_through() {
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
    transaction.ready();
    assert!(!transaction.bump_epoch && !transaction.started);
    assert!(transaction.begin(Protocol::V1).is_ok());
}

#[test]
fn an_old_epoch_is_taken_to_the_coordinator_by_the_commit() {
    let mut transaction = ready(Protocol::V2);
    transaction.batch_sent();
    transaction.fail(&code(ErrorCode::INVALID_PRODUCER_EPOCH));
    assert!(matches!(transaction.start_or_join(Operation::Commit), Ok(OperationEntry::Start(..))));
    assert!(matches!(transaction.phase(), Phase::Abortable(_)));
}

#[test]
fn after_a_fatal_error_every_call_raises_it() {
    for fatal in [ErrorCode::PRODUCER_FENCED, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED] {
        let mut transaction = ready(Protocol::V2);
        assert!(transaction.fail(&code(fatal)));
        transaction.ready();
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
fn partitions_are_registered_before_they_are_written_to_in_the_first_protocol_only() {
    let mut transaction = ready(Protocol::V1);
    assert!(!transaction.may_write(SLOT) && !transaction.may_write(SLOT));
    transaction.batch_sent();
    assert!(!transaction.started);
    assert!(transaction.start_registering() && !transaction.start_registering(), "one request at a time");
    assert_eq!(transaction.unregistered(), [SLOT]);
    transaction.registered(&[SLOT]);
    transaction.registering = false;
    assert!(transaction.may_write(SLOT) && transaction.started && !transaction.start_registering());
    transaction.ended();
    assert!(!transaction.may_write(SLOT), "the next transaction begins anew");

    let mut transaction = ready(Protocol::V2);
    assert!(transaction.may_write(SLOT) && !transaction.start_registering() && !transaction.started);
    transaction.batch_sent();
    assert!(transaction.started);
}

#[test]
fn a_registration_that_was_refused_is_not_asked_for_again() {
    for rejected in [ErrorCode::TOPIC_AUTHORIZATION_FAILED, ErrorCode::PRODUCER_FENCED] {
        let mut transaction = ready(Protocol::V1);
        assert!(!transaction.may_write(SLOT) && transaction.start_registering());
        transaction.fail(&code(rejected));
        transaction.registering = false;
        assert!(!transaction.may_write(SLOT) && !transaction.start_registering());
    }
}

#[test]
fn an_error_after_the_timeout_names_it() {
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
fn a_forgotten_producer_has_nothing_to_end_but_needs_another_epoch() {
    let mut transaction = ready(Protocol::V1);
    transaction.fail(&code(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    assert!(transaction.bump_epoch);
    let mut unsent = ready(Protocol::V1);
    unsent.fail(&Error::timeout("delivery", std::time::Duration::from_secs(1)));
    assert!(!unsent.bump_epoch, "nothing was sent");
}
