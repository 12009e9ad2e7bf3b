//! Files that go to one place, after all sources.
use crate::containers::command::{build, built, names, refused, same_when_mounted};
use crate::containers::made::{Packing, file, folder, layout, symlink, tar};
use extant_testkit::command::{output, program};
use extant_testkit::scratch::Scratch;
use std::os::unix::fs::{PermissionsExt, chown, symlink as host_link};
use std::path::Path;

/// A tree that a container image, a directory and an archive all hold.
fn base(scratch: &Scratch) -> [std::path::PathBuf; 3] {
    let layer = tar(&[
        folder("usr/"),
        folder("usr/lib/"),
        file("usr/lib/old", b"old"),
        symlink("lib", "usr/lib"),
        file("replaced", b"before"),
    ]);
    let archive = scratch.join("base.tar");
    std::fs::write(&archive, &layer).unwrap();
    let directory = scratch.join("base");
    std::fs::create_dir(&directory).unwrap();
    let mut unpack = program("tar");
    output(unpack.arg("--same-owner").arg("-pxf").arg(&archive).arg("-C").arg(&directory)).unwrap();
    [layout(scratch.join("layout"), &[(layer, Packing::Plain)]).path, directory, archive]
}

fn cat(image: &Path, path: &str) -> Vec<u8> {
    let mut command = program(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
    output(command.args(["cat", &format!("{}:{path}", image.display())])).unwrap().stdout
}

#[test]
fn files_and_directories_go_where_they_are_sent() {
    let scratch = Scratch::new("inject");
    let sources = base(&scratch);
    let (agent, folder) = (scratch.join("agent,v1"), scratch.join("tools"));
    std::fs::write(&agent, "agent").unwrap();
    host_link(&agent, scratch.join("link")).unwrap();
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    std::fs::write(folder.join("a"), "a").unwrap();
    std::fs::hard_link(folder.join("a"), folder.join("sub/b")).unwrap();
    let sparse = std::fs::File::create(folder.join("sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", (1 << 20) - 3).unwrap();
    let words = |source: &Path, image: &Path| {
        let inject = |source: &Path, rest: &str| format!("src={},dst={rest}", source.display());
        let mut command = build(["--inject"]);
        command.arg(inject(&agent, "/replaced,mode=4755,owner=7:8")).arg("--inject");
        command.arg(inject(&scratch.join("link"), "/lib/")).arg("--inject");
        command.arg(inject(&folder, "/opt/tools,owner=3:4")).arg("--inject");
        command.arg(inject(&folder, "/lib")).arg("--inject");
        command.arg(inject(&folder.join("sparse"), "/new/of/sparse")).arg(source).arg(image);
        command
    };
    for source in &sources {
        let image = scratch.join("x.img");
        let _ = std::fs::remove_file(&image);
        built(words(source, &image), &image);
        let found = names(&image);
        for name in ["/usr/lib/link", "/usr/lib/old", "/usr/lib/a", "/opt/tools/sub/b", "/lib"] {
            assert!(found.iter().any(|path| path == name), "{name}: {found:?}");
        }
        for (path, wanted) in
            [("/replaced", "agent"), ("/usr/lib/link", "agent"), ("/opt/tools/sub/b", "a")]
        {
            assert_eq!(cat(&image, path), wanted.as_bytes(), "{path}");
        }
        assert!(cat(&image, "/new/of/sparse") == std::fs::read(folder.join("sparse")).unwrap());
        let mut stat = program(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
        let stat = output(stat.args(["stat", "--json", &format!("{}:/replaced", image.display())]));
        let stat: serde_json::Value = serde_json::from_slice(&stat.unwrap().stdout).unwrap();
        let number = |key: &str| stat[key].as_u64().unwrap();
        assert_eq!((number("mode"), number("uid"), number("gid")), (0o4755, 7, 8), "{stat}");
    }
}

/// The same as a copy into the tree by hand.
#[test]
fn an_injected_directory_is_a_copy() {
    let scratch = Scratch::new("inject-copy");
    let [_, directory, _] = base(&scratch);
    let extra = scratch.join("extra");
    std::fs::create_dir_all(extra.join("deep/er")).unwrap();
    std::fs::write(extra.join("deep/er/file"), vec![9; 70_000]).unwrap();
    std::fs::set_permissions(&extra, std::fs::Permissions::from_mode(0o711)).unwrap();
    let _ = chown(extra.join("deep"), Some(12), Some(13));
    let image = scratch.join("x.img");
    let word = format!("src={},dst=/usr/extra", extra.display());
    let mut command = build(["--inject", &word]);
    command.arg(&directory).arg(&image);
    built(command, &image);
    let time = std::fs::metadata(directory.join("usr")).unwrap().modified().unwrap();
    output(program("cp").arg("-a").arg(&extra).arg(directory.join("usr/extra"))).unwrap();
    // The directory that it goes to keeps its time.
    std::fs::File::open(directory.join("usr")).unwrap().set_modified(time).unwrap();
    same_when_mounted(&image, &directory);
}

#[test]
fn what_cannot_be_injected_is_named() {
    let scratch = Scratch::new("inject-refused");
    let [_, directory, _] = base(&scratch);
    let (agent, image) = (scratch.join("agent"), scratch.join("x.img"));
    std::fs::write(&agent, "agent").unwrap();
    let agent = agent.display().to_string();
    for (word, code, wanted) in [
        (format!("src={agent},dst=/usr"), 1, "/usr is a directory of the image"),
        (format!("src={agent},dst=/../x"), 1, "leads out"),
        (format!("src={agent},dst=/replaced/x"), 1, "is not a directory"),
        (format!("src={agent}x,dst=/x"), 1, "No such file"),
        ("src=/dev/null,dst=/x".into(), 1, "is neither a file nor a directory"),
        (format!("src={agent},dst=x"), 2, "begins with /"),
        (format!("src={agent},dst=/x,mode=abc"), 2, "octal"),
    ] {
        let mut command = build(["--inject", &word]);
        command.arg(&directory).arg(&image);
        let said = refused(command, &image);
        assert!(said.message.contains(wanted), "{word}: {}", said.message);
        assert_eq!(said.code, Some(code), "{word}");
    }
}
