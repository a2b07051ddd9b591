//! Tests of the names, texts and classification of errors.

use super::*;

#[test]
fn class_name_is_camel_case() {
    assert_eq!(class_name(ErrorCode::NOT_LEADER_OR_FOLLOWER), "NotLeaderOrFollowerError");
    assert_eq!(class_name(ErrorCode::UNKNOWN_SERVER_ERROR), "UnknownServerError");
    assert_eq!(class_name(ErrorCode::INVALID_TOPIC_EXCEPTION), "InvalidTopicError");
}

#[test]
fn transaction_error_has_the_class_of_a_non_retriable_cause() {
    let transaction = |fatal, cause| Error::Transaction { fatal, cause: Box::new(cause) };
    let late = transaction(false, Error::timeout("delivery", Duration::from_secs(1)));
    assert_eq!((late.name(), late.code()), ("TransactionAbortableError".into(), Some(120)));
    assert!(late.abortable() && !late.fatal() && !late.retriable());
    assert!(late.to_string().contains("must be aborted: delivery took longer"), "{late}");
    let large = transaction(false, Error::server(ErrorCode::MESSAGE_TOO_LARGE, "Produce"));
    assert_eq!(large.name(), "MessageTooLargeError");
    let fenced = transaction(true, Error::server(ErrorCode::PRODUCER_FENCED, "EndTxn"));
    assert_eq!(fenced.name(), "ProducerFencedError");
    assert!(fenced.fatal() && !fenced.abortable());
}

#[test]
fn messages_that_repeat_the_code_are_replaced() {
    let code = ErrorCode::UNKNOWN_TOPIC_ID;
    for message in [None, Some("UNKNOWN_TOPIC_ID"), Some("unknown_topic_id "), Some("")] {
        let error = Error::explained(code, "ShareFetch from t-0", message.map(str::to_owned));
        let expected = "ShareFetch from t-0: UNKNOWN_TOPIC_ID (100): the broker does not have a topic of this id";
        assert_eq!(error.to_string(), expected);
    }
    let error = Error::explained(code, "Fetch", Some("it was deleted".to_owned()));
    assert_eq!(error.to_string(), "Fetch: UNKNOWN_TOPIC_ID (100): it was deleted");
}

#[test]
fn texts_contain_operation_address_and_cause() {
    let refused = Error::connection("localhost:1", "connection refused");
    let error = Error::timeout_because("metadata of topic t", Duration::from_millis(1500), Some(refused));
    assert_eq!(
        error.to_string(),
        "metadata of topic t took longer than 1.5 s (last error: localhost:1: connection refused)"
    );
    let late = Error::timeout("the last try", Duration::ZERO);
    assert_eq!(late.clone().prefer_cause(Some(error.clone())), error);
    assert_eq!(error.clone().prefer_cause(Some(late.clone())), late);
    assert_eq!(late.clone().prefer_cause(None), late);
    assert!(late.unanswered() && error.unanswered());
    let denied = Error::server(ErrorCode::TOPIC_AUTHORIZATION_FAILED, "Fetch of topic t");
    assert_eq!(denied.to_string(), "Fetch of topic t: TOPIC_AUTHORIZATION_FAILED (29): not authorized for the topic");
    assert!(denied.fatal() && !denied.retriable());
    assert!(!Error::timeout_because("metadata", Duration::ZERO, Some(denied)).unanswered());
}
