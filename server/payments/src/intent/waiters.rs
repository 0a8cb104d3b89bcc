//! Who waits for which intent on this replica.

/// The hub.
#[derive(Debug, Default)]
pub struct Waiters {}
