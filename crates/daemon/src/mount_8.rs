//! The names under which mount(8) and umount(8) call this program.
//!
//! A link named `mount.fuse.extant` in `/sbin` makes `mount -t fuse.extant IMAGE DIR` and lines of
//! fstab work, and one named `umount.fuse.extant` makes umount(8) wait until the image is whole,
//! where the mount was made with `uhelper=fuse.extant`: for a FUSE mount that it remembers nothing
//! of, umount(8) looks for no program.
//! Both are called with the words that mount(8) gives: the operands first, then `-sfnv`,
//! `-N NAMESPACE`, `-t TYPE` and `-o OPTIONS`. Here they become the words of our commands.
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The words of a command line, first word the program's name. Those that mount(8) gives to a
/// program become those of our command; others stay as they are. `is_command` says whether a word
/// is the name of a command of ours.
pub fn translate(words: Vec<OsString>, is_command: &dyn Fn(&OsStr) -> bool) -> Vec<OsString> {
    let name = words.first().and_then(|word| Path::new(word).file_name()).map(OsStr::to_os_string);
    match name.as_deref().and_then(OsStr::to_str) {
        Some("mount.fuse.extant" | "mount.extant") => of_program("mount", words),
        Some("umount.fuse.extant" | "umount.extant") => of_program("umount", words),
        _ if is_of_fuse(&words, is_command) => {
            let mut words = words;
            let list = words.pop().map(without_default);
            words.insert(1, "mount".into());
            words.extend(list);
            words
        }
        _ => words,
    }
}

/// Whether mount.fuse3(8) calls, which stands in where there is no link: `mount -t fuse.extant`
/// then becomes `extant IMAGE DIR -o OPTIONS`, without the name of a command.
fn is_of_fuse(words: &[OsString], is_command: &dyn Fn(&OsStr) -> bool) -> bool {
    let [_, image, _, option, _] = words else { return false };
    option == "-o" && !image.as_encoded_bytes().starts_with(b"-") && !is_command(image)
}

/// A list of options without the `rw` that mount(8) says where nobody said `ro`: what cannot be
/// written is mounted read-only then, with a warning, as mount(8) does it. A remount means it.
fn without_default(word: OsString) -> OsString {
    let Some(list) = word.to_str() else { return word };
    let mut words: Vec<&str> = list.split(',').collect();
    if words.contains(&"remount") {
        return word;
    }
    words.retain(|word| *word != "rw");
    words.join(",").into()
}

fn of_program(command: &str, words: Vec<OsString>) -> Vec<OsString> {
    let mut translated: Vec<OsString> = vec!["extant".into(), command.into()];
    let mut words = words.into_iter().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            // The type is ours, and the namespace is that of the caller.
            Some("-t" | "-N") => drop(words.next()),
            Some("-o") if command == "mount" => {
                translated.push(word);
                translated.extend(words.next().map(without_default));
            }
            // mount(8)'s word for doing all but the mount; ours of that letter is another.
            Some("-f") if command == "mount" => translated.push("--fake".into()),
            Some(short) if command == "mount" && is_cluster(short) && short.contains('f') => {
                translated.push("--fake".into());
                let rest: String = short.chars().filter(|letter| *letter != 'f').collect();
                translated.extend((rest.len() > 1).then(|| rest.into()));
            }
            _ => translated.push(word),
        }
    }
    translated
}

/// Whether these are several letters in one word: `-sfn`.
fn is_cluster(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    letters.len() > 1 && letters.chars().all(|letter| "sfnvrw".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> String {
        let words = translate(line.split(' ').map(OsString::from).collect(), &|word| word == "ls");
        words.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn the_words_of_mount_8_become_ours() {
        assert_eq!(
            translated("/sbin/mount.fuse.extant x.img /mnt -n -o rw,noatime"),
            "extant mount x.img /mnt -n -o noatime"
        );
        assert_eq!(
            translated("mount.fuse.extant x.img /mnt -o rw,remount"),
            "extant mount x.img /mnt -o rw,remount"
        );
        assert_eq!(
            translated("mount.fuse.extant x.img /mnt -sfv -t fuse.extant -N 7 -o ro"),
            "extant mount x.img /mnt --fake -sv -o ro"
        );
        assert_eq!(translated("mount.extant x.img /mnt -f"), "extant mount x.img /mnt --fake");
        assert_eq!(translated("umount.fuse.extant /mnt -l -f"), "extant umount /mnt -l -f");
        assert_eq!(translated("extant mount -f x.img /mnt"), "extant mount -f x.img /mnt");
    }

    #[test]
    fn the_words_of_mount_fuse3_become_ours() {
        assert_eq!(
            translated("extant x.img /mnt -o rw,noatime,dev,suid"),
            "extant mount x.img /mnt -o noatime,dev,suid"
        );
        assert_eq!(translated("extant ./a,rw rw -o ro"), "extant mount ./a,rw rw -o ro");
        for other in ["extant ls /mnt -o x", "extant x.img /mnt", "extant -q x.img -o x"] {
            assert_eq!(translated(other), other);
        }
    }
}
