//! Every assertion about what goes to a disk is tripped by a mistake made on purpose: an assertion
//! that cannot fail asserts nothing.
use crate::api::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
use crate::flush::Core;
use crate::inode::Node;
use crate::name::namespace::Follow;
use crate::policy::allocation::{AllocationPlan, Route, Search};
use crate::policy::preset::Policies;
use crate::{Access, DataKeeping, Filesystem, Options};
use extant_block::{MemoryDevice, RealClock};
use extant_format::{BlockNo, GroupNo};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// An empty volume in memory.
fn volume() -> Filesystem {
    let bytes = 16 << 20;
    let device = Arc::new(MemoryDevice::new(RealClock::new(), bytes));
    let mut wishes = default_wishes(Profile::Ext4, bytes, Some(4096), Identity::NONE);
    wishes.blocks = bytes / 4096;
    let policies: Policies = "modern".parse().unwrap();
    format(device.clone(), &FormatOptions::new(wishes), &policies).unwrap();
    let (access, data) = (Access::ReadWrite, DataKeeping::Bytes);
    let options = Options { access, policies, cache_bytes: 2 << 20, data };
    Filesystem::open(device, &options).unwrap()
}

/// What a panic says that this work ends with.
fn panic_of(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("a panic");
    match panic.downcast::<String>() {
        Ok(words) => *words,
        Err(panic) => {
            panic.downcast::<&str>().map_or_else(|_| String::new(), |words| (*words).into())
        }
    }
}

fn node(core: &Core, path: &str) -> Arc<Node> {
    core.inodes.resolve(path.as_bytes(), Follow::Last).unwrap()
}

#[test]
fn a_promise_that_is_forgotten() {
    let filesystem = volume();
    filesystem.write("/file", &[7; 100_000]).unwrap();
    filesystem.core.inodes.assert_promises();
    node(&filesystem.core, "/file").state.write().promised_map += 1;
    let words = panic_of(|| filesystem.core.inodes.assert_promises());
    assert!(words.contains("blocks promised"), "{words}");
}

#[test]
fn a_block_that_is_delayed_and_not_dirty() {
    let filesystem = volume();
    filesystem.write("/file", &[7; 100_000]).unwrap();
    let node = node(&filesystem.core, "/file");
    let words = panic_of(|| {
        let mut state = node.state.write();
        state.dirty.remove(0..u64::MAX);
        state.assert_consistent();
    });
    assert!(words.contains("blocks are delayed and 0 dirty"), "{words}");
}

#[test]
fn a_counter_that_is_not_changed_with_its_bitmap() {
    let filesystem = volume();
    filesystem.write("/file", &[7; 100_000]).unwrap();
    filesystem.sync().unwrap();
    filesystem.write("/other", &[7; 100_000]).unwrap();
    filesystem.core.volume().space.miscount(GroupNo(0));
    let words = panic_of(|| drop(filesystem.sync()));
    assert!(words.contains("Blocks that are free, counted and by bits"), "{words}");
}

#[test]
fn locks_that_are_taken_in_the_wrong_order() {
    let filesystem = volume();
    let core = &filesystem.core;
    let root = node(core, "/");
    // An inode is locked while an operation is open.
    let words = panic_of(|| {
        let _ = core.volume().change(1, |_| Ok(root.state.read().ino));
    });
    assert!(words.contains("an inode is locked while the gate is, which comes later"), "{words}");
    let words = panic_of(|| {
        let _ = core.volume().change(1, |_| core.volume().space.write_metadata());
    });
    assert!(words.contains("while"), "{words}");
    let words = panic_of(|| {
        let _ = core.volume().change(1, |_| core.volume().change(1, |_| Ok(())));
    });
    assert!(
        words.contains("an operation begins while this thread has an operation open"),
        "{words}"
    );
}

#[test]
fn a_block_that_is_given_twice() {
    let filesystem = volume();
    filesystem.write("/file", &[7; 100_000]).unwrap();
    filesystem.sync().unwrap();
    let space = &filesystem.core.volume().space;
    let plan = AllocationPlan { goal: BlockNo(0), length: 1, search: Search::Sequential };
    // The search is given a bitmap in which nothing is in use.
    space.forget_bits(GroupNo(0));
    let words = panic_of(|| {
        let mut reservation = space.reserve(1).unwrap();
        let _ = filesystem.core.volume().change(9, |operation| {
            space.allocate(operation, &mut reservation, &plan, Route::Anywhere)
        });
    });
    assert!(words.contains("the volume's own metadata"), "{words}");
}

#[test]
fn a_block_that_is_submitted_twice() {
    let filesystem = volume();
    filesystem.write("/file", &[7; 100_000]).unwrap();
    let node = node(&filesystem.core, "/file");
    node.pages.under_way.begin(0..2);
    let words = panic_of(|| node.pages.under_way.begin(1..3));
    assert!(words.contains("submitted whose last write has not ended"), "{words}");
}

#[test]
fn an_operation_that_changes_more_than_it_said() {
    let filesystem = volume();
    let core = &filesystem.core;
    let root = node(core, "/");
    let words = panic_of(|| {
        let mut state = root.state.write();
        let _ = core.volume().change(0, |operation| state.store(operation));
    });
    assert!(words.contains("one block more than the operation said"), "{words}");
}
