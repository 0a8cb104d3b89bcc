//! Settle: the one function that moves an intent after its reservation.
