//! Pages: groups of objects that a client fetches together.

use std::collections::BTreeMap;

use aqm_net::Instant;
use aqm_traffic::Transfer;

use crate::results::tables::PageRow;

/// A page that has incomplete objects.
struct Page {
    opened: Instant,
    objects: u64,
    missing: u64,
    bytes: u64,
}

/// Incomplete pages, by workload and number.
#[derive(Default)]
pub(crate) struct Pages(BTreeMap<(u32, u64), Page>);

impl Pages {
    /// Records that a transfer of the workload `traffic` has started. The first transfer of a page opens the page.
    pub(crate) fn open(&mut self, traffic: u32, transfer: &Transfer, now: Instant) {
        let Some(number) = transfer.page else { return };
        let objects = u64::from(transfer.page_objects);
        let empty = Page { opened: now, objects, missing: objects, bytes: 0 };
        let page = self.0.entry((traffic, number)).or_insert(empty);
        page.bytes += transfer.bytes.unwrap_or(0);
    }

    /// Records that a transfer is complete. If the transfer was the last transfer of its page, returns the row of the
    /// page.
    pub(crate) fn complete(&mut self, traffic: u32, transfer: &Transfer, now: Instant) -> Option<PageRow> {
        let number = transfer.page?;
        let page = self.0.get_mut(&(traffic, number))?;
        page.missing -= 1;
        if page.missing > 0 {
            return None;
        }
        let page = self.0.remove(&(traffic, number))?;
        Some(row(traffic, number, &page, Some(now)))
    }

    /// Returns the rows of the incomplete pages.
    pub(crate) fn incomplete(&self) -> impl Iterator<Item = PageRow> {
        self.0.iter().map(|(&(traffic, number), page)| row(traffic, number, page, None))
    }
}

fn row(traffic: u32, number: u64, page: &Page, completed: Option<Instant>) -> PageRow {
    PageRow {
        traffic,
        page: number,
        start_s: page.opened.seconds(),
        objects: page.objects,
        size_bytes: page.bytes,
        duration_s: completed.map(|at| at.since(page.opened).seconds()),
        complete: completed.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_complete_with_the_last_of_its_objects_and_begins_with_the_first() {
        let object =
            |bytes| Transfer { bytes: Some(bytes), request: None, page: Some(8), page_objects: 2, host: 0 };
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let mut pages = Pages::default();
        pages.open(1, &object(300), at(2));
        pages.open(1, &object(50), at(3));
        assert!(pages.complete(1, &object(50), at(4)).is_none());
        let unfinished: Vec<PageRow> = pages.incomplete().collect();
        assert_eq!((unfinished.len(), unfinished[0].duration_s, unfinished[0].complete), (1, None, false));
        let row = pages.complete(1, &object(300), at(7)).unwrap();
        assert_eq!((row.traffic, row.page, row.objects, row.size_bytes), (1, 8, 2, 350));
        assert_eq!((row.start_s, row.duration_s, row.complete), (2.0, Some(5.0), true));
        assert_eq!(pages.incomplete().count(), 0);
    }

    #[test]
    fn a_transfer_without_a_page_opens_none() {
        let alone = Transfer { bytes: Some(1), request: None, page: None, page_objects: 1, host: 0 };
        let mut pages = Pages::default();
        pages.open(0, &alone, Instant::START);
        assert_eq!(pages.incomplete().count(), 0);
        assert!(pages.complete(0, &alone, Instant::START).is_none());
    }
}
