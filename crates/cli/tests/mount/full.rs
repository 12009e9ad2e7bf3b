//! Volumes without room: the kernel keeps what is written and does not ask whether there is any.
use crate::fixture::{Bench, done, extant, has_fuse};

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
