//! The programs in `examples/`, one after the other on one image.
#[allow(dead_code)]
#[path = "../../examples/build.rs"]
mod build;
#[allow(dead_code)]
#[path = "../../examples/change.rs"]
mod change;
#[allow(dead_code)]
#[path = "../../examples/check.rs"]
mod check;
#[allow(dead_code)]
#[path = "../../examples/read.rs"]
mod read;

use crate::assert_clean;
use extant_testkit::scratch::Scratch;

#[test]
fn they_do_what_they_say() {
    let folder = Scratch::new("extant-examples");
    let path = folder.join("disk.img");
    let image = path.to_str().unwrap();
    assert!(build::run(image).unwrap().bytes > 16 << 20);
    assert_eq!(read::run(image).unwrap(), 2);
    change::run(image).unwrap();
    let volume = extant::Volume::open(image).unwrap();
    assert_eq!(volume.read("/etc/hostname").unwrap(), b"other\n");
    assert_eq!(volume.metadata("/srv/app/data").unwrap().uid, 1000);
    assert_eq!(volume.metadata("/bin/hi").unwrap().mode & 0o777, 0o755);
    drop(volume);
    assert!(check::run(image).unwrap().is_clean());
    assert_clean(&path, "the examples");
}
