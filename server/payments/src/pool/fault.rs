//! What a failed statement tells: of the statement, whether to run it again; of the server, whether to look for another.

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

    use super::{Fault, is_passing_code};

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
