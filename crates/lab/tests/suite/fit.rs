//! Our own drives as black boxes: what the probes say of them has to bring back the drive.
use extant_block::{Clock, ShortLock};
use extant_lab::fit::{
    Fit, Found, Known, ProbeOptions, ProbeRequest, ProbeTarget, SimulatedTarget, Store,
    TargetFacts, ThreadedTarget, Timing, Writes, probe_and_fit,
};
use extant_sim::clock::{Settings, VirtualClock};
use extant_sim::drive::file::{self, DriveKind, DriveSpec};
use extant_sim::drive::ssd::Ssd;
use extant_sim::random::{Quantiles, Random};
use std::io;
use std::sync::Arc;

/// The seed of the black boxes; the search plays its candidates with others.
const BOX_SEED: u64 = 99;

/// Probes the built-in drive and fits one, without a look at its file.
fn fitted(name: &str, writes: Writes) -> Found {
    fitted_to(&file::by_name(name).expect("a built-in drive"), writes)
}

/// Probes the drive and fits one.
fn fitted_to(spec: &DriveSpec, writes: Writes) -> Found {
    let name = &spec.name;
    let mut target = SimulatedTarget::new(spec.build(BOX_SEED), writes);
    let options = ProbeOptions::default();
    let found = probe_and_fit("fitted", &mut target, &options, &mut |_, _| {});
    let found = found.expect("a simulated drive can be probed");
    println!(
        "{name}: {} requests in {} s, {} candidates, distance {:.4}, kinds {:?}\n{:#?}",
        found.requests,
        found.probed_ns / 1_000_000_000,
        found.fit.candidates,
        found.fit.distance,
        found.fit.kinds,
        found.fit.held_out,
    );
    for (depth, agreed) in &found.fit.held_out_by_depth {
        println!(
            "  depth {depth}: mean {:+.3} demerit {:.3} p99 {:+.3}",
            agreed.mean_error, agreed.demerit, agreed.p99_error
        );
    }
    println!("{}", found.fit.text);
    assert!(found.probed_ns <= options.time_ns + 10_000_000_000, "{}", found.probed_ns);
    let parsed = file::parse("fitted.toml", &found.fit.text).expect("a valid drive file");
    assert_eq!(parsed.name, "fitted");
    found
}

