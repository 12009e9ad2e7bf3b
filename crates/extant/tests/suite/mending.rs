//! Volumes that are mended and made ready for use by a program.
use extant::{Builder, ErrorKind, Healed, KeepUndo, Memory, Options, Profile, Scope};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;

/// Where the state of a volume is: 1 for one that was unmounted.
const STATE: usize = 1024 + 0x3a;

#[test]
fn a_clean_volume_needs_nothing() {
    let folder = Scratch::new("mending-clean");
    let image = folder.join("disk.img");
    Builder::new().profile(Profile::Ext2).free(1 << 20).build(&image).unwrap();
    let before = std::fs::read(&image).unwrap();
    let options = Options::new();
    assert!(matches!(options.heal(&image).unwrap(), Healed::Clean));
    for scope in [Scope::Preen, Scope::Safe, Scope::All] {
        let repaired = options.repair(&image, scope, KeepUndo::Keep).unwrap();
        assert!(repaired.left.is_clean() && repaired.changes.is_empty());
        assert_eq!((repaired.blocks, repaired.undo), (0, None));
    }
    assert!(options.undo(&image).unwrap_err().to_string().contains("no repair to undo"));
    assert!(std::fs::read(&image).unwrap() == before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let held = std::fs::File::options().write(true).read(true).open(&image).unwrap();
    held.lock().unwrap();
    assert_eq!(options.heal(&image).unwrap_err().kind(), ErrorKind::InUse);
}

#[test]
fn one_that_was_not_unmounted_is_checked() {
    let memory = Memory::new();
    Builder::new().profile(Profile::Ext2).free(1 << 20).build_memory(&memory).unwrap();
    let mut bytes = memory.to_vec();
    bytes[STATE] = 0;
    let memory = Memory::from(bytes);
    let Healed::Repaired(reason, repaired) = Options::new().heal(memory.clone()).unwrap() else {
        panic!("it is not checked");
    };
    assert!(reason.contains("not unmounted") && repaired.left.is_clean(), "{reason}");
    assert_eq!(repaired.undo, None, "beside memory there is no place");
    if require("e2fsck") {
        let folder = Scratch::new("mending-checked");
        let image = folder.join("disk.img");
        std::fs::write(&image, memory.to_vec()).unwrap();
        e2fsck(&image).unwrap();
    }
}
