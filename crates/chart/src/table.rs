//! Tables of text: columns as wide as their widest cell, folded where that is more than a line
//! holds.
use crate::wrap::{columns, lines_of, narrowest};

/// On which side cells are.
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
    /// Columns that are shown beside the one before them, also in a folded table.
    bound: Vec<usize>,
    rows: Vec<Vec<String>>,
}

/// Blanks between two columns.
const GAP: usize = 2;
/// Words are not folded into narrower columns than this.
const WORDS_MIN: usize = 24;

impl Table {
    /// A table with these columns and no row.
    pub fn new(title: &str, columns: &[(&str, Alignment)]) -> Table {
        Table {
            title: title.to_owned(),
            columns: columns.iter().map(|(name, side)| ((*name).to_owned(), *side)).collect(),
            bound: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Keeps column `at`, counted from 0, beside the one before it.
    pub fn bind(&mut self, at: usize) {
        self.bound.push(at);
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

    /// Title, heads and rows, in lines of at most `width` columns; an empty line first.
    ///
    /// Where the columns are wider than that, long heads and words take several lines. Where that
    /// is not enough, the table continues below itself: the first column, and those columns that
    /// had no room.
    pub fn render(&self, width: usize) -> String {
        let mut text = crate::wrap::wrapped(&format!("\n{}", self.title), width, 0);
        let natural: Vec<usize> = (0..self.columns.len())
            .map(|at| self.widest(at).max(columns(&self.columns[at].0)))
            .collect();
        if total(&natural) <= width {
            self.block(&(0..natural.len()).collect::<Vec<_>>(), &natural, &mut text);
            return text;
        }
        let widths = self.narrowed(width);
        for (number, shown) in self.blocks(&widths, width).iter().enumerate() {
            text.push_str(if number == 0 { "" } else { "\n" });
            let widths: Vec<usize> = shown.iter().map(|at| widths[*at]).collect();
            self.block(shown, &widths, &mut text);
        }
        text
    }

    fn cell(&self, row: &[String], at: usize) -> String {
        row.get(at).cloned().unwrap_or_default()
    }

    /// The widest cell of a column, its head left out.
    fn widest(&self, at: usize) -> usize {
        self.rows.iter().map(|row| columns(&self.cell(row, at))).max().unwrap_or(0)
    }

    /// Widths with which all columns stand beside each other, if that can be; else those for a
    /// table in several blocks.
    fn narrowed(&self, width: usize) -> Vec<usize> {
        let narrow = |at: usize| self.widest(at).max(narrowest(&self.columns[at].0));
        let all: Vec<usize> = (0..self.columns.len()).map(narrow).collect();
        let is_words = |at: &usize| self.columns[*at].1 == Alignment::Left;
        let mut widths = all.clone();
        loop {
            let excess = total(&widths).saturating_sub(width);
            let words = (0..widths.len()).filter(|at| is_words(at) && widths[*at] > WORDS_MIN);
            match words.max_by_key(|at| widths[*at]) {
                _ if excess == 0 => return self.with_whole_heads(widths, width),
                Some(at) => widths[at] = widths[at].saturating_sub(excess).max(WORDS_MIN),
                None => break,
            }
        }
        // The first column is repeated in each block, and leaves most of a line to the others.
        let first = if is_words(&0) { all[0].min(width * 2 / 5) } else { all[0] };
        let rest = width.saturating_sub(first + GAP).max(WORDS_MIN);
        let others =
            (1..all.len()).map(|at| if is_words(&at) { all[at].min(rest) } else { all[at] });
        std::iter::once(first).chain(others).collect()
    }

    /// The same widths, and whole heads where there is room left for them.
    fn with_whole_heads(&self, mut widths: Vec<usize>, width: usize) -> Vec<usize> {
        let mut left = width.saturating_sub(total(&widths));
        for (at, (head, side)) in self.columns.iter().enumerate() {
            let more = columns(head).saturating_sub(widths[at]);
            if *side == Alignment::Right && more <= left {
                widths[at] += more;
                left -= more;
            }
        }
        widths
    }

    /// Which columns are shown beside each other: all, or in several blocks that each begin with
    /// the first column.
    fn blocks(&self, widths: &[usize], width: usize) -> Vec<Vec<usize>> {
        let mut blocks = vec![vec![0]];
        let mut used = widths.first().copied().unwrap_or(0);
        let mut at = 1;
        while at < widths.len() {
            let bound = (at + 1..widths.len()).take_while(|next| self.bound.contains(next)).count();
            let group = at..at + 1 + bound;
            let more: usize = group.clone().map(|column| widths[column] + GAP).sum();
            if used + more > width && blocks.last().is_some_and(|block| block.len() > 1) {
                blocks.push(vec![0]);
                used = widths[0];
            }
            used += more;
            at = group.end;
            if let Some(block) = blocks.last_mut() {
                block.extend(group);
            }
        }
        blocks
    }

    /// Heads and rows of these columns. Heads of several lines end at the same line, cells begin at
    /// the same.
    fn block(&self, shown: &[usize], widths: &[usize], text: &mut String) {
        let folded = |cells: Vec<String>| -> Vec<Vec<String>> {
            let cells = cells.iter().zip(widths);
            cells.map(|(cell, width)| lines_of(cell, *width, *width)).collect()
        };
        let height = |cells: &[Vec<String>]| cells.iter().map(Vec::len).max().unwrap_or(0);
        let heads = folded(shown.iter().map(|at| self.columns[*at].0.clone()).collect());
        for line in 0..height(&heads) {
            let above = |cell: &Vec<String>| (line + cell.len()).checked_sub(height(&heads));
            let cells = heads.iter().map(|cell| above(cell).and_then(|at| cell.get(at)));
            self.line(shown, widths, cells, text);
        }
        for row in &self.rows {
            let cells = folded(shown.iter().map(|at| self.cell(row, *at)).collect());
            for line in 0..height(&cells) {
                self.line(shown, widths, cells.iter().map(|cell| cell.get(line)), text);
            }
        }
    }

    fn line<'a>(
        &self,
        shown: &[usize],
        widths: &[usize],
        cells: impl Iterator<Item = Option<&'a String>>,
        text: &mut String,
    ) {
        let mut line = String::new();
        for (number, ((at, width), cell)) in shown.iter().zip(widths).zip(cells).enumerate() {
            let cell = cell.map_or("", String::as_str);
            line.push_str(if number == 0 { "" } else { "  " });
            match self.columns[*at].1 {
                Alignment::Left => line.push_str(&format!("{cell:<width$}")),
                Alignment::Right => line.push_str(&format!("{cell:>width$}")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Nanoseconds as seconds with three digits after the point, rounded.
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
        assert_eq!(table.render(100), "\nrows\nwhat        s\nuntar  31.235\nx       0.000\n");
        assert_eq!(seconds(u64::MAX), "18446744073.710");
    }

    #[test]
    fn a_table_that_is_too_wide_folds_its_words_and_then_itself() {
        let mut table = Table::new(
            "rows",
            &[
                ("what", Alignment::Left),
                ("post", Alignment::Right),
                ("ours", Alignment::Right),
                ("why it is as it is", Alignment::Left),
            ],
        );
        table.bind(2);
        let why = "because of something that takes a while to say";
        table.row(["untar", "31.2", "29.9", why].map(str::to_owned));
        assert_eq!(
            table.render(50),
            "\nrows\nwhat   post  ours  why it is as it is\nuntar  31.2  29.9  because of \
             something that takes\n                   a while to say\n"
        );
        let narrow = table.render(40);
        assert_eq!(
            narrow,
            "\nrows\nwhat   post  ours\nuntar  31.2  29.9\n\nwhat   why it is as it is\nuntar  \
             because of something that takes a\n       while to say\n"
        );
    }
}
