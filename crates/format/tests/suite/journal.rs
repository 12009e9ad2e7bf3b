//! The blocks of logs that debugfs and the kernel wrote, read and written again.
use extant_format::BlockNo;
use extant_format::journal::fast_commit::{Change, End};
use extant_format::journal::{
    BlockKind, BlockNumbers, Checksums, Header, JournalSuperblock, LogFormat, MAGIC, Sequence,
    TransactionChecksum, commit, descriptor, fast_commit, incompat, revoke,
};
use extant_testkit::oracle::{self, Access};
use extant_testkit::scratch::Scratch;
use extant_testkit::{command, oracle::require};
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

/// What a log was found to hold.
#[derive(Debug, Default)]
struct Found {
    descriptors: usize,
    escaped: usize,
    revoke_blocks: usize,
    commits: usize,
}

/// Which program wrote a log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Author {
    Kernel,
    Debugfs,
}

/// Bytes of the journal of an image.
fn journal(image: &Path) -> Vec<u8> {
    let mut debugfs = command::program("debugfs");
    command::output(debugfs.args(["-R", "cat <8>"]).arg(image)).expect("debugfs reads it").stdout
}

fn make(image: &Path, features: &str, block_size: u32) {
    let mut mke2fs = command::program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-O", features, "-b", &block_size.to_string()]);
    mke2fs.args(["-J", "size=4", "-U", "11111111-2222-3333-4444-555555555555"]);
    command::output(mke2fs.arg(image).arg("32M")).expect("mke2fs makes it");
}

/// Runs requests of debugfs that write.
fn debugfs(image: &Path, requests: &str) {
    let mut debugfs = command::program("debugfs");
    debugfs.arg("-w").arg(image).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = debugfs.stderr(Stdio::piped()).spawn().expect("debugfs starts");
    let input = child.stdin.as_mut().expect("its input");
    input.write_all(requests.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.lines().all(|line| line.starts_with("debugfs 1.")), "{errors}");
}

/// Reads every block of the log and writes it again, which has to give the same bytes.
fn rewrite(journal: &[u8], author: Author) -> (LogFormat, Found) {
    let superblock = JournalSuperblock::parse(journal).expect("a superblock");
    let format = superblock.log_format();
    let size = format.block_size as usize;
    let block = |number: u32| &journal[number as usize * size..][..size];
    let mut found = Found::default();
    let (mut at, mut sequence) = (superblock.start, superblock.sequence);
    let mut transaction = TransactionChecksum::default();
    while let Some(header) = Header::parse(block(at)).filter(|it| it.sequence == sequence) {
        match header.kind {
            BlockKind::Descriptor => {
                found.descriptors += 1;
                transaction.add(block(at));
                let tags = descriptor::tags(&format, block(at)).expect("a descriptor");
                let mut writer = descriptor::Writer::new(&format, sequence);
                let descriptor = block(at);
                for tag in &tags {
                    at = superblock.after(at, 1);
                    let copy = block(at);
                    transaction.add(copy);
                    assert!(tag.fits(&format, sequence, copy), "the copy of {}", tag.target);
                    let mut bytes = copy.to_vec();
                    descriptor::unescape(tag, &mut bytes);
                    let escaped = writer.add(tag.target, &bytes);
                    assert_eq!(escaped.is_some(), tag.is_escaped());
                    assert!(escaped.as_deref().unwrap_or(&bytes) == copy);
                    found.escaped += usize::from(tag.is_escaped());
                }
                assert!(tags.len() <= format.tags_per_descriptor());
                // debugfs leaves old bytes after the last tag, and seals them.
                let ours = writer.finish();
                let used = match author {
                    Author::Kernel => size,
                    Author::Debugfs => 28 + tags.len() * format.tag_bytes(),
                };
                assert!(ours[..used] == descriptor[..used], "descriptor {}", found.descriptors);
            }
            BlockKind::Revoke => {
                found.revoke_blocks += 1;
                let revoked = revoke::parse(&format, block(at)).expect("a revoke block");
                let ours = revoke::encode(&format, sequence, &revoked);
                assert!(ours == [block(at)], "revoke block {}", found.revoke_blocks);
            }
            BlockKind::Commit => {
                found.commits += 1;
                let read = commit::parse(&format, block(at)).expect("a commit block");
                assert_eq!(read.sequence, sequence);
                read.check(transaction).expect("the transaction's checksum");
                let ours = commit::encode(&format, sequence, read.time, transaction);
                assert!(ours == block(at), "commit block {sequence}");
                sequence = sequence.next();
                transaction = TransactionChecksum::default();
            }
            other => panic!("{other:?}"),
        }
        at = superblock.after(at, 1);
    }
    (format, found)
}

