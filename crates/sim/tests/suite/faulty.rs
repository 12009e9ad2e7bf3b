//! A device that fails as it is told: it is a device like any other, and fails when it was ordered.
use crate::abilities::Ability::{Discard, Remembered};
use crate::abilities::{PROBE_BYTES, passes_on};
use crate::checks::{BYTES, SubmitOnly, contract, read};
use extant_block::*;
use extant_sim::{Fault, Faulty};
use std::io::ErrorKind;
use std::sync::Arc;

fn clock() -> Arc<dyn Clock> {
    RealClock::new()
}

#[test]
fn faulty_device_without_faults() {
    contract(Faulty::new(MemoryDevice::new(clock(), BYTES)));
}
#[test]
fn it_passes_on_what_it_counts() {
    let faulty = |probe| Box::new(Faulty::new(probe)) as Box<dyn BlockDevice>;
    passes_on(&[Remembered, Discard], 0..PROBE_BYTES, faulty);
    let device = Faulty::new(MemoryDevice::new(clock(), BYTES));
    device.add(Fault::NthRead(2));
    device.add(Fault::NthWrite(1));
    let seam: &dyn BlockDevice = &device;
    assert_eq!(seam.read_remembered(0, &mut [0; 10]), 10);
    assert_eq!(seam.read_remembered(0, &mut [0; 10]), 0, "the second read fails");
    assert!(seam.discard(0, 10).is_err() && seam.discard(0, 10).is_ok());
    assert_eq!(device.reads(), 2);
}

#[test]
fn faults_come_when_they_were_ordered() {
    let device = Arc::new(Faulty::new(MemoryDevice::new(clock(), BYTES)));
    device.add(Fault::NthWrite(2));
    device.write(0, &[1; 10]).unwrap();
    let error = device.write(0, &[2; 10]).unwrap_err();
    assert_eq!(raw_os_error(&error), Some(5));
    device.write(10, &[3; 10]).unwrap();
    assert_eq!(read(&device, 0, 20), [[1; 10], [3; 10]].concat(), "a failed write stores nothing");

    device.repair();
    device.add(Fault::ReadsIn(100..200));
    assert!(device.read(0, &mut [0; 100]).is_ok());
    assert!(device.read(0, &mut [0; 101]).is_err());
    assert!(device.read(199, &mut [0; 10]).is_err());
    assert!(device.read(200, &mut [0; 10]).is_ok());

    device.repair();
    device.add(Fault::FullAfter(15));
    device.write(0, &[1; 10]).unwrap();
    assert_eq!(device.write(0, &[1; 10]).unwrap_err().kind(), ErrorKind::StorageFull);
    device.write(0, &[1; 5]).unwrap();
    assert_eq!(device.write(0, &[1]).unwrap_err().kind(), ErrorKind::StorageFull);

    device.repair();
    device.add(Fault::NthWrite(1));
    assert!(SubmitOnly(Arc::clone(&device)).write(0, &[1]).is_err(), "also when it is submitted");

    device.repair();
    device.add(Fault::WritesAfter(1));
    device.add(Fault::Flushes);
    device.write(0, &[1]).unwrap();
    assert!((0..3).all(|_| device.write(0, &[1]).is_err()));
    assert!(device.flush().is_err());
}
