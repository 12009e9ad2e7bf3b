//! `extant man`: the manual, one page a command.
use clap_mangen::Man;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Show the manual page of a command, or write all pages to a folder.
///
/// COMMAND is one of extant's commands, as "build" or "lab posts"; without one the main page is
/// shown. On a terminal man(1) shows the page; anywhere else its source is printed. FOLDER is a
/// folder that exists, or a path with a slash, which is made. What is both a command and a folder
/// is the command: ./build is the folder.
#[derive(clap::Args)]
#[command(override_usage = "extant man [OPTIONS] [COMMAND]...\n       extant man [OPTIONS] FOLDER")]
#[command(after_help = "Examples:
  extant man build
  extant man lab posts | man -l -
  extant man /usr/local/share/man/man1")]
pub struct Arguments {
    /// A command, or the folder for all pages: extant.1, extant-build.1 and so on
    #[arg(value_name = "COMMAND|FOLDER", num_args = 0..)]
    pub words: Vec<OsString>,
}

/// A page of the manual.
struct Page {
    /// The words of the command, with blanks between: "extant lab posts".
    command: String,
    /// Its source, for man(1).
    text: String,
}

impl Page {
    /// As files of pages are called: "extant-lab-posts.1".
    fn file_name(&self) -> String {
        format!("{}.1", self.command.replace(' ', "-"))
    }
}

/// Shows or writes them. With `--json`: `{"pages": [{"name": .., "text": ..}]}`, or the paths
/// written.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let pages = pages().map_err(|error| Error::io("manual", &error))?;
    let words = &arguments.words;
    if words.is_empty() {
        return show(&pages, console);
    }
    if let Some(page) = pages.iter().find(|page| is_named(page, words)) {
        return show(std::slice::from_ref(page), console);
    }
    let folder = match &words[..] {
        [word] if word.as_bytes().contains(&b'/') || Path::new(word).is_dir() => {
            PathBuf::from(word)
        }
        _ => return Err(no_page(words)),
    };
    write(&pages, &folder, console)
}

/// Whether these words name the command, with or without "extant" before them, or its page.
fn is_named(page: &Page, words: &[OsString]) -> bool {
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let said = words.join(" ");
    let inside = page.command.strip_prefix("extant ").unwrap_or(&page.command);
    said == page.command || said == inside || said == page.command.replace(' ', "-")
}

fn no_page(words: &[OsString]) -> Error {
    let said: Vec<String> =
        words.iter().map(|word| extant_archive::printable(word.as_bytes())).collect();
    let said = said.join(" ");
    Error::usage(format!("{said}: there is no such command, and no such folder")).hint(format!(
        "extant --help shows the commands; all pages are written to a folder that is named with a \
         slash: ./{}",
        said.replace(' ', "-")
    ))
}

/// One page, or the first of all; on a terminal in man's form.
fn show(pages: &[Page], console: &Console) -> Result<Exit, Error> {
    if console.is_json() {
        let pages = pages
            .iter()
            .map(|page| serde_json::json!({"name": page.file_name(), "text": page.text}));
        let pages = serde_json::json!({"pages": pages.collect::<Vec<_>>()});
        console.print_json("extant-man/1", &pages)?;
    } else if let Some(page) = pages.first()
        && !(io::stdout().is_terminal() && shown_by_man(&page.text))
    {
        console.print(&page.text)?;
    }
    Ok(Exit::Complete)
}

/// Whether man(1) is there and has shown the page.
fn shown_by_man(text: &str) -> bool {
    let Ok(mut man) = Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn() else {
        return false;
    };
    if let Some(mut input) = man.stdin.take() {
        // A reader that leaves early has seen enough.
        let _ = input.write_all(text.as_bytes());
    }
    man.wait().is_ok_and(|status| status.success())
}

fn write(pages: &[Page], folder: &Path, console: &Console) -> Result<Exit, Error> {
    std::fs::create_dir_all(folder).map_err(|error| Error::io(folder.display(), &error))?;
    let mut written = Vec::new();
    for page in pages {
        let path = folder.join(page.file_name());
        std::fs::write(&path, &page.text).map_err(|error| Error::io(path.display(), &error))?;
        written.push(path.display().to_string());
    }
    if console.is_json() {
        console.print_json("extant-man/1", &serde_json::json!({"written": written}))?;
    }
    Ok(Exit::Complete)
}

/// The pages of all commands; the main page comes first.
fn pages() -> io::Result<Vec<Page>> {
    let mut table = super::table();
    table.build();
    let mut pages = Vec::new();
    add_pages(&table, "extant".into(), &mut pages)?;
    Ok(pages)
}

