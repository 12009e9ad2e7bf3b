//! Volumes whose log is not replayed: made, and judged alike by e2fsck and the kernel.

use extant_testkit::compare::{self, Field, Options};
use extant_testkit::journals::{self, VARIANTS};
use extant_testkit::scratch::Scratch;

/// Of the first variants; the others are judged with our own replay beside them (crate `engine`).
const MADE: usize = 4;

#[test]
fn e2fsck_and_the_kernel_agree_on_what_a_log_says() {
    if !journals::is_possible() {
        return;
    }
    let folder = Scratch::new("journals");
    // e2fsck 1.47 makes something else of fast commits than the kernel does.
    let variants = VARIANTS.iter().filter(|variant| !variant.has_fast_commits());
    for (seed, variant) in (1..).zip(variants.take(MADE)) {
        let name = variant.name;
        let image = variant.make(seed, folder.path()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(journals::needs_recovery(&image), Ok(true), "{name}");
        let judged = journals::copy(&image, "e2fsck").expect("copied");
        let mounted = journals::copy(&image, "kernel").expect("copied");
        let repaired = journals::after_e2fsck(&judged)
            .and_then(|()| journals::after_preen(&judged))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let replayed =
            journals::after_kernel(&mounted).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(journals::clean(&mounted), Ok(()), "{name}");
        let mut options = Options::same_image();
        options.fields.remove(&Field::Holes);
        let found = compare::entries(&repaired, &replayed, &options);
        assert!(found.is_empty(), "{name}: {}", found[0]);
        let start = journals::log_start(&judged).expect("a log");
        let same = journals::differing_blocks(&judged, &judged, variant.block_size, start);
        assert_eq!(same, Ok(journals::Differing::default()));
    }
}