#[test]
fn logs_of_debugfs_are_read_and_written_again() {
    if !require("debugfs") || !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("journal-debugfs");
    let (image, data) = (folder.join("image"), folder.join("data"));
    let cases = [
        ("^metadata_csum,^64bit", "", Checksums::None, BlockNumbers::Narrow),
        ("^metadata_csum,64bit", "", Checksums::None, BlockNumbers::Wide),
        ("^metadata_csum,^64bit", "-c", Checksums::Version1, BlockNumbers::Narrow),
        ("^metadata_csum,64bit", "-c", Checksums::Version1, BlockNumbers::Wide),
        ("metadata_csum,^64bit", "-c -v 2", Checksums::Version2, BlockNumbers::Narrow),
        ("metadata_csum,64bit", "-c -v 2", Checksums::Version2, BlockNumbers::Wide),
        ("metadata_csum,^64bit", "-c -v 3", Checksums::Version3, BlockNumbers::Narrow),
        ("metadata_csum,64bit", "-c -v 3", Checksums::Version3, BlockNumbers::Wide),
    ];
    for (features, options, checksums, block_numbers) in cases {
        let case = format!("{features} {options}");
        make(&image, features, 1024);
        let mut bytes: Vec<u8> = (0..3 * 1024_u32).map(|n| (n % 253) as u8).collect();
        bytes[1024..1028].copy_from_slice(&MAGIC.to_be_bytes());
        std::fs::write(&data, &bytes).expect("a file");
        // debugfs takes revoke blocks into the checksum of version 1, Linux and e2fsck do not.
        let revoke = if checksums == Checksums::Version1 { "" } else { "jw -r 6000,6001\n" };
        let write = format!("jw -b 5000,5001,5002 {}\n", data.display());
        debugfs(&image, &format!("jo {options}\n{write}{revoke}{write}jc\n"));
        let (format, found) = rewrite(&journal(&image), Author::Debugfs);
        assert_eq!((format.checksums, format.block_numbers), (checksums, block_numbers), "{case}");
        assert_eq!((found.descriptors, found.escaped), (2, 2), "{case}");
        let revoke_blocks = usize::from(!revoke.is_empty());
        assert_eq!((found.revoke_blocks, found.commits), (revoke_blocks, 2 + revoke_blocks));
    }
}

/// Makes the kernel log copies that need escaping (with data=journal), revokes (without), and
/// descriptors that are full.
fn work(root: &Path) {
    for number in 0..120 {
        let folder = root.join(format!("d{number}"));
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("f"), MAGIC.to_be_bytes().repeat(1500)).expect("a file");
    }
    command::run("sync", &["-f".as_ref(), root.as_os_str()]).expect("synced");
    for number in (0..120).step_by(2) {
        std::fs::remove_dir_all(root.join(format!("d{number}"))).expect("removed");
    }
    command::run("sync", &["-f".as_ref(), root.as_os_str()]).expect("synced");
}

/// Logs that are made until one holds what the kernel was to write.
const TRIES: u32 = 8;