/// A command with all its options, each with the name of its value.
fn synopsis(command: &clap::Command, name: &str) -> String {
    let mut words = vec![name.to_owned()];
    let is_shown = |argument: &&clap::Arg| !argument.is_hide_set();
    let options = command.get_arguments().filter(is_shown).filter(|one| !one.is_positional());
    words.extend(options.map(|option| {
        let short = option.get_short().map(|letter| format!("-{letter}"));
        let long = option.get_long().map(|long| format!("--{long}"));
        let names: Vec<String> = short.into_iter().chain(long).collect();
        let takes_value = option.get_action().takes_values();
        let value = option.get_value_names().filter(|_| takes_value);
        let value = value.map(|names| names.join(" "));
        let may_be_bare = option.get_num_args().is_some_and(|range| range.min_values() == 0);
        let value = match (value, option.is_require_equals_set(), may_be_bare) {
            (None, ..) => String::new(),
            (Some(value), true, true) => format!("[={value}]"),
            (Some(value), true, false) => format!("={value}"),
            (Some(value), false, true) => format!(" [{value}]"),
            (Some(value), false, false) => format!(" {value}"),
        };
        bracketed(&format!("{}{value}", names.join("|")), option)
    }));
    words.extend(command.get_positionals().filter(is_shown).map(|positional| {
        let names = positional.get_value_names().unwrap_or_default().join(" ");
        let is_many = positional.get_num_args().is_some_and(|range| range.max_values() > 1);
        let more = if is_many { "..." } else { "" };
        format!("{}{more}", bracketed(&names, positional))
    }));
    if command.get_subcommands().next().is_some() {
        words.push("COMMAND".to_owned());
    }
    words.join(" ")
}

fn bracketed(word: &str, argument: &clap::Arg) -> String {
    if argument.is_required_set() { word.to_owned() } else { format!("[{word}]") }
}

/// The page of a command, and those of the commands within it; `help` needs none.
fn add_pages(command: &clap::Command, name: String, pages: &mut Vec<Page>) -> io::Result<()> {
    let mut text = Vec::new();
    let shown = match command.get_overridden_usage() {
        Some(_) => command.clone(),
        None => command.clone().override_usage(synopsis(command, &name)),
    };
    let source = format!("extant {}", env!("CARGO_PKG_VERSION"));
    Man::new(shown).title(name.replace(' ', "-")).source(source).render(&mut text)?;
    pages.push(Page { command: name.clone(), text: String::from_utf8_lossy(&text).into_owned() });
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        add_pages(inner, format!("{name} {}", inner.get_name()), pages)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_every_command() {
        let pages = pages().unwrap();
        let table = super::super::table();
        fn count(command: &clap::Command) -> usize {
            let inner = command.get_subcommands().filter(|inner| inner.get_name() != "help");
            1 + inner.map(count).sum::<usize>()
        }
        assert_eq!(pages.len(), count(&table));
        assert!(pages.iter().any(|page| page.file_name() == "extant-lab-posts.1"));
        for page in &pages {
            assert!(page.text.contains(".SH SYNOPSIS"), "{}: {}", page.command, page.text);
            let version = concat!("\"extant ", env!("CARGO_PKG_VERSION"), "\"");
            assert!(page.text.contains(version), "{}: {}", page.command, page.text);
        }
        assert!(pages[1].text.contains("Examples:"), "{}", pages[1].text);
    }

    #[test]
    fn the_synopsis_names_the_values() {
        let mut table = super::super::table();
        table.build();
        let mkfs = table.find_subcommand("mkfs").unwrap();
        let synopsis = synopsis(mkfs, "extant mkfs");
        let parts = ["extant mkfs [", "[-n|--dry-run]", "[-t|--type TYPE]", "[-b BYTES]"];
        for part in parts.into_iter().chain(["[--wait[=SECONDS]]"]) {
            assert!(synopsis.contains(part), "{part}: {synopsis}");
        }
        assert!(synopsis.ends_with(" IMAGE [SIZE]"), "{synopsis}");
        // No option that takes a value stands there without its name.
        for page in pages().unwrap() {
            let section = page.text.split(".SH ").find(|section| section.starts_with("SYNOPSIS"));
            let section = section.unwrap_or_default().to_owned();
            assert!(!section.contains(" ]") && !section.contains(" \\fR]"), "{section}");
        }
    }

    #[test]
    fn pages_are_named_by_their_commands() {
        let pages = pages().unwrap();
        let named = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let found = pages.iter().find(|page| is_named(page, &words));
            found.map(Page::file_name).unwrap_or_default()
        };
        for (words, name) in [
            (&["build"][..], "extant-build.1"),
            (&["extant"], "extant.1"),
            (&["lab", "posts"], "extant-lab-posts.1"),
            (&["extant-lab-posts"], "extant-lab-posts.1"),
            (&["posts"], ""),
            (&["./build"], ""),
        ] {
            assert_eq!(named(words), name, "{words:?}");
        }
    }
}
