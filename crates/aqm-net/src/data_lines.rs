//! The lines of data files.

/// Returns the lines of a data file with their numbers, counted from 1. Comments, which begin with `#`, blanks at both
/// ends, a byte order mark, and lines without other contents are removed.
pub fn data_lines(content: &str) -> impl Iterator<Item = (usize, &str)> {
    let content = content.strip_prefix('\u{feff}').unwrap_or(content);
    let numbered = (1..).zip(content.lines());
    let texts = numbered.map(|(number, line)| (number, line.split('#').next().unwrap_or_default().trim()));
    texts.filter(|(_, text)| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers() {
        let found: Vec<_> = data_lines("\u{feff}# origin\n 1 2 # first\r\n\n3").collect();
        assert_eq!(found, [(2, "1 2"), (4, "3")]);
    }
}
