//! Tests of what error messages say, and what they never show.

use std::error::Error as _;

use rowkey_wire::code::ErrorCode;

use super::*;
use crate::transport::Host;

const INSERT: Call<'static> = call(Safety::Insert);

const fn call(safety: Safety) -> Call<'static> {
    Call {
        operation: "InsertEntity",
        resource: "orders",
        safety,
        expected: &[],
        host: Host::Any,
        batch: None,
        parts: None,
        load: crate::pace::load::Load::Whole,
    }
}

fn answered(safety: Safety, status: u16, code: Option<&'static str>, ambiguous: bool) -> Error {
    let code = code.map(ErrorCode::new);
    let request_id = Some("c5a0e3d2-0002-0011");
    let failure = Failure { status, code, request_id, attempts: 2, ambiguous, message: None };
    Error::from_response(&call(safety), failure)
}

#[test]
fn an_answer_tells_what_to_do_and_what_is_known() {
    use ErrorKind as K;
    use Outcome::{Rejected, Unknown};
    for (status, code, kind, outcome) in [
        (302, None, K::Unexpected, Rejected),
        (400, Some("InvalidInput"), K::Invalid, Rejected),
        (400, Some("EntityTooLarge"), K::TooLarge, Rejected),
        (400, Some("TooManyProperties"), K::TooLarge, Rejected),
        (400, Some("InvalidAuthenticationInfo"), K::Auth, Rejected),
        (401, Some("NoAuthenticationInformation"), K::Auth, Rejected),
        (403, Some("AuthorizationFailure"), K::Auth, Rejected),
        (404, Some("TableNotFound"), K::NotFound, Rejected),
        (404, None, K::Decode, Rejected),
        (408, None, K::Unavailable, Unknown),
        (409, Some("EntityAlreadyExists"), K::AlreadyExists, Rejected),
        (409, Some("TableBeingDeleted"), K::Unavailable, Rejected),
        (409, Some("SomethingNew"), K::Unexpected, Rejected),
        (409, None, K::Decode, Rejected),
        (412, Some("UpdateConditionNotSatisfied"), K::Conflict, Rejected),
        (413, Some("RequestBodyTooLarge"), K::TooLarge, Rejected),
        (415, Some("MediaTypeNotSupported"), K::Invalid, Rejected),
        (429, Some("TooManyRequests"), K::Throttled, Rejected),
        (429, Some("429"), K::Throttled, Rejected),
        (500, Some("InternalError"), K::Unavailable, Unknown),
        (500, Some("OperationTimedOut"), K::Unavailable, Unknown),
        (501, Some("NotImplemented"), K::Invalid, Rejected),
        (502, None, K::Unavailable, Unknown),
        (503, Some("ServerBusy"), K::Throttled, Rejected),
        (503, None, K::Unavailable, Unknown),
        (503, Some("ServiceUnavailable"), K::Unavailable, Unknown),
        (504, None, K::Unavailable, Unknown),
        (505, None, K::Unexpected, Rejected),
    ] {
        let error = answered(Safety::Insert, status, code, false);
        assert_eq!((error.kind(), error.outcome()), (kind, outcome), "{status} {code:?}");
        assert_eq!(error.details().status, Some(status));
        assert_eq!(error.code().map(ErrorCode::as_str), code);
        assert_eq!(error.is_retryable(), matches!(kind, K::Throttled | K::Unavailable));
    }
}

#[test]
fn a_refusal_after_an_ambiguous_attempt_may_be_its_echo() {
    for (safety, status, code) in [
        (Safety::Insert, 409, "EntityAlreadyExists"),
        (Safety::Conditional, 412, "UpdateConditionNotSatisfied"),
        (Safety::Conditional, 404, "ResourceNotFound"),
        (Safety::Never, 503, "ServerBusy"),
    ] {
        let error = answered(safety, status, Some(code), true);
        assert_eq!(error.outcome(), Outcome::Unknown, "{code}");
        assert_eq!(error.kind(), answered(safety, status, Some(code), false).kind());
        assert!(error.to_string().contains("whether it was applied is unknown"), "{error}");
    }
    let read = answered(Safety::Read, 404, Some("ResourceNotFound"), true);
    assert_eq!(read.outcome(), Outcome::Rejected, "a read has no effect to be unsure of");
}

