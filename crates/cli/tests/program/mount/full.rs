//! Volumes without room: the kernel keeps what is written and does not ask whether there is any.
use crate::mount::fixture::{Bench, done, extant, has_fuse};

#[test]
fn a_program_that_fills_the_volume_is_told() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-full");
    let image = bench.image();
    // Ended by the signal of `timeout`, it would give 124.
    let script = "timeout 120 cat /dev/zero > full; code=$?; \
        rm full; echo back > small && sync small; exit $code";
    let told = extant(["mount", &image, "--", "sh", "-c", script]);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.stderr.contains("No space left on device"), "{told:?}");
    bench.is_whole();
    assert_eq!(done(["cat", &format!("{image}:/small")]), "back\n");
}

#[test]
fn a_program_that_was_not_told_is_not_the_last_word() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-not-told");
    let image = bench.image();
    // What is written before the last descriptor is closed waits in the kernel.
    let script = "exec 3> late; head -c 40000000 /dev/zero >&3 || exit 0";
    let told = extant(["mount", &image, "--", "sh", "-c", script]);
    let size = done(["stat", "--json", &format!("{image}:/late")]);
    let is_whole = size.contains("\"size\":40000000");
    assert!(is_whole || told.code == 32 || told.stderr.contains("full"), "{told:?} {size}");
    bench.is_whole();
}