#[test]
fn logs_of_the_kernel_are_read_and_written_again() {
    if !require("debugfs") || !require("mke2fs") || !oracle::can_mount() {
        return;
    }
    // In memory the kernel would let go of the first transaction when it commits the next.
    let folder = Scratch::on_disk("journal-kernel");
    let (image, copy) = (folder.join("image"), folder.join("copy"));
    let cases = [
        ("^metadata_csum,^64bit,^extent", "", 1024, Checksums::None),
        ("^metadata_csum,64bit", "", 4096, Checksums::None),
        ("^metadata_csum,^64bit", ",journal_checksum", 1024, Checksums::Version1),
        ("^metadata_csum,64bit", ",journal_async_commit", 1024, Checksums::Version1),
        ("metadata_csum,64bit", "", 1024, Checksums::Version3),
        ("metadata_csum,^64bit", "", 4096, Checksums::Version3),
    ];
    for (features, options, block_size, checksums) in cases {
        for data in ["journal", "writeback"] {
            let case = format!("{features} {options} {block_size} {data}");
            let options = format!("data={data},commit=1000{options}");
            let is_rich = |found: &Found| {
                let is_of_data = data == "journal";
                found.descriptors > 1
                    && found.commits > 1
                    && is_of_data == (found.escaped > 100)
                    && is_of_data == (found.revoke_blocks == 0)
            };
            // Where what the first transaction holds is in its place early, the kernel lets go of
            // it when it commits the next.
            let is_tried = (0..TRIES).any(|_| {
                make(&image, features, block_size);
                let mounted = oracle::mount_loop(&image, Access::ReadWrite, &options).expect(&case);
                work(mounted.path());
                // The loop device writes to the page cache of the image, so that a copy has it all.
                std::fs::copy(&image, &copy).expect("a copy");
                mounted.unmount().expect("unmounted");
                let (format, found) = rewrite(&journal(&copy), Author::Kernel);
                println!("{case}: {found:?}");
                assert_eq!(format.checksums, checksums, "{case}");
                let is_wide = !features.contains("^64bit");
                assert_eq!(format.block_numbers == BlockNumbers::Wide, is_wide, "{case}");
                is_rich(&found)
            });
            assert!(is_tried, "{case}: no log of {TRIES} holds what it is to");
        }
    }
}

/// What is stored in a superblock is what e2fsck and the kernel take for one.
#[test]
fn a_superblock_that_was_stored_is_that_of_the_kernel() {
    if !require("debugfs") || !require("mke2fs") || !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("journal-superblock");
    let image = folder.join("image");
    for features in ["^metadata_csum,^64bit", "metadata_csum,64bit"] {
        make(&image, features, 1024);
        let fresh = journal(&image);
        let mut superblock = JournalSuperblock::parse(&fresh).expect("a superblock");
        let mounted = oracle::mount_loop(&image, Access::ReadWrite, "").expect("mounted");
        std::fs::write(mounted.path().join("f"), b"f").expect("a file");
        mounted.unmount().expect("unmounted");
        let kernels = journal(&image);
        let then = JournalSuperblock::parse(&kernels).expect("a superblock");
        let volume = std::fs::read(&image).expect("the image");
        let volume = volume[1024..].first_chunk().expect("a superblock");
        let volume = extant_format::superblock::Superblock::parse(volume);
        superblock.adopt_features(&volume.expect("a volume"));
        (superblock.sequence, superblock.head) = (then.sequence, then.head);
        // Linux sets it with the first block that it revokes.
        superblock.incompat &= !incompat::REVOKE;
        let mut ours = fresh[..1024].to_vec();
        superblock.store(&mut ours);
        assert!(then.is_empty());
        let differ: Vec<usize> = (0..1024).filter(|at| ours[*at] != kernels[*at]).collect();
        assert!(differ.is_empty(), "{features}: at {differ:?}: {:?}", &kernels[..96]);
    }
}

