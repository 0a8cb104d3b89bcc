//! What a failed statement tells: of the statement, whether to run it again; of the server, whether to look for another.

/// Marks a fault that came after the statement had left: it may be in effect.
#[derive(Debug, thiserror::Error)]
#[error("the answer of the database was lost: {0}")]
struct Unanswered(sqlx::Error);

/// The fault of a statement that had left. A server that refuses it has rolled it back; any other end leaves its fate open.
pub(super) fn of_sent(error: sqlx::Error) -> sqlx::Error {
    if may_be_in_effect(&error) || is_verdict(&error) {
        return error;
    }
    let kind = if let sqlx::Error::Io(error) = &error { error.kind() } else { std::io::ErrorKind::ConnectionReset };
    sqlx::Error::Io(std::io::Error::new(kind, Unanswered(error)))
}

/// Whether the statement may be in effect although it failed.
pub(super) fn may_be_in_effect(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(error) if error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Unanswered>))
}

/// Whether the server has said what became of the statement, or the fault is in our own reading of its answer.
fn is_verdict(error: &sqlx::Error) -> bool {
    match error.as_database_error().and_then(sqlx::error::DatabaseError::code) {
        // It says goodbye, perhaps in the middle of a commit.
        Some(code) => !(code.starts_with("57P") || code.starts_with("08")),
        None => !is_passing(error),
    }
}

/// What a failed statement tells about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing: it answered, and it is the request that it refused, or a rival that stood in the way.
    Request,
    /// It takes no writes.
    ReadOnly,
    /// The connection is dead.
    Connection,
    /// No answer came in time; one may come yet.
    NoAnswer,
    /// There was no connection to be had.
    NoConnection,
}

impl Fault {
    pub(super) fn of(error: &sqlx::Error) -> Self {
        if let Some(code) = error.as_database_error().and_then(sqlx::error::DatabaseError::code) {
            return match &*code {
                "25006" => Self::ReadOnly,
                code if code.starts_with("57P") || code.starts_with("08") => Self::Connection,
                _ => Self::Request,
            };
        }
        let is_silence = matches!(error, sqlx::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut);
        if is_silence {
            Self::NoAnswer
        } else if matches!(error, sqlx::Error::PoolTimedOut) {
            Self::NoConnection
        } else if is_passing(error) {
            Self::Connection
        } else {
            Self::Request
        }
    }
}

/// Whether the same statement may well succeed when it is run again.
pub(super) fn is_passing(error: &sqlx::Error) -> bool {
    if let Some(code) = error.as_database_error().and_then(sqlx::error::DatabaseError::code) {
        return is_passing_code(&code);
    }
    matches!(error, sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed)
}

/// Serialization failure, deadlock, lock timeout, a primary that became read-only, too many connections, and the shutdown and
/// connection classes.
fn is_passing_code(code: &str) -> bool {
    matches!(code, "40001" | "40P01" | "55P03" | "25006" | "53300" | "57P01" | "57P02" | "57P03")
        || code.starts_with("08")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{Fault, is_passing, is_passing_code, may_be_in_effect, of_sent};

    #[test]
    fn an_answer_that_is_lost_leaves_the_fate_of_a_statement_open() {
        let lost = of_sent(sqlx::Error::Io(io::ErrorKind::TimedOut.into()));
        assert!(may_be_in_effect(&lost) && is_passing(&lost));
        assert_eq!(Fault::of(&lost), Fault::NoAnswer, "and tells the same of the server");
        assert!(may_be_in_effect(&of_sent(sqlx::Error::Io(io::ErrorKind::UnexpectedEof.into()))));
        for never_sent in [sqlx::Error::PoolTimedOut, sqlx::Error::Io(io::ErrorKind::ConnectionRefused.into())] {
            assert!(!may_be_in_effect(&never_sent));
        }
        assert!(!may_be_in_effect(&of_sent(sqlx::Error::RowNotFound)), "the server has answered");
    }

    #[test]
    fn b44_what_passes_by_itself_is_tried_again_and_a_refusal_is_not() {
        for passing in ["40001", "40P01", "55P03", "25006", "57P01", "57P03", "53300", "08006"] {
            assert!(is_passing_code(passing), "{passing}");
        }
        // Unique, foreign key, check, failed transaction, statement timeout, syntax.
        for lasting in ["23505", "23503", "23514", "25P02", "57014", "42601"] {
            assert!(!is_passing_code(lasting), "{lasting}");
        }
    }

    #[test]
    fn only_what_concerns_the_server_sets_out_for_another() {
        let of = |kind: io::ErrorKind| Fault::of(&sqlx::Error::Io(kind.into()));
        assert_eq!(of(io::ErrorKind::ConnectionReset), Fault::Connection);
        assert_eq!(of(io::ErrorKind::TimedOut), Fault::NoAnswer);
        assert_eq!(Fault::of(&sqlx::Error::PoolTimedOut), Fault::NoConnection);
        assert_eq!(Fault::of(&sqlx::Error::RowNotFound), Fault::Request);
    }
}
