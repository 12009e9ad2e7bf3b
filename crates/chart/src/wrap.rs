//! Text folded into lines that fit a terminal.

/// Columns of a line where it is not known how wide the reader's screen is.
pub const TEXT_WIDTH: usize = 100;
/// No line is folded to fewer columns than these: words would fall apart.
const WIDTH_MIN: usize = 40;

/// `text` in lines of at most `width` columns, each with a line end; lines after the first begin
/// with `indent` blanks. Lines break at blanks, and words that are too long for a line of their own
/// after punctuation, or anywhere.
pub fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let width = width.max(WIDTH_MIN);
    let indent = indent.min(width / 2);
    let mut folded = String::new();
    for line in text.lines() {
        if columns(line) <= width {
            folded.push_str(line.trim_end());
            folded.push('\n');
            continue;
        }
        let begin = line.chars().take_while(|letter| *letter == ' ').count().min(width / 2);
        let mut rest = lines_of(line.trim_start(), width - begin, width - indent).into_iter();
        let first = rest.next().unwrap_or_default();
        folded.push_str(format!("{:begin$}{first}", "").trim_end());
        folded.push('\n');
        for line in rest {
            folded.push_str(&format!("{:indent$}{line}\n", ""));
        }
    }
    folded
}

/// `head`, and beside it `text`, whose lines all begin where the first one does. Each line has at
/// most `width` columns.
pub fn beside(head: &str, text: &str, width: usize) -> String {
    let width = width.max(WIDTH_MIN);
    let indent = columns(head).min(width / 2);
    let lines = lines_of(text, width.saturating_sub(columns(head)), width - indent);
    let blanks = format!("\n{:indent$}", "");
    format!("{}\n", format!("{head}{}", lines.join(&blanks)).trim_end())
}

/// A line in pieces: the first of at most `first` columns, the others of `rest`. At least one;
/// without a blank at an end.
pub(crate) fn lines_of(line: &str, first: usize, rest: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    let mut room = first.max(1);
    for word in line.split(' ') {
        let blank = usize::from(used > 0);
        let length = columns(word);
        if used + blank + length <= room {
            push(&mut lines, if blank > 0 { " " } else { "" }, word);
            used += blank + length;
            continue;
        }
        if used > 0 || length <= rest {
            lines.push(String::new());
            (used, room) = (0, rest.max(1));
        }
        for piece in pieces(word) {
            for part in cut(piece, rest.max(1)) {
                if used + columns(&part) > room && (used > 0 || room < rest) {
                    lines.push(String::new());
                    (used, room) = (0, rest.max(1));
                }
                used += columns(&part);
                push(&mut lines, "", &part);
            }
        }
    }
    lines
}

fn push(lines: &mut [String], blank: &str, word: &str) {
    if let Some(last) = lines.last_mut() {
        last.push_str(blank);
        last.push_str(word);
    }
}

/// A word in pieces, each ending with the punctuation that a line may break after.
fn pieces(word: &str) -> impl Iterator<Item = &str> {
    word.split_inclusive([',', ';', '/', '=', '+', ':'])
}

fn cut(piece: &str, most: usize) -> Vec<String> {
    let letters: Vec<char> = piece.chars().collect();
    letters.chunks(most).map(|part| part.iter().collect()).collect()
}

/// How many columns a text takes.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().count()
}

/// The width of the narrowest column that shows a text without cutting a word apart where no
/// punctuation is.
pub(crate) fn narrowest(text: &str) -> usize {
    text.split(' ').flat_map(pieces).map(columns).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_blanks_and_hang() {
        let text = "- a note that goes on for longer than there is room for it on one line";
        assert_eq!(
            wrapped(text, 40, 2),
            "- a note that goes on for longer than\n  there is room for it on one line\n"
        );
        assert_eq!(wrapped("  short\n\nline", 40, 4), "  short\n\nline\n");
        assert_eq!(wrapped("", 40, 4), "");
    }

    #[test]
    fn text_stands_beside_its_head() {
        let text = "what it is, in more words than one line holds";
        assert_eq!(
            beside("  name    ", text, 40),
            "  name    what it is, in more words than\n          one line holds\n"
        );
        assert_eq!(beside("  name  ", "", 40), "  name\n");
        let long = beside(&"n".repeat(60), "text", 40);
        assert_eq!(long, format!("{}\n{:20}text\n", "n".repeat(60), ""));
    }

    #[test]
    fn words_that_are_too_long_break_after_punctuation_and_then_anywhere() {
        let policies = "linux-2.4,placement=orlov,allocation=ext2-goal,growth=on-demand";
        let folded = wrapped(policies, 40, 2);
        assert!(folded.lines().all(|line| columns(line) <= 40), "{folded}");
        assert_eq!(folded.replace("\n  ", "").trim_end(), policies);
        let long = wrapped(&"x".repeat(100), 40, 2);
        assert_eq!(long.lines().map(columns).collect::<Vec<_>>(), [38, 40, 26]);
        assert_eq!(narrowest("modern,elevator=noop x"), 9);
    }
}
