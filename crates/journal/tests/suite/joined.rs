//! Two devices as one.
use crate::checks::{BYTES, SubmitOnly, contract, read};
use crate::volumes::clock;
use extant_block::paced::Limits;
use extant_block::*;
use extant_journal::Joined;
use extant_testkit::scratch::Scratch;
use std::fs::File;
use std::io::ErrorKind;
use std::sync::Arc;

/// Windows as for a device that is far away, from the first reads on.
const FAR: Limits = Limits { stretch_bytes_max: 0, memory_bytes: 1 << 20 };

/// Drops every request.
struct Lossy(MemoryDevice);

impl BlockDevice for Lossy {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.0.clock()
    }
    fn submit(&self, _request: Request) {}
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::NONE
    }
}

/// Two devices of `BYTES`, joined, and where the second begins.
fn joined() -> (Arc<Joined>, u64) {
    let memory = || Arc::new(MemoryDevice::new(clock(), BYTES));
    let device = Arc::new(Joined::new(memory(), memory()));
    let annex = device.capabilities().annex.unwrap();
    assert_eq!((annex.own_bytes, annex.start % 65_536), (BYTES, 0));
    assert_eq!(device.info().bytes, annex.start + BYTES);
    (device, annex.start)
}
#[test]
fn joined_devices_are_two_devices() {
    for start in [0, joined().1] {
        let own =
            |device: &Arc<Joined>| Window::new(device.clone(), start..start + BYTES, "half".into());
        let (device, behind) = joined();
        contract(own(&device));
        let other = behind - start;
        let bytes = read(&*device, other, BYTES as usize);
        assert!(bytes.iter().all(|byte| *byte == 0), "a write reached the other device");
        contract(SubmitOnly(own(&joined().0)));
    }
}
#[test]
fn nothing_reaches_over_the_seam_of_joined_devices() {
    let (device, start) = joined();
    let shared: &dyn BlockDevice = &*device;
    assert_eq!(shared.own_bytes(), BYTES);
    for (offset, length) in [(BYTES - 1, 2), (BYTES, 1), (start - 1, 2)] {
        let mut bytes = vec![0; length];
        let error = device.read(offset, &mut bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        let error = device.write(offset, &bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    // What is above it knows the seam too, but for a stretch of it.
    let over = Overlay::new(device.clone(), 1024, 1 << 20);
    let seam = over.capabilities().annex;
    assert_eq!(seam, device.capabilities().annex);
    assert_eq!(Staged::new(over, Vec::new()).capabilities().annex, seam);
    assert_eq!(Neighbours::new(device.clone(), 1 << 20).capabilities().annex, seam);
    assert_eq!(Paced::new(device.clone(), FAR).capabilities().annex, seam);
    let window = Window::new(device, 0..BYTES, "half".into());
    assert_eq!(window.capabilities().annex, None);
}
#[test]
fn joined_files_know_the_holes_of_both() {
    let folder = Scratch::new("joined");
    let [own, behind] = ["own", "behind"].map(|name| {
        let path = folder.join(name);
        File::create(&path).unwrap().set_len(BYTES).unwrap();
        Arc::new(FileDevice::open(clock(), &path, Access::ReadWrite, 0).unwrap())
    });
    let device: Arc<dyn BlockDevice> = Arc::new(Joined::new(own, behind));
    let start = device.capabilities().annex.unwrap().start;
    device.write(start + 100_000, &[7]).unwrap();
    let data = device.next_data(0).unwrap().unwrap();
    assert!(data.start > BYTES && data.contains(&(start + 100_000)), "{data:?}");
    device.write(200_000, &[7]).unwrap();
    let data = device.next_data(0).unwrap().unwrap();
    assert!(data.contains(&200_000) && data.end <= BYTES, "{data:?}");
    assert!(device.next_data(BYTES).unwrap().unwrap().contains(&(start + 100_000)));
}
#[test]
fn a_flush_of_joined_devices_is_one_of_both() {
    let memory = || Arc::new(MemoryDevice::new(clock(), BYTES));
    let lossy = || Arc::new(Lossy(MemoryDevice::new(clock(), BYTES)));
    for device in [Joined::new(memory(), lossy()), Joined::new(lossy(), memory())] {
        assert!(device.flush().is_err());
        assert!(device.transfer(Operation::Flush, 0, Vec::new()).result.is_err());
        assert!(SubmitOnly(device).flush().is_err());
    }
    let device = Joined::new(memory(), memory());
    device.flush().unwrap();
    SubmitOnly(device).flush().unwrap();
}