/// The facts of a built-in drive under the names of the drive file.
fn truth(name: &str) -> Vec<(&'static str, f64)> {
    let micros = |ns: u64| ns as f64 / 1e3;
    let millis = |ns: u64| ns as f64 / 1e6;
    match file::by_name(name).expect("a built-in drive").kind {
        DriveKind::Ssd(spec) => vec![
            ("read_4k_us", micros(spec.read_4k.median_ns)),
            ("read_4k_p99_us", micros(spec.read_4k.p99_ns)),
            ("channels", f64::from(spec.channels)),
            ("stripe_bytes", spec.stripe_bytes as f64),
            ("read_bytes_per_s", spec.read_bytes_per_s as f64),
            ("overhead_us", micros(spec.overhead_ns)),
            ("queue_depth", f64::from(spec.medium.queue_depth)),
            ("write_4k_us", micros(spec.write_4k.median_ns)),
            ("write_4k_p99_us", micros(spec.write_4k.p99_ns)),
            ("write_bytes_per_s", spec.write_bytes_per_s as f64),
            ("flush_us", micros(spec.flush.median_ns)),
            ("flush_p99_us", micros(spec.flush.p99_ns)),
            ("write_cache_bytes", spec.write_cache_bytes as f64),
            ("medium_write_bytes_per_s", spec.medium_write_bytes_per_s as f64),
        ],
        DriveKind::Network(spec) => vec![
            ("read_ms", millis(spec.read.median_ns)),
            ("read_p99_ms", millis(spec.read.p99_ns)),
            ("write_ms", millis(spec.write.median_ns)),
            ("write_p99_ms", millis(spec.write.p99_ns)),
            ("flush_ms", millis(spec.flush.median_ns)),
            ("flush_p99_ms", millis(spec.flush.p99_ns)),
            ("link_bytes_per_s", spec.link_bytes_per_s as f64),
            ("operation_bytes", spec.operation_bytes as f64),
            ("queue_depth", f64::from(spec.medium.queue_depth)),
            ("operations.per_s", spec.operations.per_s as f64),
            ("operations.burst", spec.operations.burst as f64),
            ("bytes.per_s", spec.bytes.per_s as f64),
            ("bytes.burst", spec.bytes.burst as f64),
        ],
        DriveKind::Object(spec) => vec![
            ("first_byte_ms", millis(spec.first_byte.median_ns)),
            ("first_byte_p99_ms", millis(spec.first_byte.p99_ns)),
            ("put_ms", millis(spec.put.median_ns)),
            ("put_p99_ms", millis(spec.put.p99_ns)),
            ("connection_bytes_per_s", spec.connection_bytes_per_s as f64),
            ("object_bytes", spec.object_bytes as f64),
            ("connections", f64::from(spec.connections)),
            ("queue_depth", f64::from(spec.medium.queue_depth)),
        ],
        DriveKind::Rotating(spec) => vec![
            ("rpm", 60e9 / spec.revolution_ns as f64),
            ("heads", f64::from(spec.heads)),
            ("head_switch_ms", millis(spec.head_switch_ns)),
            ("queue_depth", f64::from(spec.queue_depth)),
            ("overhead_ms.read_miss", millis(spec.overhead.read_miss.read_ns)),
            ("overhead_ms.read_hit", millis(spec.overhead.read_hit.read_ns)),
            ("overhead_ms.write", millis(spec.overhead.write_hit.read_ns)),
            ("cache.bus_bytes_per_s", spec.cache.bus.read_bytes_per_second(spec.sector_bytes)),
            ("cache.segments", f64::from(spec.cache.segments)),
            ("cache.segment_sectors", spec.cache.segment_sectors as f64),
            ("cache.write_segments", f64::from(spec.cache.write_segments)),
            ("write_settle_ms", spec.write_settle_ns as f64 / 1e6),
        ],
    }
}

/// How many of the error bars there are, and how many of them contain the truth.
fn bars_that_hold(fit: &Fit, truth: &[(&str, f64)]) -> (usize, usize) {
    let (mut all, mut held) = (0, 0);
    for value in &fit.values {
        let Some((_, real)) = truth.iter().find(|(name, _)| *name == value.name) else { continue };
        if !matches!(value.known, Known::Identified | Known::AtLeast | Known::AtMost) {
            continue;
        }
        let end = |end: &Option<String>, open: f64| {
            end.as_ref().map_or(open, |end| end.parse::<f64>().expect("a number"))
        };
        let (least, most) = (end(&value.least, f64::MIN), end(&value.most, f64::MAX));
        let holds = least <= *real && *real <= most;
        println!("  {}: {} in {least}..{most}, is {real}: {holds}", value.name, value.value);
        all += 1;
        held += usize::from(holds);
    }
    (all, held)
}

/// Fits the drive and holds the result against it.
///
/// # Errors
/// What is wrong with it.
fn brought_back(name: &str, kind: &str, writes: Writes) -> Result<(), String> {
    let found = fitted(name, writes);
    let how = if let Writes::Refused = writes { "read only" } else { "with writes" };
    if found.fit.kind != kind {
        return Err(format!("{name}, {how}: {:?}", found.fit.kinds));
    }
    let (all, held) = bars_that_hold(&found.fit, &truth(name));
    let agreed = found.fit.held_out.expect("a held-out phase");
    let error = agreed.mean_error;
    let said = format!("{name}, {how}: {error:+.4}, {held} of {all} error bars hold the truth");
    println!("{said}");
    match error.abs() <= 0.05 && all >= 3 && 3 * held >= 2 * all {
        true => Ok(()),
        false => Err(said),
    }
}

const WRITES: Writes = Writes::Bytes(1 << 30);

/// Which drives are brought back.
enum Drives {
    /// One of the kind that is brought back in the least time.
    Few,
    /// One of each kind, and those that are not built in.
    OneOfEach,
    /// Every built-in one, with writes and without: minutes each.
    All,
    /// The built-in one of that name, with writes and without.
    Named(String),
}

