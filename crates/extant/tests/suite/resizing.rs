//! Volumes that get another size by a program.
use extant::{Builder, ErrorKind, Memory, NewFile, NewSize, Options, Volume};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;

fn built(builder_free: u64) -> Builder {
    let files = |files: &mut extant::Files| {
        for number in 0..40_u32 {
            let bytes = vec![number as u8; 3000 * number as usize];
            files.add(format!("/d/file-{number}"), NewFile::file(bytes))?;
        }
        Ok(())
    };
    Builder::new().free(builder_free).files(files).expect("files")
}

fn holds(image: impl Into<extant::Image>) {
    let volume = Volume::open(image).expect("it opens");
    for number in 0..40_u32 {
        let bytes = volume.read(format!("/d/file-{number}")).expect("it is there");
        assert!(bytes == vec![number as u8; 3000 * number as usize], "file-{number}");
    }
}

#[test]
fn a_file_and_memory_grow_and_shrink_alike() {
    let folder = Scratch::new("resizing");
    let path = folder.join("disk.img");
    let memory = Memory::new();
    built(8 << 20).build(&path).unwrap();
    built(8 << 20).build_memory(&memory).unwrap();
    let options = Options::new().time(1_767_225_600);
    for size in [NewSize::Bytes(300 << 20), NewSize::Least, NewSize::Bytes(40 << 20)] {
        let would = options.would_resize(&path, size).unwrap();
        let of_file = options.resize(&path, size).unwrap();
        let of_memory = options.resize(memory.clone(), size).unwrap();
        assert_eq!((of_file, would.blocks), (of_memory, 0));
        assert_eq!(would.blocks_after, of_file.blocks_after);
        let bytes = of_file.blocks_after * u64::from(of_file.block_size);
        assert_eq!((std::fs::metadata(&path).unwrap().len(), memory.len()), (bytes, bytes));
        holds(&path);
        holds(memory.clone());
        if require("e2fsck") {
            e2fsck(&path).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == memory.to_vec(), "{size:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no log is left");
}

#[test]
fn what_is_refused_writes_nothing() {
    let memory = Memory::new();
    built(1 << 20).build_memory(&memory).unwrap();
    let before = memory.to_vec();
    let options = Options::new();
    for (size, kind) in [
        (NewSize::Bytes(0), ErrorKind::Unsupported),
        (NewSize::Bytes(1 << 20), ErrorKind::NoSpace),
        (NewSize::Bytes(u64::MAX), ErrorKind::Unsupported),
    ] {
        let error = options.resize(memory.clone(), size).unwrap_err();
        assert_eq!(error.kind(), kind, "{size:?}: {error}");
        assert!(memory.to_vec() == before, "{size:?}");
    }
    // A range of a larger image is as long as it is said to be.
    let mut disk = vec![7; 1 << 20];
    disk.extend_from_slice(&before);
    disk.resize(disk.len() + (1 << 20), 9);
    let range = 1 << 20..(1 << 20) + before.len() as u64;
    let around = Memory::from(disk);
    let within = Options::new().range(range.clone());
    let error = within.resize(around.clone(), NewSize::Bytes(100 << 20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    within.resize(around.clone(), NewSize::Least).unwrap();
    let after = around.to_vec();
    assert_eq!(after.len() as u64, range.end + (1 << 20));
    assert!(after[..1 << 20].iter().all(|byte| *byte == 7));
    assert!(after[range.end as usize..].iter().all(|byte| *byte == 9));
}