#[test]
fn each_error_has_the_status_with_which_a_service_answers() {
    for (safety, status, code, expected) in [
        (Safety::Read, 304, None, 304),
        (Safety::Insert, 400, Some("InvalidInput"), 400),
        (Safety::Read, 404, Some("ResourceNotFound"), 404),
        (Safety::Read, 404, Some("BlobNotFound"), 404),
        (Safety::Insert, 409, Some("EntityAlreadyExists"), 409),
        (Safety::Insert, 412, Some("LeaseIdMissing"), 409),
        (Safety::Conditional, 412, Some("UpdateConditionNotSatisfied"), 412),
        (Safety::Insert, 400, Some("EntityTooLarge"), 413),
        // What the program should have created, and what its operator has to mend.
        (Safety::Read, 404, Some("TableNotFound"), 500),
        (Safety::Insert, 404, Some("QueueNotFound"), 500),
        (Safety::Insert, 404, Some("ContainerNotFound"), 500),
        (Safety::Read, 403, Some("AuthorizationFailure"), 500),
        (Safety::Read, 404, None, 500),
        (Safety::Read, 409, Some("SomethingNew"), 500),
        // What the settings of the program make wrong, and what a proxy refuses.
        (Safety::Insert, 400, Some("InvalidResourceName"), 500),
        (Safety::Insert, 400, Some("AccountRequiresHttps"), 500),
        (Safety::Read, 400, Some("InvalidHeaderValue"), 500),
        (Safety::Read, 400, None, 500),
        (Safety::Read, 407, None, 500),
        (Safety::Insert, 405, Some("MethodNotAllowed"), 500),
        (Safety::Read, 501, Some("NotImplemented"), 500),
        (Safety::Insert, 503, Some("ServerBusy"), 503),
        (Safety::Insert, 409, Some("TableBeingDeleted"), 503),
        // A read changes nothing, so it may be repeated.
        (Safety::Read, 500, Some("InternalError"), 503),
        (Safety::Insert, 500, Some("InternalError"), 504),
    ] {
        let error = answered(safety, status, code, false);
        assert_eq!(error.http_status(), expected, "{status} {code:?}");
    }
    // The client's own first attempt may have inserted or changed the entity.
    for (safety, status, code) in [
        (Safety::Insert, 409, "EntityAlreadyExists"),
        (Safety::Conditional, 412, "UpdateConditionNotSatisfied"),
    ] {
        assert_eq!(answered(safety, status, Some(code), true).http_status(), 504, "{code}");
    }
    let unknown =
        Error::refused(ErrorKind::Unavailable, "no answer").with_outcome(Outcome::Unknown);
    assert_eq!(unknown.http_status(), 504);
    assert_eq!(Error::refused(ErrorKind::NotFound, "it does not exist").http_status(), 404);
}

#[test]
fn the_message_says_what_happened_to_what_and_what_to_do() {
    let error = answered(Safety::Insert, 409, Some("EntityAlreadyExists"), false);
    assert_eq!(
        error.to_string(),
        "InsertEntity on orders: it exists already (409 EntityAlreadyExists); read it, or upsert \
         (request c5a0e3d2-0002-0011)"
    );
    let error = answered(Safety::Insert, 500, None, false).at_operation(Some(3));
    assert_eq!(error.details().operation_index, Some(3));
    assert_eq!(
        error.to_string(),
        "InsertEntity (operation 3) on orders: the service could not do it now (500), and whether \
         it was applied is unknown; try again later (request c5a0e3d2-0002-0011)"
    );
    let error = Error::invalid("a page has 1 to 1000 entities").of("QueryEntities", "");
    assert_eq!(error.to_string(), "QueryEntities: a page has 1 to 1000 entities");
    assert_eq!((error.outcome(), error.details().attempts), (Outcome::NotSent, 0));
}

#[test]
fn the_first_name_of_an_operation_stays() {
    let error = Error::invalid("no").of("InsertEntity", "orders").of("Transaction", "other");
    assert_eq!(error.to_string(), "InsertEntity on orders: no");
}

#[test]
fn what_the_service_wrote_is_only_shown_to_who_asks() {
    let failure = Failure {
        status: 403,
        // An invalid code may contain anything.
        code: Some(ErrorCode::new("secret-key 'x'")),
        message: Some("signed 'GET\n\n\n/acct/t(PartitionKey='secret-key')'".to_owned()),
        attempts: 1,
        ..Failure::default()
    };
    let error = Error::from_response(&INSERT, failure);
    assert!(!format!("{error} {error:?}").contains("secret-key"), "{error:?}");
    assert_eq!(error.code(), None);
    assert!(error.details().service_message.as_deref().unwrap().contains("secret-key"));
}

#[test]
fn the_cause_is_in_the_chain() {
    let cause = std::io::Error::other("reset");
    let error = Error::transport(&INSERT, ErrorKind::Unavailable, "lost", Outcome::Unknown, 1)
        .with_source(cause);
    assert_eq!(error.source().unwrap().to_string(), "reset");
    assert!(Error::decode("no").source().is_none());
    assert_eq!(size_of::<Error>(), size_of::<usize>());
}
