//! Tables of text: columns as wide as their widest cell.

/// On which side cells stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alignment {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table of text under a title.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    title: String,
    columns: Vec<(String, Alignment)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns and no row.
    pub fn new(title: &str, columns: &[(&str, Alignment)]) -> Table {
        Table {
            title: title.to_owned(),
            columns: columns.iter().map(|(name, side)| ((*name).to_owned(), *side)).collect(),
            rows: Vec::new(),
        }
    }

    /// One more row. Cells that are missing are empty; more than there are columns are left out.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().take(self.columns.len()).collect());
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What it shows.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The heads with their sides.
    pub fn columns(&self) -> &[(String, Alignment)] {
        &self.columns
    }

    /// The rows; a cell that is missing at the end of one is empty.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Title, heads and rows, each on a line; an empty line first.
    pub fn render(&self) -> String {
        let cell = |row: &[String], at: usize| row.get(at).cloned().unwrap_or_default();
        let heads: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let widths: Vec<usize> = (0..heads.len())
            .map(|at| {
                let cells = self.rows.iter().map(|row| cell(row, at).chars().count());
                cells.chain([heads[at].chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let line = |row: &[String]| {
            let mut line = String::new();
            for (at, (_, side)) in self.columns.iter().enumerate() {
                let (text, width) = (cell(row, at), widths[at]);
                let padded = match side {
                    Alignment::Left => format!("{text:<width$}"),
                    Alignment::Right => format!("{text:>width$}"),
                };
                line.push_str(if at == 0 { "" } else { "  " });
                line.push_str(&padded);
            }
            format!("{}\n", line.trim_end())
        };
        let mut text = format!("\n{}\n", self.title);
        text.push_str(&line(&heads));
        self.rows.iter().for_each(|row| text.push_str(&line(row)));
        text
    }
}

/// Nanoseconds as seconds with three digits behind the point, rounded.
pub fn seconds(nanoseconds: u64) -> String {
    let milliseconds = (u128::from(nanoseconds) + 500_000) / 1_000_000;
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new("rows", &[("what", Alignment::Left), ("s", Alignment::Right)]);
        table.row(["untar".to_owned(), seconds(31_234_600_000)]);
        table.row(["x".to_owned(), seconds(499_999)]);
        assert_eq!(table.render(), "\nrows\nwhat        s\nuntar  31.235\nx       0.000\n");
        assert_eq!(seconds(u64::MAX), "18446744073.710");
    }
}
