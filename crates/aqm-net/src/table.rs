//! What a run leaves behind: tables made of columns, and how the schema of a table is declared.
//!
//! The unit of a column ends its name. Times are seconds since the run began. A missing value is
//! written as missing, never as zero.

use crate::digest::Digest;

/// One column: its values all have one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Whole numbers.
    Whole(Vec<u64>),
    /// Whole numbers, some missing.
    MaybeWhole(Vec<Option<u64>>),
    /// Real numbers.
    Real(Vec<f64>),
    /// Real numbers, some missing.
    MaybeReal(Vec<Option<f64>>),
    /// True or false.
    Truth(Vec<bool>),
    /// One of a few words: an index into `words`.
    Word {
        /// Which word.
        codes: Vec<u32>,
        /// The words.
        words: Vec<String>,
    },
    /// The same, some missing.
    MaybeWord {
        /// Which word.
        codes: Vec<Option<u32>>,
        /// The words.
        words: Vec<String>,
    },
}

/// A table: named columns of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Name and values of each column.
    pub columns: Vec<(&'static str, Column)>,
}

/// One column, as documentation shows it.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct ColumnDoc {
    /// Its name; the unit is its last part.
    pub name: &'static str,
    /// What it holds.
    pub doc: &'static str,
}

/// One table, as documentation shows it.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct TableDoc {
    /// Its name.
    pub name: &'static str,
    /// What a row is; what else is worth knowing stands after a blank line.
    pub doc: &'static str,
    /// Its columns.
    pub columns: &'static [ColumnDoc],
}

/// Declares a table: a struct of vectors with one `push`, its documentation and its conversion.
#[macro_export]
macro_rules! table {
    (@column Word, $rows:ident, $column:ident, $words:ident) => {
        $crate::table!(@words Word, $rows, $column, $words)
    };
    (@column MaybeWord, $rows:ident, $column:ident, $words:ident) => {
        $crate::table!(@words MaybeWord, $rows, $column, $words)
    };
    (@words $kind:ident, $rows:ident, $column:ident, $words:ident) => {
        $crate::table::Column::$kind {
            codes: $rows.iter().map(|row| row.$column).collect(),
            words: $words(stringify!($column)),
        }
    };
    (@column $kind:ident, $rows:ident, $column:ident, $words:ident) => {
        $crate::table::Column::$kind($rows.iter().map(|row| row.$column).collect())
    };
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

        impl $name {
            pub(crate) const DOC: $crate::table::TableDoc = $crate::table::TableDoc {
                name: $table,
                doc: concat!($($about, "\n"),+),
                columns: &[$( $crate::table::ColumnDoc { name: stringify!($column), doc: concat!($($doc),+) } ),+],
            };

            /// The rows as columns; `words` gives the words of a column of words.
            pub(crate) fn table(rows: Vec<Self>, words: impl Fn(&str) -> Vec<String>) -> $crate::table::Table {
                let _ = &words;
                $crate::table::Table {
                    name: $table,
                    columns: vec![$( (
                        stringify!($column),
                        $crate::table!(@column $kind, rows, $column, words),
                    ) ),+],
                }
            }
        }
    };
}

/// A digest of every value of every table: equal for equal tables.
pub fn digest(tables: &[Table]) -> String {
    let mut digest = Digest::default();
    tables.iter().for_each(|table| table.feed(&mut digest));
    digest.finish()
}

impl Table {
    /// Feeds every value to `digest`, so that two tables are equal if their digests are.
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
            /// Which.
            day: Whole(u64),
            /// How warm.
            degrees: MaybeReal(Option<f64>),
            /// Where.
            town: Word(u32),
            /// Where one went.
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
        assert_eq!(table.columns[1], ("degrees", Column::MaybeReal(vec![Some(3.5)])));
        assert_eq!(DayRow::DOC.columns[2].name, "town");
        let words = vec!["Berne".to_owned()];
        assert_eq!(table.columns[3].1, Column::MaybeWord { codes: vec![None], words });
    }

    #[test]
    fn a_digest_tells_a_missing_value_from_zero() {
        assert_eq!(digest(&[days(None)]), digest(&[days(None)]));
        assert_ne!(digest(&[days(None)]), digest(&[days(Some(0.0))]));
        assert_ne!(digest(&[days(None)]), digest(&[days_with(None, Some(0))]));
    }
}
