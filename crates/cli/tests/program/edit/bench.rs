//! Images, the command, and programs of the host.
use extant_testkit::command::{output, program};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the command said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// The command with these words.
pub fn command(words: &[&str]) -> Command {
    let mut command = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
    command.args(words).env_remove("SOURCE_DATE_EPOCH").stdin(Stdio::null());
    command
}

/// What it says to these words.
pub fn extant(words: &[&str]) -> Said {
    said(&mut command(words))
}

/// What a program says.
pub fn said(command: &mut Command) -> Said {
    let output = command.output().expect("it runs");
    Said {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The same; it has to succeed and to complain of nothing.
pub fn done(words: &[&str]) -> String {
    let said = extant(words);
    assert!(said.code == 0 && said.err.is_empty(), "{words:?}: {said:?}");
    said.out
}

/// The same, with this on standard input.
pub fn fed(words: &[&str], input: &str) -> Said {
    use std::io::Write;
    let mut command = command(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it is read");
    let output = child.wait_with_output().expect("it ends");
    Said {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A folder with images.
pub struct Bench {
    pub folder: Scratch,
}

impl Bench {
    pub fn new() -> Bench {
        Bench { folder: Scratch::new("extant-edit") }
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// An image that mke2fs made; its path.
    pub fn image(&self, name: &str, words: &[&str]) -> String {
        let image = self.join(name);
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F"]).args(words).arg(&image);
        let size = if words.contains(&"4096") { "24M" } else { "12M" };
        output(mke2fs.arg(size)).expect("mke2fs makes it");
        image.display().to_string()
    }

    /// A tree of the host with all that one can hold, as far as the caller's rights go.
    pub fn tree(&self) -> PathBuf {
        let root = self.join("tree");
        let script = r#"
            umask 022; mkdir -p "$1/deep/er" "$1/empty"; cd "$1"
            printf plain > plain; printf 'a\nb' > 'name with spaces
and a line end'
            : > nothing; chmod 4755 plain; chmod 640 nothing; chmod 2770 deep
            ln plain deep/linked; ln -s plain link; ln -s /no/where dangling; ln -s deep linked-dir
            mkfifo pipe; truncate -s 3M sparse; printf end >> sparse
            dd if=/dev/urandom of=deep/er/random bs=1000 count=300 2>&1
            setfattr -n user.one -v 1 plain; setfattr -n user.two -v two deep
            touch -d '2001-02-03 04:05:06.789' plain; touch -hd @1000000000 link
            if [ "$(id -u)" = 0 ]; then
                mknod device c 4 64; chown 1000:2000 nothing; chown -h 3:4 link
                setfattr -n trusted.t -v x nothing
                setfacl -m u:77:r-- nothing; setfacl -d -m g:88:rwx deep
            fi
            touch -d '2010-10-10' deep/er deep empty .
        "#;
        output(program("sh").args(["-ec", script, "sh"]).arg(&root)).expect("the tree");
        root
    }
}

/// Whether the tools are here.
pub fn has_tools() -> bool {
    let tools = ["mke2fs", "e2fsck", "setfattr", "getfattr", "setfacl"];
    tools.iter().all(|tool| oracle::require(tool))
}

/// Fails unless e2fsck finds nothing.
pub fn clean(image: &str) {
    oracle::e2fsck_but_advice(Path::new(image)).expect("clean");
}

/// The bytes of an image.
pub fn bytes(image: &str) -> Vec<u8> {
    std::fs::read(image).expect("it is read")
}
