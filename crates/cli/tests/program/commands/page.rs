//! `--html` from outside: every command of the laboratory writes a page, the same bytes each time,
//! and nothing else is lost to it.
use crate::commands::command::{extant, post_3};
use extant_testkit::scratch::Scratch;

/// A command that writes a page: twice into the same file, and the bytes are the same; what is
/// printed is what it prints without one.
fn page(folder: &Scratch, words: &[&str]) -> String {
    page_beside(folder, words, &extant(words).stdout)
}

/// [`page`] of a command that prints `plain` without one.
fn page_beside(folder: &Scratch, words: &[&str], plain: &[u8]) -> String {
    let path = folder.join("page.html");
    let path = path.to_str().unwrap();
    let all = [words, &["--html", path]].concat();
    let pages = [(); 2].map(|()| {
        let output = extant(&all);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{all:?}: {errors}");
        assert_eq!(output.stdout, plain, "{words:?}: what is printed stays the same");
        std::fs::read_to_string(path).unwrap()
    });
    std::fs::remove_file(path).unwrap();
    assert_eq!(pages[0], pages[1], "{words:?}");
    assert!(pages[0].starts_with("<!doctype html>") && pages[0].ends_with("</html>\n"));
    let folder = folder.join("");
    assert!(!pages[0].contains(folder.to_str().unwrap()), "{words:?}: no folder of this machine");
    pages[0].clone()
}

const HOSTILE: &str = r#"name = "<script>alert(1)</script>"
line = "\"><img src=x onerror=alert(1)>"
seed = 7
memory = "16M"
[[drive]]
name = "</script>"
model = "ide-2001-7200"
[[filesystem]]
name = "&amp;<b>"
size = "64M"
profile = "ext2"
preset = "linux-2.4"
[[process]]
name = "</title>"
steps = [
    { step = "create-files", at = "/files", count = 200, directories = 10, size = "8K", label = "<i>" },
    { step = "remount" },
    { step = "read-all", at = "/", measure = "</table>" },
]
"#;

#[test]
fn every_command_of_the_laboratory_has_a_page() {
    let folder = Scratch::new("html");
    let list = page(&folder, &["lab", "list"]);
    assert!(list.contains("read-cold") && list.contains("ide-2001-7200"));
    let policies = page(&folder, &["lab", "policies"]);
    assert!(policies.contains("linux-2.4-akpm") && policies.contains("Which preset chooses what"));
    let shown = page(&folder, &["lab", "show", "ide-2001-7200"]);
    assert!(shown.contains("<pre"));
    let run = page(&folder, &["lab", "run", "drive-patterns"]);
    assert!(run.contains("seeks over time") && run.contains("data-kind=\"stack\""));
}

#[test]
fn a_post_has_its_tables_and_its_plots() {
    let folder = Scratch::new("html");
    let html = page_beside(&folder, &["lab", "posts", "3"], &post_3().stdout);
    for word in
        ["Post 3 · Linus Torvalds", "verdict agrees", "data-kind=\"bars\"", "href=\"#post-3\""]
    {
        assert!(html.contains(word), "{word}");
    }
}

#[test]
fn names_of_a_scenario_are_words_and_no_markup() {
    let folder = Scratch::new("html");
    let path = folder.join("hostile.toml");
    std::fs::write(&path, HOSTILE).unwrap();
    let html = page(&folder, &["lab", "run", path.to_str().unwrap()]);
    assert!(html.contains("what its blocks are used for"));
    // The only scripts are ours: one for the page, one with the data of each plot.
    let plots = html.matches("data-kind=").count();
    assert_eq!(html.matches("<script").count(), plots + 1);
    assert_eq!(html.matches("</script").count(), plots + 1);
    assert!(
        !html.contains("<img") && !html.contains("<b>\"") && html.matches("</title>").count() == 1
    );
}

#[test]
fn a_replay_shows_the_model_beside_the_drive() {
    let folder = Scratch::new("html");
    let trace = folder.join("t.trace");
    let lines: String = (0..200)
        .map(|at| format!("R Miss {} 8 {} 100\n", at * 7919 % 100_000, 4000 + at * 50))
        .collect();
    std::fs::write(&trace, lines).unwrap();
    let words = ["lab", "replay", "--drive", "ide-2001-7200", "--trace", trace.to_str().unwrap()];
    let path = folder.join("page.html");
    let output = extant(&[&words[..], &["--html", path.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = std::fs::read_to_string(&path).unwrap();
    assert!(html.contains("data-kind=\"histogram\"") && html.contains("Quantile against quantile"));
}

#[test]
fn nothing_but_a_page_is_replaced() {
    let folder = Scratch::new("html");
    let path = folder.join("mine.txt");
    std::fs::write(&path, "mine").unwrap();
    let refused = |words: &[&str], wanted: &str| {
        let output = extant(words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && errors.contains(wanted), "{words:?}: {errors}");
        assert!(output.stdout.is_empty(), "{words:?}: said before anything runs");
    };
    let mine = path.to_str().unwrap();
    refused(&["lab", "list", "--html", mine], "is no page of extant lab");
    refused(&["lab", "run", "drive-patterns", "--html", mine], "is no page of extant lab");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    let nowhere = folder.join("no/page.html");
    refused(&["lab", "posts", "3", "--html", nowhere.to_str().unwrap()], "there is no such folder");
    let itself = folder.join("");
    refused(&["lab", "policies", "--html", itself.to_str().unwrap()], "is a folder");
    let both = folder.join("both");
    let both = both.to_str().unwrap();
    refused(&["lab", "run", "drive-patterns", "--trace", both, "--html", both], "is written by");
}

#[test]
fn ageing_has_a_curve_for_each_thing_that_was_sampled() {
    let folder = Scratch::new("html");
    let words = [
        "lab",
        "age",
        "mail",
        "--preset",
        "linux-2.6",
        "--months",
        "2",
        "--size",
        "64M",
        "--layout-only",
    ];
    let html = page(&folder, &words);
    assert!(html.contains("Layout score") && html.matches("data-kind=\"lines\"").count() >= 5);
}
