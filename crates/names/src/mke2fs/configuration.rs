//! The file `mke2fs.conf`: sections in brackets, relations `name = value`, and groups in braces.
//!
//! ```text
//! [defaults]
//!     base_features = sparse_super,large_file
//! [fs_types]
//!     small = {
//!         blocksize = 1024
//!     }
//! ```
//! What is read is what the file says of `defaults` and of each type; other sections are passed
//! over. The file named by the environment variable `MKE2FS_CONFIG` is read, else
//! `/etc/mke2fs.conf`, else what Debian ships.
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes of a file that is read, at most.
const BYTES_MAX: usize = 1 << 20;

/// What mke2fs does where there is no such file, and what Debian's says.
const SHIPPED: &str = "
[defaults]
    base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
    default_mntopts = acl,user_xattr
    enable_periodic_fsck = 0
    blocksize = 4096
    inode_size = 256
    inode_ratio = 16384
[fs_types]
    ext3 = {
        features = has_journal
    }
    ext4 = {
        features = has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize
    }
    small = {
        blocksize = 1024
        inode_ratio = 4096
    }
    floppy = {
        blocksize = 1024
        inode_ratio = 8192
    }
    big = {
        inode_ratio = 32768
    }
    huge = {
        inode_ratio = 65536
    }
    news = {
        inode_ratio = 4096
    }
    largefile = {
        inode_ratio = 1048576
        blocksize = -1
    }
    largefile4 = {
        inode_ratio = 4194304
        blocksize = -1
    }
    hurd = {
        blocksize = 4096
        inode_size = 128
        warn_y2038_dates = 0
    }
";

/// What a configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    defaults: BTreeMap<String, String>,
    types: BTreeMap<String, BTreeMap<String, String>>,
}

/// Where the reader is.
enum Section {
    Defaults,
    Types,
    Other,
}

impl Configuration {
    /// The configuration of this host.
    ///
    /// # Errors
    /// One line: the file, its line, and what is wrong there.
    pub fn of_host() -> Result<Configuration, String> {
        let named = std::env::var_os("MKE2FS_CONFIG");
        let path = named.as_deref().map_or(Path::new("/etc/mke2fs.conf"), Path::new);
        match std::fs::read(path) {
            Ok(bytes) if bytes.len() > BYTES_MAX => {
                Err(format!("{}: larger than {BYTES_MAX} bytes", path.display()))
            }
            Ok(bytes) => Configuration::parse(&String::from_utf8_lossy(&bytes))
                .map_err(|(line, what)| format!("{}: line {line}: {what}", path.display())),
            Err(_) => Ok(Configuration::shipped()),
        }
    }

    /// What Debian ships.
    pub fn shipped() -> Configuration {
        Configuration::parse(SHIPPED).unwrap_or_default()
    }

    /// Reads a text. The error has the number of the line.
    fn parse(text: &str) -> Result<Configuration, (usize, &'static str)> {
        let mut configuration = Configuration::default();
        let mut section = Section::Other;
        // The names of the groups that are open.
        let mut open: Vec<String> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(rest) = line.strip_prefix('[') {
                let name = rest.split_once(']').ok_or((number, "a bracket is not closed"))?.0;
                if !open.is_empty() {
                    return Err((number, "a section within braces"));
                }
                section = match name.trim() {
                    "defaults" => Section::Defaults,
                    "fs_types" => Section::Types,
                    _ => Section::Other,
                };
                continue;
            }
            if line.starts_with('}') {
                open.pop().ok_or((number, "a brace that closes nothing"))?;
                continue;
            }
            let (name, value) = line.split_once('=').ok_or((number, "no name = value"))?;
            let (name, value) = (name.trim().trim_end_matches('*').trim(), value.trim());
            if value == "{" {
                open.push(name.to_owned());
                continue;
            }
            let value = unquoted(value).ok_or((number, "a quotation mark is not closed"))?;
            configuration.add(&section, &open, name, value);
        }
        match open.is_empty() {
            true => Ok(configuration),
            false => Err((text.lines().count(), "a brace is not closed")),
        }
    }

    /// The first value of a name holds, as with mke2fs.
    fn add(&mut self, section: &Section, open: &[String], name: &str, value: String) {
        let group = match (section, open) {
            (Section::Defaults, []) => &mut self.defaults,
            (Section::Types, [of]) => self.types.entry(of.clone()).or_default(),
            _ => return,
        };
        group.entry(name.to_owned()).or_insert(value);
    }

    /// Whether there is a type of this name.
    pub fn knows(&self, of: &str) -> bool {
        self.types.contains_key(of)
    }

    /// The value of a name: that of the last of these types that says it, else the default.
    pub fn value(&self, types: &[String], name: &str) -> Option<&str> {
        let of_type = |of: &String| self.types.get(of).and_then(|group| group.get(name));
        types.iter().rev().find_map(of_type).or_else(|| self.defaults.get(name)).map(String::as_str)
    }

    /// The value of a name as a switch: off for the words that mke2fs has for that, on for others.
    pub fn flag(&self, types: &[String], name: &str) -> Option<bool> {
        const OFF: [&str; 6] = ["n", "no", "false", "nil", "0", "off"];
        let value = self.value(types, name)?.to_ascii_lowercase();
        Some(!OFF.contains(&value.as_str()))
    }

    /// The value of a name in one type, without defaults.
    pub fn of_type(&self, of: &str, name: &str) -> Option<&str> {
        self.types.get(of).and_then(|group| group.get(name)).map(String::as_str)
    }
}

/// A value without its quotation marks, up to a comment; `None` when they are not closed.
fn unquoted(value: &str) -> Option<String> {
    let Some(quoted) = value.strip_prefix('"') else {
        return Some(value.to_owned());
    };
    let mut text = String::new();
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => return Some(text),
            '\\' => match letters.next()? {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'b' => text.push('\u{8}'),
                other => text.push(other),
            },
            _ => text.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_type_that_says_a_name_counts() {
        let shipped = Configuration::shipped();
        let types = ["ext4", "small"].map(str::to_owned);
        assert_eq!(shipped.value(&types, "blocksize"), Some("1024"));
        assert_eq!(shipped.value(&types, "inode_size"), Some("256"));
        assert_eq!(shipped.value(&types, "nonsense"), None);
        assert!(shipped.knows("largefile4") && !shipped.knows("nonsense"));
    }

    #[test]
    fn what_is_not_closed_is_named_with_its_line() {
        for (text, line) in
            [("[defaults", 1), ("[fs_types]\na = {\n", 2), ("}\n", 1), ("\nword", 2)]
        {
            assert_eq!(Configuration::parse(text).unwrap_err().0, line, "{text}");
        }
        assert!(Configuration::parse("[defaults]\na = \"x").is_err());
        let read =
            Configuration::parse("[defaults]\n a = \"x,y\" ; more\n[x]\n b = { \n} ").unwrap();
        assert_eq!(read.value(&[], "a"), Some("x,y"));
    }
}
