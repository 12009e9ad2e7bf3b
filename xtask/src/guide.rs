//! `xtask guide`: the tables of CONTRIBUTING.md that the suites' own tables give.

use extant_testkit::variables::{BUDGETS, CHOICES, Level, VARIABLES};

use crate::repository;

/// The document that is written into.
const GUIDE: &str = "CONTRIBUTING.md";

/// A table of the guide: the word in its marks, and its lines.
type Table = (&'static str, fn() -> String);

const TABLES: &[Table] = &[("budgets", budgets), ("variables", variables), ("choices", choices)];

/// `guide`: writes the tables between their marks.
///
/// # Errors
/// A mark is missing, or the guide cannot be read or written.
pub fn run(_words: &[String]) -> Result<(), String> {
    let path = repository().join(GUIDE);
    let said = |error: std::io::Error| format!("{GUIDE}: {error}");
    let text = std::fs::read_to_string(&path).map_err(said)?;
    std::fs::write(&path, with_tables(&text)?).map_err(said)
}

/// The guide with every table as it has to be.
fn with_tables(text: &str) -> Result<String, String> {
    TABLES.iter().try_fold(text.to_owned(), |text, (name, table)| {
        let (start, end) = (format!("<!-- {name}: xtask guide -->\n"), "<!-- end -->");
        let missing = || format!("{GUIDE} has no {}", start.trim_end());
        let (before, rest) = text.split_once(&start).ok_or_else(missing)?;
        let (_, after) = rest.split_once(end).ok_or_else(missing)?;
        Ok(format!("{before}{start}{}{end}{after}", table()))
    })
}

fn budgets() -> String {
    let rows = BUDGETS.iter().map(|(name, seconds)| format!("| {name} | {seconds} s |\n"));
    format!("| suite | budget |\n| --- | ---: |\n{}", rows.collect::<String>())
}

fn variables() -> String {
    let rows = VARIABLES.iter().map(|row| {
        let [test, all, night] =
            [Level::Test, Level::All, Level::Night].map(|level| shown(row.value(level)));
        format!("| `{}` | {}, {} | {test} | {all} | {night} |\n", row.name, row.suite, row.about)
    });
    let head = "| variable | suite | `make test` | `make test-all` | `make test-night` |\n\
        | --- | --- | ---: | ---: | ---: |\n";
    head.to_owned() + &rows.collect::<String>()
}

fn choices() -> String {
    let rows =
        CHOICES.iter().map(|row| format!("| `{}` | {} | {} |\n", row.name, row.suite, row.about));
    format!("| variable | suite | what it is |\n| --- | --- | --- |\n{}", rows.collect::<String>())
}

/// Numbers with a comma before each three digits, words as they are typed.
fn shown(value: &str) -> String {
    if !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("`{value}`");
    }
    let mut shown = String::new();
    for (at, digit) in value.chars().enumerate() {
        if at > 0 && (value.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_the_tables_of_today() {
        let text = std::fs::read_to_string(repository().join(GUIDE)).expect("a guide");
        assert_eq!(with_tables(&text).as_deref(), Ok(text.as_str()), "run xtask guide");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(["7", "1000", "20000", "all"].map(shown), ["7", "1,000", "20,000", "`all`"]);
    }
}
