//! Records by id, in the order of their age, as the provider lists them: newest first, whatever order they came in. A table
//! finds, counts and pages; it never changes what a record says. Records of a bulk are made when they are looked at, so that a
//! million of them cost nothing until then; one that changed is kept like any other and stands in for the bulk's.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::iter::Peekable;
use std::sync::Arc;

use crate::bulk::Bulk;

/// When a record was made, and its number among the records of its kind.
pub type Place = (i64, u64);

/// A record with an id.
pub trait Row: Clone {
    fn id(&self) -> &str;
    fn created(&self) -> i64;

    /// The record with this index in a bulk; of most kinds a bulk has none.
    fn of_bulk(_bulk: &Bulk, _index: u64) -> Option<Self> {
        None
    }

    /// The index in a bulk that an id of this kind has.
    fn index_in(_bulk: &Bulk, _id: &str) -> Option<u64> {
        None
    }
}

/// Where a list goes on.
#[derive(Clone, Copy)]
pub enum Cursor<'a> {
    Newest,
    /// Newest first, from the record before this one.
    OlderThan(&'a str),
    /// Oldest first, from the record after this one.
    NewerThan(&'a str),
}

/// Records of one kind.
#[derive(Debug)]
pub struct Table<T> {
    rows: BTreeMap<Place, T>,
    places: HashMap<String, Place>,
    bulks: Vec<(Arc<Bulk>, u64)>,
    next: u64,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), places: HashMap::new(), bulks: Vec::new(), next: 0 }
    }
}

type Found<'a, T> = (Place, Cow<'a, T>);
type Source<'a, T> = Peekable<Box<dyn Iterator<Item = Found<'a, T>> + 'a>>;

impl<T: Row> Table<T> {
    pub fn get(&self, id: &str) -> Option<Cow<'_, T>> {
        if let Some(row) = self.row(id) {
            return Some(Cow::Borrowed(row));
        }
        self.bulks.iter().find_map(|(bulk, _)| T::of_bulk(bulk, T::index_in(bulk, id)?)).map(Cow::Owned)
    }

    /// As `get`, but of the records that a bulk made only those that changed since.
    pub fn row(&self, id: &str) -> Option<&T> {
        self.rows.get(self.places.get(id)?)
    }

    /// The records but for those of bulks, newest first.
    pub fn newest_rows_first(&self) -> impl Iterator<Item = &T> {
        self.rows.values().rev()
    }

    /// The records but for those of bulks, oldest first.
    pub fn oldest_rows_first(&self) -> impl Iterator<Item = &T> {
        self.rows.values()
    }

    /// The records that were made from the one second to the other; `None` if the cursor's record is unknown.
    pub fn list<'a>(&'a self, from: i64, to: i64, cursor: Cursor<'_>) -> Option<impl Iterator<Item = Cow<'a, T>> + 'a> {
        let (mut first, mut end) = ((from, 0), (to.saturating_add(1), 0));
        let newest_first = match cursor {
            Cursor::Newest => true,
            Cursor::OlderThan(id) => {
                end = end.min(self.place(id)?);
                true
            }
            Cursor::NewerThan(id) => {
                let (created, number) = self.place(id)?;
                first = first.max((created, number + 1));
                false
            }
        };
        Some(merge(self.sources(first, end, newest_first), newest_first))
    }

    /// Where a record stands, so that a few records of known ids can be put into the table's order.
    pub fn place(&self, id: &str) -> Option<Place> {
        let of_bulk = || self.bulks.iter().find_map(|(bulk, base)| Some(bulk.place(*base, T::index_in(bulk, id)?)));
        self.places.get(id).copied().or_else(of_bulk)
    }

    pub fn put(&mut self, row: T) {
        let place = self.place(row.id()).unwrap_or_else(|| {
            self.next += 1;
            (row.created(), self.next)
        });
        self.places.insert(row.id().to_owned(), place);
        self.rows.insert(place, row);
    }

    pub fn remove(&mut self, id: &str) {
        if let Some(place) = self.places.remove(id) {
            self.rows.remove(&place);
        }
    }

    pub fn put_bulk(&mut self, bulk: &Arc<Bulk>) {
        self.bulks.push((Arc::clone(bulk), self.next + 1));
        self.next += bulk.count;
    }

    fn sources(&self, first: Place, end: Place, newest_first: bool) -> Vec<Source<'_, T>> {
        if first >= end {
            return Vec::new();
        }
        let rows = self.rows.range(first..end).map(|(place, row)| (*place, Cow::Borrowed(row)));
        let rows: Box<dyn Iterator<Item = Found<'_, T>>> =
            if newest_first { Box::new(rows.rev()) } else { Box::new(rows) };
        let mut sources = vec![rows.peekable()];
        for (bulk, base) in &self.bulks {
            let found = move |index| {
                let place = bulk.place(*base, index);
                if self.rows.contains_key(&place) {
                    return None;
                }
                Some((place, Cow::Owned(T::of_bulk(bulk, index)?)))
            };
            let indexes = bulk.first_at(*base, first)..bulk.first_at(*base, end);
            let bulk: Box<dyn Iterator<Item = Found<'_, T>>> = if newest_first {
                Box::new(indexes.rev().filter_map(found))
            } else {
                Box::new(indexes.filter_map(found))
            };
            sources.push(bulk.peekable());
        }
        sources
    }
}

/// Several sorted sources as one.
fn merge<'a, T: Row + 'a>(
    mut sources: Vec<Source<'a, T>>,
    newest_first: bool,
) -> impl Iterator<Item = Cow<'a, T>> + 'a {
    std::iter::from_fn(move || {
        let mut best: Option<(usize, Place)> = None;
        for (number, source) in sources.iter_mut().enumerate() {
            let Some(place) = source.peek().map(|(place, _)| *place) else { continue };
            let is_better = best.is_none_or(|(_, other)| if newest_first { place > other } else { place < other });
            if is_better {
                best = Some((number, place));
            }
        }
        let (number, _) = best?;
        sources.get_mut(number)?.next().map(|(_, row)| row)
    })
}
