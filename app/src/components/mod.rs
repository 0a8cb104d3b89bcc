//! Static pieces that pages share.
