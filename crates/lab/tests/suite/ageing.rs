//! Ageing: what a profile says is what happens, the same each time, and the volume stays sound.
use extant_block::{BlockDevice, Clock, MemoryDevice, RealClock};
use extant_engine::mkfs::{self, FormatOptions, Identity, Profile as VolumeKind, default_wishes};
use extant_engine::preset::Policies;
use extant_lab::ageing::{
    self, AgeOptions, Aged, DatedClock, EXPERIMENTS, Experiment, Form, ImageOptions, Keep,
    PROFILES, Sampling, Subject, Tell, age_image, parse,
};
use extant_testkit::variables::number;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

fn quiet() -> Tell {
    Arc::new(|_: &str| {})
}

fn options(bytes: u64, months: u32, sampling: Sampling) -> AgeOptions {
    AgeOptions {
        seed: 7,
        form: Form::Quick,
        months: Some(months),
        bytes: Some(bytes),
        drive: None,
        sampling,
        threads: 2,
    }
}

fn aged(name: &str, words: &[&str], options: &AgeOptions) -> Aged {
    let mut experiment = Experiment::find(name).unwrap();
    experiment.subjects = words.iter().map(|words| Subject::new(words).unwrap()).collect();
    ageing::run(&experiment, options, Keep::Volumes, &quiet())
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What e2fsck says of a volume, empty when nothing is wrong.
fn e2fsck(image: &Path) -> String {
    let judged = Command::new("e2fsck").arg("-fn").arg(image).output().unwrap();
    match judged.status.success() {
        true => String::new(),
        false => String::from_utf8_lossy(&judged.stdout).into_owned(),
    }
}

/// A profile of one population, small enough for a test.
fn small(population: &str) -> String {
    format!(
        "name = \"small\"\nsize = \"64M\"\nsessions = 2\nutilisation = {{ start = 0.4, target = \
         0.7, after_days = 20 }}\n\n\
         [[files]]\nname = \"all\"\nat = \"/all\"\nshare = 1\ndirectories = 8\n{population}"
    )
}

#[test]
fn every_profile_and_experiment_that_is_built_in_is_sound() {
    for builtin in PROFILES {
        let profile = ageing::find(builtin.name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(profile.name, builtin.name);
        assert!(!profile.line.is_empty());
        let experiment = Experiment::find(builtin.name).unwrap();
        assert!(experiment.subjects.len() > 5, "a profile runs under every preset");
    }
    for builtin in EXPERIMENTS {
        let experiment = Experiment::find(builtin.name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(experiment.name, builtin.name);
        assert!(experiment.subjects.len() >= 3);
    }
}

#[test]
fn what_is_wrong_in_a_profile_is_told_with_file_line_and_key() {
    let refused = |text: &str| parse("p.toml", text).unwrap_err().to_string();
    let size = "size = \"4K\"\n";
    assert_eq!(
        refused(&small(&format!("{size}creat = 4\n"))).split(" there are").next().unwrap(),
        "p.toml:12: files.creat: no such key;"
    );
    assert_eq!(refused(&small("")), "p.toml:6: files.size: is missing");
    let share = small(size).replace("share = 1", "share = 0.5");
    assert_eq!(refused(&share), "p.toml:6: files: shares of all add up to 0.500000, not to 1");
    let pair = small("size = { median = \"8K\", p99 = \"4K\" }\n");
    assert_eq!(refused(&pair), "p.toml:11: files.size.p99: is less than the median");
    let name = small(&format!("{size}names = \"a/%d\"\n"));
    assert_eq!(refused(&name), "p.toml:12: files.names: has to be a name with one %d in it");
    let full = small(size).replace("target = 0.7", "target = 1.2");
    assert_eq!(
        refused(&full),
        "p.toml:4: utilisation.target: has to lie within 0.001 and 1, not 1.2"
    );
    assert!(refused("name = ").starts_with("p.toml:1:"));
    assert!(Experiment::find("nothing").is_err_and(|error| error.to_string().contains("post-1")));
}

#[test]
fn the_same_seed_gives_the_same_report_and_a_volume_that_e2fsck_accepts() {
    let options = options(96 << 20, 1, Sampling::Drive);
    let words = ["linux-2.6", "modern"];
    let one = aged("mail", &words, &options);
    let other = aged("mail", &words, &AgeOptions { threads: 1, ..options.clone() });
    assert_eq!(one.report.to_json(), other.report.to_json());
    let another = aged("mail", &words, &AgeOptions { seed: 8, ..options });
    assert_ne!(one.report.to_json(), another.report.to_json());
    let folder = tempfile::tempdir().unwrap();
    for (volume, series) in one.volumes.iter().zip(&one.report.series) {
        let image = folder.path().join("volume.img");
        volume.save(&image).unwrap();
        assert_eq!(e2fsck(&image), "", "{}", series.name);
    }
    // One life under all policies.
    let counts = |at: usize| {
        one.report.series[at].samples.iter().map(|sample| sample.files).collect::<Vec<u64>>()
    };
    assert_eq!(counts(0), counts(1));
    for sample in one.report.series.iter().flat_map(|series| &series.samples) {
        assert!(
            sample
                .scan
                .is_some_and(|scan| scan.bytes > 0 && scan.elapsed_ns > 0 && scan.commands > 0)
        );
        assert!(sample.write.is_some_and(|write| write.files > 0 && write.elapsed_ns > 0));
        assert!(
            sample.check.is_some_and(|check| check.files >= sample.files && check.elapsed_ns > 0)
        );
        assert!(sample.read_newest != sample.read_oldest);
        assert!(sample.dynamic_layout_score_ppm.is_some_and(|score| score <= 1_000_000));
    }
}

#[test]
fn a_volume_gets_as_full_as_it_is_meant_to_be_and_stays_so() {
    // A unit of each of four populations may be a 32nd of the volume: within 12 % on one as small
    // as this.
    let names = ["mail", "packages", "containers", "git", "file-server"];
    for name in names.into_iter().step_by(number("EXTANT_RUNS") as usize) {
        let profile = ageing::find(name).unwrap();
        let report = aged(name, &["modern"], &options(256 << 20, 5, Sampling::Layout)).report;
        for sample in &report.series[0].samples {
            let goal = i64::from(profile.utilisation.goal_ppm(u64::from(sample.day) * 1000));
            let off = sample.utilisation_ppm as i64 - goal;
            assert!(
                off.abs() < 120_000,
                "{name}, day {}: {} for {goal}",
                sample.day,
                sample.utilisation_ppm
            );
        }
        let free = &report.series[0].samples[5].free;
        assert_eq!(free.histogram.iter().map(|class| class.blocks).sum::<u64>(), free.blocks);
        assert_eq!(free.histogram.iter().map(|class| class.runs).sum::<u64>(), free.runs);
    }
}

#[test]
fn files_have_the_sizes_of_their_distribution() {
    let text = small("size = { mean = \"24K\" }\nlifetime_days = 10\ncreate = 100\n");
    let profile = parse("small", &text).unwrap();
    let experiment = Experiment::of(profile).unwrap();
    let experiment = Experiment { subjects: vec![Subject::new("modern").unwrap()], ..experiment };
    let options = options(256 << 20, 1, Sampling::Layout);
    let aged = ageing::run(&experiment, &options, Keep::Volumes, &quiet()).unwrap();
    let volume = Arc::new(aged.volumes.into_iter().next().unwrap());
    let volume =
        extant_inspect::Volume::open(volume, extant_inspect::SuperblockPlace::Primary).unwrap();
    let (mut files, mut bytes) = (0u64, 0u64);
    extant_inspect::each_inode(&volume, &mut |ino, inode| {
        let is_file = inode.file_type() == Some(extant_format::inode::FileType::Regular);
        if is_file && volume.superblock().is_usable(ino) {
            files += 1;
            bytes += inode.size;
        }
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert!(files > 3000, "{files}");
    let mean = bytes / files;
    assert!(mean.abs_diff(24 << 10) * 100 < (24 << 10) * 4, "mean of {files} files: {mean}");
}

#[test]
fn layout_decays_and_the_better_allocation_keeps_more_of_it() {
    let policies = ["linux-2.4", "modern"];
    let report = aged("file-server", &policies, &options(512 << 20, 4, Sampling::Layout)).report;
    let score = |series: usize, sample: usize| {
        report.series[series].samples[sample].layout_score_ppm.unwrap()
    };
    assert!(score(0, 4) < score(0, 0), "ext2-goal: {} -> {}", score(0, 0), score(0, 4));
    assert!(score(1, 4) > score(0, 4), "modern {} against ext2-goal {}", score(1, 4), score(0, 4));
    let free =
        |series: usize, sample: usize| report.series[series].samples[sample].free.mean_run_permille;
    assert!(free(0, 4) < free(0, 0), "free space falls into pieces");
}

#[test]
fn a_full_volume_goes_on() {
    let text = small(
        "size = { median = \"16K\", p99 = \"600K\" }\ncreate = 400\nappend = 200\nreplace = 50\n",
    )
    .replace("start = 0.4, target = 0.7, after_days = 20", "start = 1, target = 1, after_days = 0");
    let experiment = Experiment::of(parse("full", &text).unwrap()).unwrap();
    let options = options(64 << 20, 1, Sampling::Layout);
    let folder = tempfile::tempdir().unwrap();
    // Each by itself: of several, all hold what the one with the least room can hold.
    for words in ["linux-2.4", "linux-2.6", "modern"] {
        let subjects = vec![Subject::new(words).unwrap()];
        let experiment = Experiment { subjects, ..experiment.clone() };
        let aged = ageing::run(&experiment, &options, Keep::Volumes, &quiet()).unwrap();
        let series = &aged.report.series[0];
        assert!(series.refused > 0, "{words} was never full");
        assert!(series.samples[1].utilisation_ppm > 950_000, "{words}: {:?}", series.samples[1]);
        assert!(series.samples[1].operations > series.samples[0].operations + 10_000);
        let image = folder.path().join("full.img");
        aged.volumes[0].save(&image).unwrap();
        assert_eq!(e2fsck(&image), "", "{words}");
    }
}

#[test]
fn volumes_are_those_of_their_presets_time_and_hold_the_same() {
    let words = ["linux-2.4", "linux-2.6", "modern"];
    let experiment = |text: &str| {
        let experiment = Experiment::of(parse("small", text).unwrap()).unwrap();
        let subjects = words.iter().map(|words| Subject::new(words).unwrap()).collect();
        Experiment { subjects, ..experiment }
    };
    let aged = |text: &str| {
        let options = options(512 << 20, 0, Sampling::Layout);
        ageing::run(&experiment(text), &options, Keep::Volumes, &quiet()).unwrap()
    };
    let text = small("size = \"64K\"\n");
    let of_all = |text: &str| {
        let aged = aged(text);
        let utilisation: Vec<u64> =
            aged.report.series.iter().map(|series| series.samples[0].utilisation_ppm).collect();
        let files: Vec<u64> =
            aged.report.series.iter().map(|series| series.samples[0].files).collect();
        assert!(files[0] == files[1] && files[1] == files[2], "{files:?}");
        let inodes = aged.volumes.into_iter().map(|volume| {
            let volume = Arc::new(volume);
            let place = extant_inspect::SuperblockPlace::Primary;
            let volume = extant_inspect::Volume::open(volume, place).unwrap();
            let superblock = volume.superblock();
            (superblock.inode_size, superblock.inodes_count, superblock.features)
        });
        (utilisation, inodes.collect::<Vec<_>>())
    };
    let (utilisation, inodes) = of_all(&text);
    assert_eq!(inodes.iter().map(|one| one.0).collect::<Vec<_>>(), [128, 128, 256]);
    assert_eq!(inodes.iter().map(|one| one.1).collect::<Vec<_>>(), [65536, 65536, 32768]);
    let dir_index = extant_format::superblock::Feature::DIR_INDEX;
    assert!(!inodes[0].2.has(dir_index) && inodes[1].2.has(dir_index));
    // The journal of the others is what this one has free in addition.
    assert!(utilisation[0] < utilisation[2], "{utilisation:?}");
    assert!(utilisation[2].abs_diff(400_000) < 10_000, "{utilisation:?}");
    // What the profile says of its volume comes before that.
    let (_, inodes) = of_all(&format!("{text}\n[volume]\nbytes_per_inode = 32768\n"));
    assert_eq!(inodes.iter().map(|one| one.1).collect::<Vec<_>>(), [16384; 3]);
}

/// An image of 64 MiB, empty, from a fixed second.
fn image() -> MemoryDevice {
    let bytes = 64 << 20;
    let device = Arc::new(MemoryDevice::new(RealClock::new(), bytes));
    let mut wishes = default_wishes(VolumeKind::Ext4, bytes, Some(4096), Identity::NONE);
    wishes.created_seconds = 1_700_000_000;
    let policies: Policies = "modern".parse().unwrap();
    mkfs::format(device.clone(), &FormatOptions::new(wishes), &policies).unwrap();
    device.snapshot()
}

#[test]
fn an_image_ages_to_the_same_bytes_and_what_was_on_it_stays() {
    let made = image();
    let mut before = vec![0; 64 << 20];
    made.read(0, &mut before).unwrap();
    let text = small(
        "size = { median = \"6K\", p99 = \"200K\" }\nlifetime_days = { median = 3, p99 = 40 \
         }\ncreate = 200\nappend = 40\n\
         truncate = 20\noverwrite = 20\nrename = 40\nreplace = 40\nnew_directories = 1\n",
    );
    let mut options = ImageOptions {
        profile: parse("small", &text).unwrap(),
        days: 12,
        seed: 3,
        target_utilisation_ppm: Some(800_000),
        into: "/aged".to_owned(),
        policies: "modern,throttle=inline".parse().unwrap(),
        cache_bytes: 8 << 20,
        end_seconds: 1_700_000_000,
    };
    let age = |options: &ImageOptions, bytes: &[u8]| {
        let clock = DatedClock::new(1);
        let device =
            Arc::new(MemoryDevice::from_bytes(Arc::clone(&clock) as Arc<dyn Clock>, bytes));
        let aged = age_image(device.clone(), &clock, options, &quiet()).unwrap();
        let mut after = vec![0; bytes.len()];
        device.read(0, &mut after).unwrap();
        (aged, after)
    };
    let (aged, one) = age(&options, &before);
    let (again, other) = age(&options, &before);
    assert!(aged == again && one == other, "the same seed gives other bytes");
    assert!((760_000..860_000).contains(&aged.utilisation_ppm), "{aged:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("aged.img");
    std::fs::write(&path, &one).unwrap();
    assert_eq!(e2fsck(&path), "");
    // What is there already is neither touched nor mixed with.
    let clock = DatedClock::new(1);
    let device = Arc::new(MemoryDevice::from_bytes(Arc::clone(&clock) as Arc<dyn Clock>, &one));
    options.into = String::new();
    options.target_utilisation_ppm = Some(950_000);
    age_image(device.clone(), &clock, &options, &quiet()).unwrap();
    let mut after = vec![0; one.len()];
    device.read(0, &mut after).unwrap();
    std::fs::write(&path, &after).unwrap();
    assert_eq!(e2fsck(&path), "");
}
