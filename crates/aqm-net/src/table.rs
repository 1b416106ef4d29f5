//! The tables of a run's results, which consist of columns, and the declaration of the tables' schemas.
//!
//! The name of a column ends with its unit. Times are in seconds since the start of the run. A missing value is stored
//! as missing, never as zero.

use crate::digest::Digest;

/// A column. All values of a column have the same type.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Column {
    /// Integers.
    Whole(Vec<u64>),
    /// Integers, some of which may be missing.
    MaybeWhole(Maybe<u64>),
    /// Real numbers.
    Real(Vec<f64>),
    /// Real numbers, some of which may be missing.
    MaybeReal(Maybe<f64>),
    /// Boolean values.
    Truth(Vec<bool>),
    /// Words, stored as indices into `words`.
    Word {
        /// Index in `words` of each value.
        codes: Vec<u32>,
        /// The words.
        words: Vec<String>,
    },
    /// Words, some of which may be missing.
    MaybeWord {
        /// Index in `words` of each value.
        codes: Vec<Option<u32>>,
        /// The words.
        words: Vec<String>,
    },
}

/// Values, some of which may be missing. One bit per value records whether the value exists. This representation needs
/// half as much memory as `Option` values.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Maybe<T> {
    values: Vec<T>,
    known: Vec<u8>,
}

impl<T: Copy + Default> Maybe<T> {
    /// Returns the value of a row; `None` if the value is missing.
    pub fn get(&self, row: usize) -> Option<T> {
        (self.bit(row) > 0).then(|| self.values[row])
    }

    /// Returns 1 if the value of a row exists, and 0 if the value is missing.
    fn bit(&self, row: usize) -> u8 {
        self.known[row / 8] >> (row % 8) & 1
    }

    /// Returns an iterator over all values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<T>> {
        (0..self.values.len()).map(|row| self.get(row))
    }

    /// Returns the values of the rows with the indices `rows`.
    fn of_rows(&self, rows: &[u32]) -> Self {
        let values = rows.iter().map(|&row| self.values[row as usize]).collect();
        let byte =
            |eight: &[u32]| eight.iter().rev().fold(0, |byte, &row| byte << 1 | self.bit(row as usize));
        Self { values, known: rows.chunks(8).map(byte).collect() }
    }

    /// Returns the values, with zeros in place of missing values.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Returns a bit mask of the existing values. Each byte covers eight values, with the first value in the lowest
    /// bit.
    pub fn known(&self) -> &[u8] {
        &self.known
    }
}

impl<T: Copy + Default> Extend<Option<T>> for Maybe<T> {
    fn extend<I: IntoIterator<Item = Option<T>>>(&mut self, values: I) {
        let mut row = self.values.len();
        let known = &mut self.known;
        self.values.extend(values.into_iter().map(|value| {
            if row.is_multiple_of(8) {
                known.push(0);
            }
            known[row / 8] |= u8::from(value.is_some()) << (row % 8);
            row += 1;
            value.unwrap_or_default()
        }));
    }
}

impl<T: Copy + Default> FromIterator<Option<T>> for Maybe<T> {
    fn from_iter<I: IntoIterator<Item = Option<T>>>(values: I) -> Self {
        let mut all = Self::default();
        all.extend(values);
        all
    }
}

/// A table, which consists of named columns of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name of the table.
    pub name: &'static str,
    /// Name and values of each column.
    pub columns: Vec<(&'static str, Column)>,
}

/// Description of a column.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct ColumnDoc {
    /// Name of the column, which ends with the unit.
    pub name: &'static str,
    /// Content of the column.
    pub doc: &'static str,
}

/// Description of a table.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct TableDoc {
    /// Name.
    pub name: &'static str,
    /// Meaning of a row. Further notes follow after a blank line.
    pub doc: &'static str,
    /// Columns.
    pub columns: &'static [ColumnDoc],
}

/// A row of a table that is declared by [`table!`](crate::table!).
pub trait Row: Sized {
    /// Schema of the table.
    const DOC: TableDoc;

    /// Returns the columns of the table, without values.
    fn columns() -> Vec<Column>;

    /// Appends rows to `columns`; columns that are `None` are skipped.
    fn append(rows: &[Self], columns: &mut [Option<Column>]);

    /// Converts rows into a table. `words` returns the words of a column, given the column's name.
    fn table(rows: Vec<Self>, words: impl Fn(&str) -> Vec<String>) -> Table {
        Rows::<Self, ()> { newest: rows, ..Rows::default() }.table(words)
    }
}

/// Rows that are added in any order. A key for each row determines the row's position in the table.
///
/// All rows except the newest are stored by column, and columns that are not needed are not stored, because otherwise
/// millions of rows would occupy most of a run's memory.
#[derive(Debug)]
pub struct Rows<R, K> {
    newest: Vec<R>,
    /// Columns in the order of the schema.
    columns: Vec<Option<Column>>,
    keys: Vec<K>,
    /// Whether rows are stored at all.
    open: bool,
}

/// Number of rows that are buffered before they are appended to columns.
const NEWEST: usize = 256;

