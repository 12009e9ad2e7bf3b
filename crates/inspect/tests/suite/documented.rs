//! docs/CHECK.md names every code, as the table of the program does.
use extant_inspect::{CODES, Rule};

fn row(rule: &Rule) -> String {
    let sentence = rule.sentence.replace(['{', '}'], "*");
    format!("| `{}` | {} | {sentence} |", rule.name, rule.severity)
}

#[test]
fn every_code_stands_in_the_document() {
    let document = std::fs::read_to_string(extant_testkit::repository().join("docs/CHECK.md"))
        .expect("docs/CHECK.md");
    let found: Vec<&str> = document.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<String> = CODES.iter().map(row).collect();
    assert!(
        found == expected,
        "docs/CHECK.md should end with:\n| code | severity | what is reported |\n| --- | --- | --- \
         |\n{}",
        expected.join("\n")
    );
}
