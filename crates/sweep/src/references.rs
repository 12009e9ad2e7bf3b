//! The files that a TOML file of the laboratory refers to: images, drives, traces, profiles.
//!
//! Which of its words are paths is the laboratory's business and grows with it. So every word that
//! is the path of a file, from the folder of the file that has it, counts. One too many makes a job
//! run again that need not; one too few would pass an old result for a new one.
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// No file that refers to others is longer, in bytes; the laboratory takes none that is.
const BYTES_MAX: u64 = 16 << 20;

/// The files that exist and that `file` refers to; none if it is no TOML.
pub fn of(file: &Path) -> Vec<PathBuf> {
    let Some(text) = text(file) else { return Vec::new() };
    let Ok(table) = DeTable::parse(&text) else { return Vec::new() };
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut words = Vec::new();
    table.get_ref().values().for_each(|value| collect(value.get_ref(), &mut words));
    let mut files: Vec<PathBuf> = words.iter().flat_map(|word| named(folder, word)).collect();
    // What a drive file has measured of its controller is beside it, without a word.
    files.extend(facts_beside(file));
    files.retain(|path| path.is_file());
    files.sort_unstable();
    files.dedup();
    files
}

/// A file that may be TOML: text, whatever its name is. Of images only the beginning is read.
fn text(file: &Path) -> Option<String> {
    const BEGINNING: u64 = 4096;
    // A pipe would be waited for.
    if !file.is_file() {
        return None;
    }
    let mut file = std::fs::File::open(file).ok()?.take(BEGINNING);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    if bytes.contains(&0) {
        return None;
    }
    file.set_limit(BYTES_MAX);
    file.read_to_end(&mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}

fn collect(value: &DeValue<'_>, words: &mut Vec<String>) {
    match value {
        DeValue::String(word) => words.push(word.to_string()),
        DeValue::Array(list) => list.iter().for_each(|one| collect(one.get_ref(), words)),
        DeValue::Table(table) => {
            table.values().for_each(|one| collect(one.get_ref(), words));
        }
        _ => {}
    }
}

fn named(folder: &Path, word: &str) -> Vec<PathBuf> {
    if word.is_empty() || word.contains(['\n', '\0']) {
        return Vec::new();
    }
    let path = folder.join(word);
    let facts = facts_beside(&path);
    [path].into_iter().chain(facts).collect()
}

fn facts_beside(path: &Path) -> Option<PathBuf> {
    Some(path.with_file_name("facts").join(path.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_testkit::scratch::Scratch;

    #[test]
    fn words_that_are_files_count_wherever_they_are() {
        let folder = Scratch::new("references");
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(&path, text).expect("a file");
            path
        };
        let drive = write("drive.toml", "name = \"x\"");
        let facts = write("facts/drive.toml", "");
        let image = write("a.img", "");
        let text = "name = \"s\"\n[[drive]]\nmodel = \"drive.toml\"\n\
                    [[filesystem]]\nimage = [\"./a.img\", \"none.img\", \"/\"]\n";
        let scenario = write("s.toml", text);
        let found = of(&scenario);
        let expected = [folder.join("./a.img"), drive.clone(), facts.clone()];
        assert_eq!(found, expected, "{}", image.display());
        assert_eq!(of(&drive), [facts]);
        // Whatever it is called.
        let other = write("scenario", text);
        assert_eq!(of(&other), expected);
        let pipe = folder.join("pipe");
        extant_testkit::command::run("mkfifo", &[&pipe]).expect("a pipe");
        assert!(of(&pipe).is_empty(), "nobody writes into it");
        assert!(of(&image).is_empty() && of(&folder.join("none")).is_empty());
    }
}