impl<R: Row, K: Ord> Default for Rows<R, K> {
    fn default() -> Self {
        Self::with_columns(None)
    }
}

impl<R: Row, K: Ord> Rows<R, K> {
    /// Creates an empty set of rows that stores the columns with these names. If `names` is `None`, all columns are
    /// stored. If the list of names is empty, no rows are stored.
    pub fn with_columns(names: Option<&[String]>) -> Self {
        let open = names.is_none_or(|names| !names.is_empty());
        let names = names.filter(|_| open);
        let is_requested =
            |doc: &ColumnDoc| names.is_none_or(|names| names.iter().any(|name| name == doc.name));
        let columns = R::DOC.columns.iter().zip(R::columns());
        Self {
            newest: Vec::new(),
            columns: columns.map(|(doc, column)| is_requested(doc).then_some(column)).collect(),
            keys: Vec::new(),
            open,
        }
    }

    /// Adds a row. The row is placed after all rows with a smaller key and after all earlier rows with an equal key.
    pub fn push(&mut self, key: K, row: R) {
        if !self.open {
            return;
        }
        if self.newest.len() == NEWEST {
            R::append(&self.newest, &mut self.columns);
            self.newest.clear();
        }
        self.keys.push(key);
        self.newest.push(row);
    }

    /// Returns the rows in ascending order of their keys. `words` returns the words of a column, given the column's
    /// name.
    pub fn table(mut self, words: impl Fn(&str) -> Vec<String>) -> Table {
        R::append(&self.newest, &mut self.columns);
        let mut order: Vec<u32> = Vec::new();
        if !self.keys.is_sorted() {
            order = (0..self.keys.len() as u32).collect();
            order.sort_by_key(|&row| &self.keys[row as usize]);
        }
        let columns = R::DOC.columns.iter().zip(self.columns);
        let columns = columns.filter_map(|(doc, column)| {
            let mut column = column?;
            if !order.is_empty() {
                column.reorder(&order);
            }
            if let Column::Word { words: list, .. } | Column::MaybeWord { words: list, .. } = &mut column {
                *list = words(doc.name);
            }
            Some((doc.name, column))
        });
        Table { name: R::DOC.name, columns: columns.collect() }
    }
}

impl Column {
    /// Reorders the values. `order` contains the old index of each value.
    fn reorder(&mut self, order: &[u32]) {
        fn reordered<T: Copy>(values: &mut Vec<T>, order: &[u32]) {
            *values = order.iter().map(|&index| values[index as usize]).collect();
        }
        match self {
            Self::Whole(values) => reordered(values, order),
            Self::MaybeWhole(values) => *values = values.of_rows(order),
            Self::Real(values) => reordered(values, order),
            Self::MaybeReal(values) => *values = values.of_rows(order),
            Self::Truth(values) => reordered(values, order),
            Self::Word { codes, .. } => reordered(codes, order),
            Self::MaybeWord { codes, .. } => reordered(codes, order),
        }
    }
}

