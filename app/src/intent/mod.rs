//! The client protocol: keep one UUID per checkout intent, whatever happens.
