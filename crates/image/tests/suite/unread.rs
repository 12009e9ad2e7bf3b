//! Archives of devices that fail: what cannot be read is named, and is nobody else's bytes.
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_engine::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, Filesystem, Options};
use extant_image::export::{ExportPlan, LeftOut, write};
use extant_sim::{Fault, Faulty};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A file in many pieces, after one that fills every buffer: what cannot be read of any of its
/// pieces is zeros, and said.
#[test]
fn a_piece_of_a_file_that_cannot_be_read_is_no_other_files_bytes() {
    let bytes = 64 << 20;
    let device = Arc::new(MemoryDevice::new(RealClock::new(), bytes));
    let identity = Identity { uuid: [7; 16], hash_seed: [1, 2, 3, 4], created_seconds: 1 };
    let wishes = default_wishes(Profile::Ext4, bytes, Some(4096), identity);
    let policies: Policies = "modern".parse().expect("a preset");
    format(device.clone(), &FormatOptions::new(wishes), &policies).expect("formats");
    let (access, data) = (Access::ReadWrite, DataKeeping::Bytes);
    let options = Options { access, policies, cache_bytes: 16 << 20, data };
    let volume = Filesystem::open(device.clone(), &options).expect("opens");
    volume.write("/a", &vec![b'A'; 12 << 20]).expect("a file");
    volume.write("/b", b"").and_then(|()| volume.write("/c", b"")).expect("files");
    let (b, c) = (volume.open_file("/b").expect("b"), volume.open_file("/c").expect("c"));
    for piece in 0..12 {
        b.write_all_at(piece * 8192, &[b'B'; 8192]).and_then(|()| b.sync()).expect("a piece");
        c.write_all_at(piece * 65536, &[b'C'; 65536]).and_then(|()| c.sync()).expect("a piece");
    }
    let runs = volume.object("/b").and_then(|object| object.runs()).expect("its runs");
    assert!(runs.len() > 2, "{} pieces", runs.len());
    drop((b, c));
    volume.close().expect("closes");
    for run in [&runs[0], &runs[1], &runs[runs.len() - 1]] {
        let failing = Arc::new(Faulty::new(Arc::clone(&device) as Arc<dyn BlockDevice>));
        let options = Options { access: Access::ReadOnly, ..options.clone() };
        let reader = Filesystem::open(Arc::clone(&failing) as _, &options).expect("opens");
        let survey = Arc::new(reader.survey().expect("a survey"));
        let plan = Arc::new(ExportPlan::new(survey, &[]).expect("a plan"));
        let start = run.run.start.0 * 4096;
        failing.add(Fault::ReadsIn(start..start + 4096));
        let (mut archive, mut left_out) = (Vec::new(), Vec::new());
        let mut leave_out = |left: LeftOut| {
            left_out.push(left.to_string());
            ControlFlow::Continue(())
        };
        write(&plan, &mut archive, &(), &mut leave_out).expect("an archive");
        assert!(left_out.len() == 1 && left_out[0].starts_with("b: "), "{left_out:?}");
        let count = |byte| archive.iter().filter(|found| **found == byte).count();
        let zeros = 4096;
        assert!(count(b'A').abs_diff(12 << 20) < 512, "bytes of a: {}", count(b'A'));
        assert!(count(b'B').abs_diff(12 * 8192 - zeros) < 512, "bytes of b: {}", count(b'B'));
        assert!(count(b'C').abs_diff(12 * 65536) < 512, "bytes of c: {}", count(b'C'));
    }
}