/// The fast commits of the kernel: as many changes of each kind as debugfs sees.
#[test]
fn fast_commits_of_the_kernel_are_those_that_debugfs_prints() {
    if !require("debugfs") || !require("mke2fs") || !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("journal-fast");
    let (image, copy) = (folder.join("image"), folder.join("copy"));
    for (features, block_size) in [("fast_commit,64bit", 1024), ("fast_commit,^64bit", 4096)] {
        make(&image, features, block_size);
        let mounted = oracle::mount_loop(&image, Access::ReadWrite, "commit=1000").expect("mount");
        let root = mounted.path();
        let write = |name: &str, bytes| {
            std::fs::write(root.join(name), vec![1; bytes]).expect("a file");
            let file = std::fs::File::open(root.join(name)).expect("a file");
            file.sync_all().expect("synced");
        };
        write("first", 100);
        (0..30).for_each(|n| std::fs::write(root.join(format!("n{n}")), b"n").expect("a file"));
        write("second", 10_000);
        std::fs::hard_link(root.join("first"), root.join("linked")).expect("a link");
        std::fs::remove_file(root.join("second")).expect("removed");
        write("first", 9_000);
        std::fs::copy(&image, &copy).expect("a copy");
        mounted.unmount().expect("unmounted");
        let journal = journal(&copy);
        let superblock = JournalSuperblock::parse(&journal).expect("a superblock");
        let (_, found) = rewrite(&journal, Author::Kernel);
        let expected = Sequence(superblock.sequence.0 + found.commits as u32);
        let size = block_size as usize;
        let mut reader = fast_commit::Reader::new(expected);
        for number in superblock.fast_commit_area() {
            if !reader.read(&journal[number as usize * size..][..size]) {
                break;
            }
        }
        let fast = reader.finish();
        let mut debugfs = command::program("debugfs");
        let output = command::output(debugfs.args(["-R", "logdump"]).arg(&copy)).expect("debugfs");
        let text = String::from_utf8_lossy(&output.stdout);
        let count = |word| text.lines().filter(|line| line.starts_with(word)).count();
        assert_eq!((fast.commits as usize, fast.end), (count("tag TAIL"), End::Clean), "{text}");
        assert!(fast.commits >= 2, "{text}");
        let kinds = fast.changes.iter().map(|change| match change {
            Change::AddRange { .. } => "tag ADD_RANGE",
            Change::DeleteRange { .. } => "tag DEL_RANGE",
            Change::Create(_) => "tag CREAT_DENTRY",
            Change::Link(_) => "tag ADD_ENTRY",
            Change::Unlink(_) => "tag DEL_ENTRY",
            Change::Inode { .. } => "tag INODE",
        });
        let kinds: Vec<&str> = kinds.collect();
        for kind in ["tag INODE", "tag CREAT_DENTRY", "tag ADD_RANGE", "tag ADD_ENTRY", "tag DEL"] {
            let ours = kinds.iter().filter(|it| it.starts_with(kind)).count();
            assert_eq!(ours, count(kind), "{kind} of {text}");
            assert!(ours > 0, "{kind}");
        }
        end_early(&journal, &superblock, expected, fast.commits);
    }
}

/// Any changed byte ends the area at the last whole commit before it.
fn end_early(journal: &[u8], superblock: &JournalSuperblock, expected: Sequence, commits: u32) {
    let size = superblock.block_size as usize;
    let area = superblock.fast_commit_area();
    let area = &journal[area.start as usize * size..area.end as usize * size];
    let read = |area: &[u8], expected| {
        let mut reader = fast_commit::Reader::new(expected);
        area.chunks(size).take_while(|block| reader.read(block)).count();
        reader.finish()
    };
    let stale = read(area, expected.next());
    assert_eq!((stale.commits, stale.end), (0, End::OtherTransaction(expected)));
    // Bytes after the checksum of a tail are not covered.
    let damaged = (0..area.len()).step_by(97).map(|at| {
        let mut damaged = area.to_vec();
        damaged[at] ^= 0x21;
        read(&damaged, expected).commits
    });
    let counts: Vec<u32> = damaged.filter(|count| *count < commits).collect();
    assert!(counts.is_sorted() && counts.contains(&0) && counts.contains(&(commits - 1)));
}