/// Declares a table as a documented struct for the table's rows. The struct implements [`Row`](table::Row).
#[macro_export]
macro_rules! table {
    (@column Word, $values:pat) => { $crate::table::Column::Word { codes: $values, .. } };
    (@column MaybeWord, $values:pat) => { $crate::table::Column::MaybeWord { codes: $values, .. } };
    (@column $kind:ident, $values:pat) => { $crate::table::Column::$kind($values) };
    (@empty Word) => { $crate::table::Column::Word { codes: Vec::new(), words: Vec::new() } };
    (@empty MaybeWord) => { $crate::table::Column::MaybeWord { codes: Vec::new(), words: Vec::new() } };
    (@empty $kind:ident) => { $crate::table::Column::$kind(Default::default()) };
    (
        $(#[doc = $about:literal])+
        $name:ident as $table:literal {
            $( $(#[doc = $doc:literal])+ $column:ident : $kind:ident ($type:ty), )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug)]
        pub(crate) struct $name {
            $( $(#[doc = $doc])+ pub(crate) $column: $type, )+
        }

        impl $crate::table::Row for $name {
            const DOC: $crate::table::TableDoc = $crate::table::TableDoc {
                name: $table,
                doc: concat!($($about, "\n"),+),
                columns: &[$( $crate::table::ColumnDoc { name: stringify!($column), doc: concat!($($doc),+) } ),+],
            };

            fn columns() -> Vec<$crate::table::Column> {
                vec![$( $crate::table!(@empty $kind) ),+]
            }

            fn append(rows: &[Self], columns: &mut [Option<$crate::table::Column>]) {
                let mut columns = columns.iter_mut();
                $( if let Some(Some($crate::table!(@column $kind, values))) = columns.next() {
                    values.extend(rows.iter().map(|row| row.$column));
                } )+
            }
        }
    };
}

/// Returns a digest of all values of all tables; the digests of equal tables are equal.
pub fn digest(tables: &[Table]) -> String {
    let mut digest = Digest::default();
    tables.iter().for_each(|table| table.feed(&mut digest));
    digest.finish()
}

impl Table {
    /// Adds every value to `digest`, so that tables with equal digests must be equal.
    fn feed(&self, digest: &mut Digest) {
        digest.text(self.name);
        for (name, column) in &self.columns {
            digest.text(name);
            let mut word = |bits: u64| digest.word(bits);
            match column {
                Column::Whole(values) => values.iter().for_each(|&v| word(v)),
                Column::Real(values) => values.iter().for_each(|v| word(v.to_bits())),
                Column::Truth(values) => values.iter().for_each(|&v| word(v.into())),
                Column::MaybeWhole(values) => values.iter().for_each(|v| {
                    word(v.is_some().into());
                    word(v.unwrap_or(0));
                }),
                Column::MaybeReal(values) => values.iter().for_each(|v| {
                    word(v.is_some().into());
                    word(v.map_or(0, f64::to_bits));
                }),
                Column::Word { codes, words } => {
                    codes.iter().for_each(|&code| word(code.into()));
                    words.iter().for_each(|w| digest.text(w));
                }
                Column::MaybeWord { codes, words } => {
                    codes.iter().for_each(|code| {
                        word(code.is_some().into());
                        word(code.unwrap_or(0).into());
                    });
                    words.iter().for_each(|w| digest.text(w));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::table! {
        /// A day.
        DayRow as "days" {
            /// Number of the day.
            day: Whole(u64),
            /// Temperature.
            degrees: MaybeReal(Option<f64>),
            /// Town.
            town: Word(u32),
            /// Destination of a trip.
            trip: MaybeWord(Option<u32>),
        }
    }

    fn days(degrees: Option<f64>) -> Table {
        days_with(degrees, None)
    }

    fn days_with(degrees: Option<f64>, trip: Option<u32>) -> Table {
        let rows = vec![DayRow { day: 1, degrees, town: 0, trip }];
        DayRow::table(rows, |_| vec!["Berne".to_owned()])
    }

    #[test]
    fn a_table_has_the_columns_of_its_rows() {
        let table = days(Some(3.5));
        assert_eq!(table.name, "days");
        assert_eq!(table.columns[1], ("degrees", Column::MaybeReal([Some(3.5)].into_iter().collect())));
        assert_eq!(DayRow::DOC.columns[2].name, "town");
        let words = vec!["Berne".to_owned()];
        assert_eq!(table.columns[3].1, Column::MaybeWord { codes: vec![None], words });
    }

    fn day(day: u64) -> DayRow {
        DayRow { day, degrees: Some(day as f64), town: 0, trip: None }
    }

    /// Returns a table with more days than fit into the buffer; the days are added in descending order. Each day with
    /// an even number is added twice, the second time without a temperature.
    fn backwards(columns: Option<&[String]>) -> Table {
        let mut rows = Rows::with_columns(columns);
        for number in (0..2 * NEWEST as u64).rev() {
            rows.push(number, day(number));
            if number % 2 == 0 {
                rows.push(number, DayRow { degrees: None, ..day(number) });
            }
        }
        rows.table(|_| vec!["Berne".to_owned()])
    }

    #[test]
    fn rows_are_sorted_by_key_and_equal_keys_keep_their_order() {
        let mut expected = Vec::new();
        for number in 0..2 * NEWEST as u64 {
            expected.push(day(number));
            if number % 2 == 0 {
                expected.push(DayRow { degrees: None, ..day(number) });
            }
        }
        assert_eq!(backwards(None), DayRow::table(expected, |_| vec!["Berne".to_owned()]));
    }

    #[test]
    fn only_requested_columns_are_stored_and_without_columns_no_rows() {
        let all = backwards(None);
        let some = backwards(Some(&["town".to_owned(), "degrees".to_owned()]));
        assert_eq!(
            some.columns,
            [all.columns[1].clone(), all.columns[2].clone()],
            "in the order of the schema"
        );
        let none = backwards(Some(&[]));
        assert_eq!(none, DayRow::table(Vec::new(), |_| vec!["Berne".to_owned()]));
    }

    #[test]
    fn missing_values_stay_missing_at_every_bit() {
        let given: Vec<Option<u64>> = (0..21).map(|row| (row % 3 > 0).then_some(row * 7)).collect();
        let mut kept: Maybe<u64> = given[..5].iter().copied().collect();
        kept.extend(given[5..].iter().copied());
        assert_eq!(kept.iter().collect::<Vec<_>>(), given);
        assert_eq!((kept.known(), kept.values()[20], kept.values()[18]), (&[0xb6, 0x6d, 0x1b][..], 140, 0));
        assert_ne!(kept, given.iter().map(|value| value.or(Some(0))).collect());
    }

    #[test]
    fn a_digest_distinguishes_missing_values_from_zero() {
        assert_eq!(digest(&[days(None)]), digest(&[days(None)]));
        assert_ne!(digest(&[days(None)]), digest(&[days(Some(0.0))]));
        assert_ne!(digest(&[days(None)]), digest(&[days_with(None, Some(0))]));
    }
}
