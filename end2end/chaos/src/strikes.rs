//! Statements that fail: the database refuses each of them once, the first time that it is asked.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What is refused by one proxy. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Strikes(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    code: Option<String>,
    struck: BTreeSet<String>,
}

impl Strikes {
    /// From now on every statement fails with this SQLSTATE, each for the first time only.
    pub fn begin(&self, code: &str) {
        *self.inner() = Inner { code: Some(code.to_owned()), struck: BTreeSet::new() };
    }

    /// No statement fails any more.
    pub fn end(&self) {
        self.inner().code = None;
    }

    /// The statements that have failed, with one blank between words.
    pub fn struck(&self) -> BTreeSet<String> {
        self.inner().struck.clone()
    }

    /// Called by proxies: the SQLSTATE with which this statement fails now, if it does.
    pub(crate) fn take(&self, sql: &str) -> Option<String> {
        let mut inner = self.inner();
        let code = inner.code.clone()?;
        inner.struck.insert(sql.to_owned()).then_some(code)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
