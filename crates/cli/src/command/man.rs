//! `extant man`: the manual, one page a command.
use crate::console::Console;
use crate::error::{Error, Exit};
use std::io;
use std::path::PathBuf;

/// Print the manual page, or write all pages to a folder.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant man | man -l -
  extant man /usr/local/share/man/man1")]
pub struct Arguments {
    /// Where to put one page a command (extant.1, extant-build.1, ...). Without it the main page goes to stdout.
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// Prints or writes them. With `--json`: `{"pages": [{"name": .., "text": ..}]}`, or the paths written.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let pages = pages().map_err(|error| Error::io("manual", &error))?;
    let Some(folder) = arguments.folder else {
        if console.is_json() {
            let pages: Vec<_> =
                pages.iter().map(|(name, text)| serde_json::json!({"name": name, "text": text})).collect();
            console.print_json(&serde_json::json!({"pages": pages}))?;
        } else if let Some((_, text)) = pages.first() {
            console.print(text)?;
        }
        return Ok(Exit::Complete);
    };
    std::fs::create_dir_all(&folder).map_err(|error| Error::io(folder.display(), &error))?;
    let mut written = Vec::new();
    for (name, text) in pages {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| Error::io(path.display(), &error))?;
        written.push(path.display().to_string());
    }
    if console.is_json() {
        console.print_json(&serde_json::json!({"written": written}))?;
    }
    Ok(Exit::Complete)
}

/// File name and text of each page; the main page comes first.
fn pages() -> io::Result<Vec<(String, String)>> {
    let mut table = super::table();
    table.build();
    let mut pages = Vec::new();
    add_pages(&table, "extant".into(), &mut pages)?;
    Ok(pages)
}

/// The page of a command, and those of the commands within it; `help` needs none.
fn add_pages(command: &clap::Command, name: String, pages: &mut Vec<(String, String)>) -> io::Result<()> {
    pages.push(page(command, name.clone())?);
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        add_pages(inner, format!("{name}-{}", inner.get_name()), pages)?;
    }
    Ok(())
}

fn page(command: &clap::Command, name: String) -> io::Result<(String, String)> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).title(name.clone()).render(&mut text)?;
    Ok((format!("{name}.1"), String::from_utf8_lossy(&text).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_every_command() {
        let pages = pages().unwrap();
        let table = super::super::table();
        let nested = table.get_subcommands().map(|command| command.get_subcommands().count());
        assert_eq!(pages.len(), 1 + table.get_subcommands().count() + nested.sum::<usize>());
        assert!(pages.iter().any(|(name, _)| name == "extant-lab-posts.1"));
        for (name, text) in &pages {
            assert!(text.contains(".SH SYNOPSIS"), "{name}: {text}");
        }
        assert!(pages[1].1.contains("Examples:"), "{}", pages[1].1);
    }
}