/// Writes with every format as much as fits, and reads it back.
#[test]
fn full_blocks_of_every_format_come_back() {
    for block_size in [1024, 4096, 65_536] {
        for block_numbers in [BlockNumbers::Narrow, BlockNumbers::Wide] {
            for checksums in
                [Checksums::None, Checksums::Version1, Checksums::Version2, Checksums::Version3]
            {
                let format = LogFormat { block_size, block_numbers, checksums, uuid: [5; 16] };
                come_back(&format);
            }
        }
    }
}

fn come_back(format: &LogFormat) {
    let base = match format.block_numbers {
        BlockNumbers::Narrow => u64::from(u32::MAX) - 100_000,
        BlockNumbers::Wide => u64::from(u32::MAX) + 7,
    };
    let sequence = Sequence(u32::MAX);
    let size = format.block_size as usize;
    let mut writer = descriptor::Writer::new(format, sequence);
    let mut logged = Vec::new();
    while !writer.is_full() {
        let mut bytes = vec![logged.len() as u8; size];
        if logged.len() % 3 == 1 {
            bytes[..4].copy_from_slice(&MAGIC.to_be_bytes());
        }
        let escaped = writer.add(BlockNo(base + logged.len() as u64), &bytes);
        logged.push((escaped.unwrap_or_else(|| bytes.clone()), bytes));
    }
    assert_eq!(logged.len(), format.tags_per_descriptor(), "{format:?}");
    let block = writer.finish();
    let header = Header::parse(&block).expect("a header");
    assert_eq!(
        (header.kind, header.sequence, block.len()),
        (BlockKind::Descriptor, sequence, size)
    );
    let tags = descriptor::tags(format, &block).expect("a descriptor");
    assert_eq!(tags.len(), logged.len(), "{format:?}");
    for (number, (tag, (copy, bytes))) in tags.iter().zip(&logged).enumerate() {
        assert_eq!(tag.target, BlockNo(base + number as u64));
        let mut copy = copy.clone();
        assert!(tag.fits(format, sequence, &copy));
        assert_eq!(tag.fits(format, sequence.next(), &copy), !format.has_block_checksums());
        descriptor::unescape(tag, &mut copy);
        assert!(copy == *bytes, "block {number} of {format:?}");
    }
    let revoked: Vec<BlockNo> =
        (0..=format.revokes_per_block() as u64).map(|number| BlockNo(base + number)).collect();
    let blocks = revoke::encode(format, sequence, &revoked);
    assert_eq!(blocks.len(), 2);
    let back = blocks.iter().flat_map(|block| revoke::parse(format, block).expect("one"));
    assert_eq!(back.collect::<Vec<_>>(), revoked);
    assert_eq!(format.transaction_blocks(logged.len() + 1, revoked.len()), logged.len() + 6);
    damage(format, &block, &blocks[0], sequence);
}

/// A changed bit is found where there are checksums; nothing panics where there are none.
fn damage(format: &LogFormat, descriptor: &[u8], revoked: &[u8], sequence: Sequence) {
    let transaction = TransactionChecksum::default();
    let committed = commit::encode(format, sequence, Default::default(), transaction);
    commit::parse(format, &committed).expect("sound").check(transaction).expect("sound");
    let step = descriptor.len() / 64;
    for at in (0..descriptor.len()).step_by(step).chain(12..64) {
        let flipped = |block: &[u8]| {
            let mut block = block.to_vec();
            block[at] ^= 0x11;
            block
        };
        let results = [
            descriptor::tags(format, &flipped(descriptor)).is_err(),
            revoke::parse(format, &flipped(revoked)).is_err(),
            commit::parse(format, &flipped(&committed)).is_err(),
        ];
        assert!(!format.has_block_checksums() || results == [true; 3], "byte {at} of {format:?}");
    }
    for short in [&descriptor[1..], &[]] {
        assert!(descriptor::tags(format, short).is_err() && revoke::parse(format, short).is_err());
        assert!(commit::parse(format, short).is_err());
    }
}
