//! -E android_sparse: what simg2img unpacks is the volume that is made without it.
use crate::names::option_strings::compare;
use crate::names::{HASH_SEED, UUID, extant, run};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;

#[test]
fn simg2img_gives_the_volume_back() {
    if !require("simg2img") {
        return;
    }
    let folder = Scratch::new("names-sparse");
    let source = folder.join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("file"), vec![7; 300_000]).unwrap();
    let [raw, packed, back] = ["raw", "packed", "back"].map(|name| folder.join(name));
    for (options, size, is_filled) in [
        ("-b 4096", "64M", false),
        ("-b 1024", "33001K", false),
        ("-b 4096", "64M", true),
        ("-b 1024 -O ^has_journal", "33001K", true),
        ("-b 16384", "200M", false),
    ] {
        let _ = [&raw, &back].map(std::fs::remove_file);
        // What the file held before is gone.
        std::fs::write(&packed, vec![9; 4 << 20]).unwrap();
        for (image, more) in [(&raw, ""), (&packed, ",android_sparse")] {
            let mut command = extant("mkfs.ext4");
            command.args(["-q", "-F", "-U", UUID]).args(options.split(' '));
            command.args(["-E", &format!("{HASH_SEED}{more}")]);
            if is_filled {
                command.arg("-d").arg(&source);
            }
            let (code, said) = run(command.arg(image).arg(size));
            assert_eq!(code, Some(0), "{options}: {said}");
        }
        let packed_bytes = std::fs::metadata(&packed).unwrap().len();
        assert!(packed_bytes < 4 << 20, "{options}: {packed_bytes} bytes");
        let mut command = extant_testkit::command::program("simg2img");
        let (code, said) = run(command.arg(&packed).arg(&back));
        assert_eq!(code, Some(0), "{options}: {said}");
        // A sparse image has whole blocks of 4096 bytes.
        let bytes = std::fs::metadata(&raw).unwrap().len();
        let file = std::fs::OpenOptions::new().write(true).open(&back).unwrap();
        let unpacked = file.metadata().unwrap().len();
        assert_eq!(unpacked, bytes.next_multiple_of(4096), "{options}");
        file.set_len(bytes).unwrap();
        assert_eq!(compare(&raw, &back), Vec::<String>::new(), "{options} {size}");
    }
}