impl Drives {
    /// What `EXTANT_FIT` says: `few`, `one`, `all`, or the name of a drive.
    fn asked() -> Drives {
        let word = extant_testkit::variables::word("EXTANT_FIT");
        match word.as_str() {
            "few" => Drives::Few,
            "one" => Drives::OneOfEach,
            "all" => Drives::All,
            name => {
                assert!(file::by_name(name).is_ok(), "EXTANT_FIT={name}: no built-in drive");
                Drives::Named(word)
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Drives::Few | Drives::OneOfEach => false,
            Drives::All => true,
            Drives::Named(one) => one == name,
        }
    }
}

/// Brings back this drive, or those of its kind that `EXTANT_FIT` asks for. All of them are fitted
/// before one that fails ends the test.
fn of_kind(kind: &str, name: &str) {
    let drives = Drives::asked();
    if let (Drives::Few, "ssd" | "object" | "rotating") = (&drives, kind) {
        return;
    }
    if let Drives::Few | Drives::OneOfEach = drives {
        let found = brought_back(name, kind, WRITES);
        assert!(found.is_ok(), "{found:?}");
        return;
    }
    let mut failed = Vec::new();
    for preset in extant_sim::drive::presets::PRESETS {
        let own = match file::by_name(preset.name).expect("a built-in drive").kind {
            DriveKind::Rotating(_) => "rotating",
            DriveKind::Ssd(_) => "ssd",
            DriveKind::Network(_) => "network",
            DriveKind::Object(_) => "object",
        };
        if own == kind && drives.has(preset.name) {
            let both = [WRITES, Writes::Refused];
            failed.extend(both.map(|writes| brought_back(preset.name, kind, writes).err()));
        }
    }
    let failed: Vec<String> = failed.into_iter().flatten().collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn a_solid_state_drive_is_brought_back() {
    of_kind("ssd", "ssd-sata");
}

#[test]
fn a_volume_of_a_network_is_brought_back() {
    of_kind("network", "network-volume");
}

#[test]
fn an_object_store_is_brought_back() {
    of_kind("object", "object-store");
}

#[test]
fn a_disk_is_brought_back() {
    of_kind("rotating", "ide-2001-7200");
}

/// A virtual disk: most of its time is the host's work for each command.
const VIRTUAL_DISK: &str = r#"
name = "virtual-disk"
kind = "network"
capacity_bytes = 8_589_934_592
queue_depth = 256
read_ms = 0.012
read_p99_ms = 0.06
write_ms = 0.03
write_p99_ms = 0.1
flush_ms = 0.5
flush_p99_ms = 1.5
link_bytes_per_s = 10_000_000_000
[operations]
per_s = 1_000_000
[bytes]
per_s = 820_000_000
burst = 4_000_000
[host]
batch_us = 40
command_us = 12
bytes_per_s = 1_200_000_000
"#;

#[test]
fn the_work_of_a_host_is_brought_back() {
    if let Drives::Few = Drives::asked() {
        return;
    }
    let spec = file::parse("virtual-disk.toml", VIRTUAL_DISK).expect("it is sound");
    let found = fitted_to(&spec, Writes::Refused);
    assert!(found.fit.kinds[0].host, "{:?}", found.fit.kinds);
    let agreed = found.fit.held_out.expect("a held-out phase");
    assert!(agreed.mean_error.abs() <= 0.05, "{agreed:?}");
    for (depth, agreed) in &found.fit.held_out_by_depth {
        assert!(agreed.mean_error.abs() <= 0.05, "depth {depth}: {agreed:?}");
    }
    let value = |name: &str| -> f64 {
        let value = found.fit.values.iter().find(|value| value.name == name);
        value.expect("a value of the file").value.parse().expect("a number")
    };
    assert!((10.0..14.0).contains(&value("host.command_us")), "{}", value("host.command_us"));
}

/// What a store in the process does instead of waiting for a medium.
struct Delays {
    clock: Arc<VirtualClock>,
    quantiles: Quantiles,
    random: ShortLock<Random>,
}

impl Store for Delays {
    fn facts(&self) -> TargetFacts {
        TargetFacts { name: "delays".into(), bytes: 1 << 30, sector_bytes: 512, write_bytes: 0 }
    }

    fn serve(&self, request: &ProbeRequest, memory: &mut Vec<u8>) -> io::Result<()> {
        memory.resize(request.bytes as usize, 0);
        let latency = self.quantiles.draw(&mut self.random.lock());
        // A gigabyte a second for each thread.
        let until = self.clock.now() + latency + request.bytes;
        while self.clock.now() < until {
            self.clock.park(Some(until));
        }
        Ok(())
    }
}

#[test]
fn a_device_in_the_process_has_the_median_and_the_tail_that_it_was_given() {
    if let Drives::Few = Drives::asked() {
        return;
    }
    let clock = VirtualClock::new(Settings::default());
    let inside = Arc::clone(&clock);
    let found = clock.run("probes", move || {
        let store = Delays {
            clock: Arc::clone(&inside),
            quantiles: Quantiles::log_normal(800_000, 2_400_000),
            random: ShortLock::new(Random::new(5)),
        };
        let mut target = ThreadedTarget::new(inside, Arc::new(store));
        let options = ProbeOptions { time_ns: 40_000_000_000, ..ProbeOptions::default() };
        probe_and_fit("delays", &mut target, &options, &mut |_, _| {})
    });
    let found = found.expect("the run ends").expect("it can be probed");
    assert_eq!(found.fit.kind, "network", "latency alone, at every depth: {:?}", found.fit.kinds);
    let value = |name: &str| -> f64 {
        let value = found.fit.values.iter().find(|value| value.name == name);
        value.expect("a value of the file").value.parse().expect("a number")
    };
    let (median, tail) = (value("read_ms"), value("read_p99_ms"));
    assert!((0.74..0.86).contains(&median) && (1.9..2.9).contains(&tail), "{median} {tail}");
    let agreed = found.fit.held_out.expect("a held-out phase");
    assert!(agreed.mean_error.abs() < 0.08, "{agreed:?}");
}

/// A target that fails after some requests.
struct Failing {
    left: usize,
}

impl ProbeTarget for Failing {
    fn facts(&self) -> TargetFacts {
        TargetFacts { name: "failing".into(), bytes: 1 << 30, sector_bytes: 512, write_bytes: 0 }
    }

    fn now(&self) -> u64 {
        0
    }

    fn run(&mut self, requests: &[ProbeRequest], _: u32, _: u64) -> io::Result<Vec<Timing>> {
        match self.left.checked_sub(requests.len()) {
            Some(left) => self.left = left,
            None => return Err(io::Error::other("a bad sector")),
        }
        Ok(vec![Timing { start_ns: 0, end_ns: 1_000_000 }; requests.len()])
    }
}

#[test]
fn what_fails_or_is_too_small_or_answers_from_memory_is_refused() {
    let refused = |target: &mut dyn ProbeTarget| {
        let options = ProbeOptions::default();
        probe_and_fit("it", target, &options, &mut |_, _| {}).expect_err("refused").to_string()
    };
    assert_eq!(refused(&mut Failing { left: 2000 }), "a bad sector");
    let text = file::by_name("ssd-sata").expect("a built-in drive");
    let DriveKind::Ssd(mut spec) = text.kind else { panic!("an ssd") };
    spec.medium.capacity_bytes = 8 << 20;
    let small = || Box::new(Ssd::new("small", &spec, 1));
    let small = refused(&mut SimulatedTarget::new(small(), Writes::Refused));
    assert!(small.starts_with("has 8388608 bytes; to be probed it needs"), "{small}");
    spec.medium.capacity_bytes = 1 << 30;
    (spec.read_bytes_per_s, spec.overhead_ns) = (1_000_000_000_000, 0);
    (spec.read_4k.median_ns, spec.read_4k.p99_ns) = (700, 900);
    let memory = Box::new(Ssd::new("memory", &spec, 1));
    let memory = refused(&mut SimulatedTarget::new(memory, Writes::Refused));
    assert!(memory.contains("the page cache answers, not a device"), "{memory}");
}
