//! The laboratory from outside: each of its commands, the same bytes twice, and one line for what
//! is wrong.
use crate::commands::command::{extant, post_3, printed_text};
use extant_block::{Clock, RealClock};
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::{Known, skip, skip_known};
use std::path::Path;

/// Standard output of a command that must end with 0 and say nothing else.
fn told(words: &[&str]) -> String {
    printed_text(words, extant(words))
}

fn json(words: &[&str]) -> serde_json::Value {
    serde_json::from_str(&told(words)).unwrap()
}

/// How a command fails: its exit code and its first line, which may be followed by a hint and
/// nothing else.
fn failure(words: &[&str]) -> (i32, String) {
    let output = extant(words);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut lines = errors.lines();
    let first = lines.next().unwrap_or_default().to_owned();
    assert!(lines.all(|line| line.starts_with("  hint: ")), "{words:?}: {errors}");
    assert!(output.stdout.is_empty(), "{words:?} printed a result");
    (output.status.code().unwrap(), first)
}

/// A small scenario: files are made, and read back cold.
const SMALL: &str = r#"name = "small"
seed = 7
memory = "16M"

[[drive]]
name = "disk"
model = "ide-2001-7200"

[[filesystem]]
name = "volume"
size = "64M"
profile = "ext2"
preset = "linux-2.4"

[[process]]
name = "worker"
steps = [
    { step = "create-files", at = "/files", count = 200, directories = 10, size = "8K", skip_on_image = true },
    { step = "remount", skip_on_image = true },
    { step = "read-all", at = "/", measure = "read" },
]
"#;

fn written(folder: &Scratch, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn lists_name_what_can_be_shown_and_run() {
    let lists = json(&["lab", "list", "--json"]);
    let names = |list: &str| -> Vec<String> {
        let entries = lists[list].as_array().unwrap().iter();
        entries.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(names("steps").contains(&"untar".to_owned()));
    assert_eq!(names("posts"), ["0", "1", "2", "3", "4"]);
    let text = told(&["lab", "list"]);
    for name in names("scenarios").iter().chain(&names("drives")) {
        assert!(text.contains(name.as_str()), "{name}");
        let file = told(&["lab", "show", name]);
        assert!(file.contains("name = "), "{name}: {file}");
    }
    let (code, line) = failure(&["lab", "show", "nothing"]);
    assert_eq!(
        (code, line.as_str()),
        (2, "extant: lab: nothing: no scenario and no drive of that name is built in")
    );
}

#[test]
fn policies_have_a_line_each_and_every_preset_resolves() {
    let tables = json(&["lab", "policies", "--json"]);
    let text = told(&["lab", "policies"]);
    // Lines are folded: words are compared.
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let columns = tables["columns"].as_array().unwrap();
    for column in columns {
        for choice in column["choices"].as_array().unwrap() {
            let line = choice["line"].as_str().unwrap();
            assert!(!line.is_empty() && flat.contains(line), "{choice}");
        }
    }
    for preset in tables["presets"].as_array().unwrap() {
        let chosen = preset["columns"].as_object().unwrap();
        assert_eq!(chosen.len(), columns.len(), "{preset}");
    }
    for name in
        ["linux-2.4", "linux-2.4-akpm", "linux-2.6", "freebsd-5.2", "freebsd-2010", "modern"]
    {
        assert!(text.contains(&format!("\n{name}: ")), "{name}");
    }
}

/// UUID and hash seed of the file system that a run with this seed leaves.
fn identity(folder: &Scratch, file: &str, seed: &[&str]) -> [String; 2] {
    let image = folder.join("left.img");
    let _ = std::fs::remove_file(&image);
    let image = image.to_str().unwrap();
    told(&[&["lab", "run", file, "--save", image], seed].concat());
    let facts = json(&["info", "-h", "--json", image]);
    ["uuid", "directory_hash_seed"].map(|field| facts["volume"][field].as_str().unwrap().to_owned())
}

#[test]
fn a_seed_decides_the_identity_of_new_volumes() {
    let folder = Scratch::new("extant-lab-seed");
    let file = written(&folder, "small.toml", SMALL);
    let of = |seed: &[&str]| identity(&folder, &file, seed);
    let (own, same, other) = (of(&[]), of(&["--seed", "7"]), of(&["--seed", "8"]));
    assert_eq!(own, same, "7 is the file's own");
    assert_eq!(other, of(&["--seed", "8"]));
    assert!(own[0] != other[0] && own[1] != other[1], "{own:?} {other:?}");
}

#[test]
fn the_same_command_gives_the_same_bytes() {
    let folder = Scratch::new("extant-lab-run");
    let file = written(&folder, "small.toml", SMALL);
    let (text, again) = (told(&["lab", "run", &file]), told(&["lab", "run", &file]));
    assert_eq!(text, again);
    assert!(text.contains("linux-2.4") && text.contains("read"), "{text}");
    let report = json(&["lab", "run", &file, "--json", "--seed", "8"]);
    assert_eq!(report["schema"], "extant-lab-report/1");
    assert_eq!(report["seed"], 8);
    let read = &report["measures"][0];
    assert_eq!((&read["measure"], &read["work"]["files"]), (&"read".into(), &200.into()));
    assert!(read["elapsed_ns"].as_u64().unwrap() > 10_000_000, "{read}");
    let scaled = json(&["lab", "run", &file, "--json", "--scale", "10"]);
    assert_eq!(scaled["measures"][0]["work"]["files"], 20);
}

#[test]
fn drive_and_policies_can_be_changed_from_the_command_line() {
    let folder = Scratch::new("extant-lab-change");
    let file = written(&folder, "small.toml", SMALL);
    let time = |words: &[&str]| {
        let mut all = vec!["lab", "run", &file, "--json"];
        all.extend(words);
        let report = json(&all);
        (report["measures"][0]["elapsed_ns"].as_u64().unwrap(), report)
    };
    let (disk, _) = time(&[]);
    let (ssd, report) = time(&["--drive", "ssd-nvme"]);
    assert!(ssd * 5 < disk, "{ssd} ns on an ssd, {disk} ns on a disk");
    assert_eq!(report["drives"][0]["spec"]["kind"], "ssd");
    let (_, changed) = time(&["--preset", "placement=orlov"]);
    let columns = changed["filesystems"][0]["columns"].as_array().unwrap();
    let choice = |name: &str| {
        columns.iter().find(|column| column["column"] == name).unwrap()["choice"].clone()
    };
    assert_eq!((choice("placement"), choice("allocation")), ("orlov".into(), "ext2-goal".into()));
    let (_, modern) = time(&["--policies", "modern"]);
    assert_eq!(modern["filesystems"][0]["preset"], "modern");
}

#[test]
fn an_image_takes_part_and_what_is_left_is_saved() {
    let folder = Scratch::new("extant-lab-image");
    let (tree, image, saved) =
        (folder.join("tree"), folder.join("disk.img"), folder.join("after.img"));
    std::fs::create_dir(&tree).unwrap();
    for number in 0..50 {
        std::fs::write(tree.join(format!("file-{number}")), vec![number; 20_000]).unwrap();
    }
    let (image, saved) = (image.to_str().unwrap(), saved.to_str().unwrap());
    told(&["build", "-q", "-t", "ext4", tree.to_str().unwrap(), image]);
    let run = ["lab", "run", "read-cold", "--image", image, "--drive", "ide-2001-7200", "--json"];
    let report = json(&run);
    assert_eq!(report["measures"][0]["work"]["files"], 50);
    assert_eq!(report["measures"][0]["work"]["bytes_read"], 1_000_000);
    let before = std::fs::read(image).unwrap();
    told(&[&run[..], &["--save", saved]].concat());
    assert_eq!(before, std::fs::read(image).unwrap(), "the image itself is never changed");
    // File data is not kept, as the scenario says; names, sizes and all metadata are.
    assert_eq!(told(&["ls", "-lR", saved]), told(&["ls", "-lR", image]));
    if extant_testkit::oracle::require("e2fsck") {
        extant_testkit::oracle::e2fsck(Path::new(saved)).unwrap();
    }
}

#[test]
fn the_same_scenario_runs_on_a_real_file() {
    let folder = Scratch::new("extant-lab-real");
    let (file, real) = (written(&folder, "small.toml", SMALL), folder.join("real.img"));
    let run = ["lab", "run", &file, "--real", real.to_str().unwrap(), "--json"];
    let report = json(&run);
    assert_eq!(report["time"], "real");
    assert_eq!(report["measures"][0]["work"]["files"], 200);
    // What the host's drive does is not counted: that is no zero.
    assert!(report["trace_hash"].is_null() && report["drives"][0]["traffic"].is_null());
    assert!(report["measures"][0]["traffic"].is_null() && report["steps"][0]["traffic"].is_null());
    // What is there is kept, unless its loss is asked for.
    assert_eq!(failure(&run[..5]).0, 1);
    told(&[&run[..], &["--overwrite"]].concat());
}

#[test]
fn a_real_run_ignores_no_image_and_makes_its_file() {
    let folder = Scratch::new("extant-lab-pair");
    let file = written(&folder, "small.toml", SMALL);
    let (image, real) = (folder.join("disk.img"), folder.join("real.img"));
    let (image, real) = (image.to_str().unwrap(), real.to_str().unwrap());
    told(&["lab", "run", &file, "--save", image]);
    std::fs::write(real, vec![7; 100_000]).unwrap();
    let pair = ["lab", "run", &file, "--image", image, "--real", real];
    for words in [&pair[..], &[&pair[..], &["--overwrite"]].concat()] {
        let (code, line) = failure(words);
        assert!(code == 2 && line.contains("is not copied"), "{line}");
        assert_eq!(std::fs::read(real).unwrap(), vec![7; 100_000]);
    }
    // The same in the file.
    let text = SMALL.replace("size = \"64M\"\nprofile = \"ext2\"", &format!("image = {image:?}"));
    let other = written(&folder, "image.toml", &text);
    let (code, line) = failure(&["lab", "run", &other, "--real", real, "--overwrite"]);
    assert!(code == 1 && line.contains("is not the image"), "{line}");
    assert_eq!(std::fs::read(real).unwrap(), vec![7; 100_000]);
    // What the file itself holds can be read, and is not written to.
    let before = std::fs::read(image).unwrap();
    let report = json(&["lab", "run", &file, "--image", image, "--real", image, "--json"]);
    assert_eq!(report["measures"][0]["work"]["files"], 200);
    assert!(before == std::fs::read(image).unwrap());
    // A bare drive needs a file as large as it is; one that is not there is made.
    let bare = "name = \"bare\"\n[[drive]]\nname = \"d\"\nmodel \
        = \"ide-2001-7200\"\n[[process]]\nname = \"p\"\ndrive = \"d\"\n\
                steps = [{ step = \"random\", direction = \"read\", chunk = \"4K\", count = 20 \
                }]\n";
    let (bare, made) = (written(&folder, "bare.toml", bare), folder.join("new.img"));
    told(&["lab", "run", &bare, "--real", made.to_str().unwrap()]);
    assert!(std::fs::metadata(&made).unwrap().len() > 1 << 30);
}

#[test]
fn outputs_replace_neither_inputs_nor_unasked_what_is_there() {
    let folder = Scratch::new("extant-lab-outputs");
    let file = written(&folder, "small.toml", SMALL);
    let sheet = told(&["lab", "show", "ide-2001-7200"]);
    let drive = written(&folder, "drive.toml", &sheet);
    let image = folder.join("disk.img");
    let image = image.to_str().unwrap();
    told(&["lab", "run", &file, "--save", image]);
    let before = std::fs::read(image).unwrap();
    let run = ["lab", "run", &file, "--image", image, "--drive", &drive, "--overwrite"];
    let link = folder.join("link");
    std::os::unix::fs::symlink(image, &link).unwrap();
    for output in [&file, &drive, image, link.to_str().unwrap()] {
        for option in ["--trace", "--save"] {
            let (code, line) = failure(&[&run[..], &[option, output]].concat());
            assert!(code == 2 && line.contains("which this run reads"), "{line}");
        }
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), SMALL);
    assert_eq!(std::fs::read_to_string(&drive).unwrap(), sheet);
    assert!(std::fs::read(image).unwrap() == before);
    // Others are kept, unless their loss is asked for.
    let kept = written(&folder, "kept", "mine");
    for option in ["--trace", "--save"] {
        let (code, line) = failure(&["lab", "run", &file, option, &kept]);
        assert!(code == 1 && line.ends_with("exists already"), "{line}");
        let (code, line) = failure(&["lab", "run", &file, option, "/not/there/out"]);
        assert!(code == 1 && line.contains("there is no folder"), "{line}");
    }
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "mine");
    let (code, _) =
        failure(&["lab", "run", &file, "--save", &kept, "--trace", &kept, "--overwrite"]);
    assert_eq!(code, 2);
    told(&["lab", "run", &file, "--trace", &kept, "--overwrite"]);
    assert_ne!(std::fs::read_to_string(&kept).unwrap(), "mine");
}

#[test]
fn traces_are_written_and_read_back() {
    let folder = Scratch::new("extant-lab-trace");
    let (file, trace) = (written(&folder, "small.toml", SMALL), folder.join("trace"));
    let trace = trace.to_str().unwrap();
    let mut counts = Vec::new();
    for format in ["disksim", "blktrace"] {
        told(&["lab", "run", &file, "--trace", trace, "--trace-format", format, "--overwrite"]);
        let words =
            ["lab", "replay", "--drive", "ide-2001-7200", "--trace", trace, "--format", format];
        let times = told(&words);
        assert_eq!(times, told(&words));
        assert!(times.lines().all(|line| line.parse::<f64>().unwrap() > 0.0), "{times}");
        counts.push(times.lines().count());
    }
    // Flushes have no place in DiskSim's format.
    assert!(counts[0] > 20 && counts[1] >= counts[0], "{counts:?}");
    for format in ["fio-iolog", "fio-iolog-3"] {
        told(&["lab", "run", &file, "--trace", trace, "--trace-format", format, "--overwrite"]);
        assert!(std::fs::read_to_string(trace).unwrap().starts_with("fio version "));
    }
    told(&["lab", "run", &file, "--trace", trace, "--trace-format", "json", "--overwrite"]);
    let records = std::fs::read_to_string(trace).unwrap();
    let first: serde_json::Value = serde_json::from_str(records.lines().next().unwrap()).unwrap();
    assert!(first["queue_depth"].is_u64() && first["parts"]["seek"].is_u64(), "{first}");
}

#[test]
fn measured_drives_are_replayed_within_the_bounds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/drives");
    if !folder.is_dir() {
        return skip_known(Known::Collections, "no measured drives: replay is not compared");
    }
    for drive in ["atlas10k", "barracuda", "cheetah9LP", "dec_rz26", "hp_c2247a", "ibm18es"] {
        let path =
            |ending: &str| folder.join(format!("{drive}.{ending}")).to_str().unwrap().to_owned();
        let (file, trace) = (path("toml"), path("trace"));
        let facts = folder.join(format!("facts/{drive}.toml")).to_str().unwrap().to_owned();
        let words = ["lab", "replay", "--drive", &file, "--trace", &trace, "--facts", &facts];
        let times: Vec<f64> = told(&words).lines().map(|line| line.parse().unwrap()).collect();
        let measured = std::fs::read_to_string(&trace).unwrap();
        let measured: Vec<f64> = measured
            .lines()
            .map(|line| line.split_whitespace().nth(4).unwrap().parse::<f64>().unwrap() / 1000.0)
            .collect();
        assert_eq!(times.len(), measured.len());
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let error = mean(&times) / mean(&measured) - 1.0;
        assert!(error.abs() <= 0.03, "{drive}: the mean is off by {:.1} %", error * 100.0);
    }
}

#[test]
fn a_request_past_the_end_is_moved_and_a_damaged_trace_is_refused() {
    let folder = Scratch::new("extant-lab-past");
    let past = written(
        &folder,
        "past.trace",
        "R Miss 999999999999 8 1000.0 10.0\nW Miss 0 8 1000.0 10.0\n",
    );
    let output = extant(&["lab", "replay", "--drive", "ide-2001-7200", "--trace", &past]);
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 2);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("past.trace: requests beyond the drive's end: moved to end there: 1\n"));
    let bad = written(&folder, "bad.trace", "R Miss 0 8 1000.0 10.0\nR Miss 0 many 1000.0 10.0\n");
    let (code, line) = failure(&["lab", "replay", "--drive", "ide-2001-7200", "--trace", &bad]);
    assert_eq!(code, 1);
    assert!(line.contains("bad.trace:2: sectors: "), "{line}");
    let (code, line) = failure(&[
        "lab",
        "replay",
        "--drive",
        "ide-2001-7200",
        "--trace",
        &bad,
        "--format",
        "disksim",
    ]);
    assert!(code == 1 && line.contains("bad.trace:1: "), "{line}");
}

/// What is wrong with a scenario: what is changed in [`SMALL`], and what the line says after the
/// file's name.
const WRONG: [(&str, &str, &str); 12] = [
    ("count = 200", "count = 200.5", ":18: process.steps.count: has to be a whole number"),
    ("seed = 7", "seed = 7e-1", ":2: seed: has to be a whole number"),
    (
        "at = \"/\", measure",
        "at = \"/\", colour = 1, measure",
        ":20: process.steps.colour: no such key; there are at, chunk, cold, for,",
    ),
    ("ide-2001-7200", "ide-1901", ":7: drive.model: "),
    ("\"linux-2.4\"", "\"linux-2.5\"", ":13: filesystem.preset: unknown preset \"linux-2.5\""),
    (
        "\"linux-2.4\"",
        "\"linux-2.4,colour=red\"",
        ":13: filesystem.preset: unknown column \"colour\"",
    ),
    ("read-all", "read-none", ":20: process.steps.step: unknown step \"read-none\""),
    ("64M", "64T", ":11: filesystem.size: "),
    ("count = 200", "count = 2_000_000", ":18: create-files: "),
    ("at = \"/\"", "att = \"/\"", ":20: process.steps.att: no such key; at is missing"),
    ("seed = 7", "seed = \"7\"", ":2: seed: has to be a number"),
    ("[[process]]", "[[process", ":15:"),
];

#[test]
fn what_is_wrong_with_a_file_is_one_line_with_its_place() {
    let folder = Scratch::new("extant-lab-wrong");
    for (right, wrong, said) in WRONG {
        let file = written(&folder, "wrong.toml", &SMALL.replacen(right, wrong, 1));
        let (code, line) = failure(&["lab", "run", &file]);
        assert_eq!(code, 1, "{line}");
        assert!(line.starts_with(&format!("extant: lab: {file}{said}")), "{wrong}: {line}");
    }
    let sheet = told(&["lab", "show", "ide-2001-7200"]);
    let impossible = [
        ("heads = 4", "heads = 0", "heads: "),
        ("avg = 8.9", "avg = 88.9", "seek.avg: "),
        ("rpm", "rmp", "rmp: no such key; rpm is missing"),
        ("heads = 4", "heads = 4.7", "heads: has to be a whole number"),
    ];
    for (right, wrong, said) in impossible {
        let drive = written(&folder, "wrong-drive.toml", &sheet.replacen(right, wrong, 1));
        let (code, line) = failure(&["lab", "run", "read-cold", "--drive", &drive]);
        assert_eq!(code, 1, "{line}");
        assert!(line.contains("wrong-drive.toml:") && line.contains(said), "{line}");
    }
}

/// A device that says it has no bytes, and never ends.
#[test]
fn what_has_no_end_is_refused_at_its_limit() {
    let folder = Scratch::new("extant-lab-endless");
    let out = folder.join("out.capsule").display().to_string();
    let commands = [
        &["lab", "run", "/dev/zero"][..],
        &["lab", "age", "/dev/zero"],
        &["lab", "run", "read-cold", "--drive", "/dev/zero"],
        &["lab", "capsule", "/dev/zero", "--to", &out],
    ];
    for words in commands {
        let (code, line) = failure(words);
        assert_eq!(code, 1, "{line}");
        assert!(
            line.contains("/dev/zero: has more than") || line.contains("is too long"),
            "{line}"
        );
    }
    let (code, line) = failure(&["lab", "capsule", "verify", "/dev/zero"]);
    assert!(code == 1 && line.contains("/dev/zero: is longer than"), "{line}");
}

#[test]
fn unknown_names_on_the_command_line_are_wrong_usage() {
    let wrong: [&[&str]; 7] = [
        &["lab", "run", "nothing"],
        &["lab", "run", "read-cold", "--drive", "nothing"],
        &["lab", "run", "read-cold", "--preset", "linux-9"],
        &["lab", "run", "read-cold", "--preset", "modern,placement=nowhere"],
        &["lab", "run", "read-cold", "--preset", "colour=red"],
        &["lab", "replay", "--drive", "nothing", "--trace", "/dev/null"],
        &["lab", "posts", "17"],
    ];
    for words in wrong {
        let (code, line) = failure(words);
        assert_eq!(code, 2, "{line}");
        assert!(line.starts_with("extant: lab: "), "{line}");
    }
    assert_eq!(failure(&["lab", "run", "drive-patterns", "--save", "left.img"]).0, 2);
    for image in ["/not/there.img", "/dev/null"] {
        let (code, line) = failure(&["lab", "run", "read-cold", "--image", image]);
        assert!(code == 1 && line.contains(image), "{line}");
    }
    let (code, line) = failure(&["lab", "run", "./not-there.toml"]);
    assert!(code == 1 && line.starts_with("extant: lab: ./not-there.toml: "), "{line}");
}

#[test]
fn posts_show_their_rows_and_the_modern_column() {
    let output = extant(&["lab", "posts", "3", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["schema"], &report["scale"]),
        (&"extant-lab-posts/1".into(), &"quick".into())
    );
    let tables = report["posts"][0]["tables"].as_array().unwrap();
    let rows: Vec<_> = tables.iter().flat_map(|table| table["rows"].as_array().unwrap()).collect();
    assert!(!rows.is_empty());
    let missed = rows.iter().any(|row| row["verdict"] == "misses");
    assert_eq!(output.status.code(), Some(i32::from(missed)));
    let (code, line) = failure(&["lab", "posts", "3", "--only", "nothing"]);
    assert!(code == 2 && line.contains("--only nothing: no such column"), "{line}");
}

#[test]
fn posts_fit_one_screen_and_detail_has_every_row() {
    let screen = String::from_utf8(post_3().stdout.clone()).unwrap();
    assert!(screen.lines().count() <= 12, "{screen}");
    for words in
        ["Post 3 (2007, hashed): a cold directory", "74.7 ms", "outside", "modern: best in"]
    {
        assert!(screen.contains(words), "{words}: {screen}");
    }
    let detail = told(&["lab", "posts", "3", "--detail"]);
    assert!(detail.lines().count() > 60, "{detail}");
    for words in
        ["call 1: entries", "sata-2006-250 (not validated)", "processor 2007", "ours: at most"]
    {
        assert!(detail.contains(words), "{words}: {detail}");
    }
}

#[test]
fn quiet_reports_say_nothing_and_leave_what_was_asked_for() {
    let folder = Scratch::new("extant-lab-quiet");
    let file = written(&folder, "small.toml", SMALL);
    let rows = folder.join("rows.csv");
    let rows = rows.to_str().unwrap();
    let quiet = [
        &["lab", "run", &file, "--quiet", "--csv", rows][..],
        &["lab", "run", &file, "--quiet", "--seeds", "2"],
        &["lab", "age", "mail", "--size", "64M", "--months", "1", "--layout-only", "-q"],
        &["lab", "posts", "3", "--only", "modern", "--quiet", "--detail"],
    ];
    for words in quiet {
        let output = extant(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        let said = (output.stdout.len(), output.stderr.len());
        assert_eq!(said, (0, 0), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    }
    assert!(std::fs::read_to_string(rows).unwrap().lines().count() > 3);
    // JSON is what was asked for.
    assert!(!told(&["lab", "run", &file, "--quiet", "--json"]).is_empty());
}

#[test]
fn several_seeds_give_medians_ranges_and_orders_that_hang_on_one() {
    let folder = Scratch::new("extant-lab-seeds");
    // Two random reads of one object each: which is slower is chance.
    let text = r#"
name = "two"
line = "two reads"
seed = 3
[[drive]]
name = "store"
model = "object-store"
[[process]]
name = "reader"
drive = "store"
steps = [
    { step = "random", direction = "read", chunk = "4K", count = 3, measure = "first" },
    { step = "random", direction = "read", chunk = "4K", count = 3, measure = "second" },
]
"#;
    let file = written(&folder, "two.toml", text);
    let (csv, jsonl) = (folder.join("rows.csv"), folder.join("rows.jsonl"));
    let (csv, jsonl) = (csv.to_str().unwrap(), jsonl.to_str().unwrap());
    let text = told(&["lab", "run", &file, "--seeds", "8", "--csv", csv, "--jsonl", jsonl]);
    assert!(text.starts_with("two, on object-store (not validated): seeds 3, 4, "), "{text}");
    assert!(text.contains("warning: order by seed: measure: "), "{text}");
    let document = json(&["lab", "run", &file, "--seeds", "8", "--json"]);
    assert_eq!(document["schema"], "extant-lab-seeds/1");
    assert_eq!(document["seeds"].as_array().unwrap().len(), 8);
    let row = &document["rows"][0];
    let number = |key: &str| row[key].as_i64().unwrap();
    assert!(number("least_millionths") < number("median_millionths"), "{row}");
    assert!(number("median_millionths") < number("most_millionths"), "{row}");
    // The median is a value that one of the seeds gives by itself.
    let values = row["values_millionths"].as_array().unwrap();
    let alone = json(&["lab", "run", &file, "--seed", "5", "--json"]);
    let alone = alone["measures"][0]["elapsed_ns"].as_i64().unwrap() / 1000;
    assert_eq!(values[2].as_i64(), Some(alone));
    assert!(values.iter().any(|value| value == &row["median_millionths"]));
    let reversed = document["reversed"].as_array().unwrap();
    assert_eq!(reversed.len(), 1, "{document}");
    let count = reversed[0]["seeds"].as_array().unwrap().len();
    assert!((1..=4).contains(&count), "{document}");
    let csv = std::fs::read_to_string(csv).unwrap();
    let head = "what,drive,seeds,kind,name,unit,median_millionths,least_millionths,\
        most_millionths,reversed_by_seed";
    assert_eq!(csv.lines().next(), Some(head));
    assert!(csv.lines().nth(1).is_some_and(|line| line.ends_with(",second")), "{csv}");
    assert_eq!(std::fs::read_to_string(jsonl).unwrap().lines().count(), csv.lines().count() - 1);
    let refused = extant(&["lab", "run", &file, "--seeds", "2", "--trace", "t"]);
    assert_eq!(refused.status.code(), Some(2), "one trace is of one seed");
    let aged = ["lab", "age", "mail", "--size", "64M", "--months", "1", "--layout-only"];
    let document = json(&[&aged[..], &["--seeds", "2", "--json"]].concat());
    assert_eq!(document["schema"], "extant-lab-seeds/1");
    assert!(document["rows"].as_array().unwrap().iter().any(|row| row["kind"] == "layout score"));
}

#[test]
fn drives_that_nothing_was_measured_on_say_so() {
    let lists = json(&["lab", "list", "--json"]);
    let drives = lists["drives"].as_array().unwrap();
    let unmeasured: Vec<_> = drives.iter().filter(|drive| drive["measured"].is_null()).collect();
    assert!(!unmeasured.is_empty());
    for drive in unmeasured {
        let line = drive["line"].as_str().unwrap();
        assert!(line.ends_with("; not validated"), "{line}");
    }
    let folder = Scratch::new("extant-lab-validated");
    let file = written(&folder, "small.toml", SMALL);
    let report = json(&["lab", "run", &file, "--drive", "ssd-sata", "--json"]);
    assert_eq!(report["drives"][0]["validation"], "not validated");
    assert!(told(&["lab", "run", &file, "--drive", "ssd-sata"]).contains("(not validated)"));
    // Of somebody's own file we know nothing.
    let own = told(&["lab", "show", "ssd-sata"]).replace("\"ssd-sata\"", "\"mine\"");
    let own = written(&folder, "mine.toml", &own);
    let report = json(&["lab", "run", &file, "--drive", &own, "--json"]);
    assert_eq!(report["drives"][0]["validation"], serde_json::Value::Null);
}

#[test]
fn all_systems_can_be_charged_for_one_processor() {
    let folder = Scratch::new("extant-lab-processor");
    // What is read again comes from memory, and takes the processor's time alone.
    let read = r#"{ step = "read-all", at = "/", measure = "read" },"#;
    let text = SMALL.replace(read, &format!("{read}{}", read.replace("\"read\"", "\"again\"")));
    assert_ne!(text, SMALL);
    let file = written(&folder, "small.toml", &text);
    let again = |preset: &str, more: &[&str]| {
        let words = ["lab", "run", &file, "--preset", preset, "--json"];
        let report = json(&[&words[..], more].concat());
        let rows = report["measures"].as_array().unwrap();
        let row = rows.iter().find(|row| row["measure"] == "again").unwrap();
        row["elapsed_ns"].as_u64().unwrap()
    };
    let (old, modern) = (again("linux-2.4", &[]), again("modern", &[]));
    assert_eq!(old, again("linux-2.4", &["--processor", "2001"]), "its own");
    assert_eq!(modern, again("modern", &["--processor", "today"]), "its own");
    // Each is charged for its time, until all are charged for one.
    let charged = again("modern", &["--processor", "2001"]);
    assert!(charged > 4 * modern, "{charged} for {modern}");
    assert!(charged.abs_diff(old) * 10 < old, "{charged} and {old}");
    assert!(again("linux-2.4", &["--processor", "none"]) < modern);
    let refused = extant(&["lab", "run", &file, "--processor", "2002"]);
    let line = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{line}");
    assert!(line.contains("there are 2001, 2007, today, none"), "{line}");
}

#[test]
fn a_time_without_a_unit_is_told_so() {
    let folder = Scratch::new("extant-lab-unit");
    for (written_as, said) in [("30", "30"), ("\"30\"", "30"), ("2.5", "2.5")] {
        let text = SMALL
            .replace("steps = [", &format!("steps = [ {{ step = \"wait\", for = {written_as} }},"));
        assert_ne!(text, SMALL);
        let file = written(&folder, "bare.toml", &text);
        let (code, line) = failure(&["lab", "run", &file]);
        let wanted = format!("\"{said}\" has no unit: a time is such as \"{said}s\"");
        assert!(code == 1 && line.contains(&wanted), "{line}");
    }
}

#[test]
fn the_time_of_a_fit_bounds_all_of_it() {
    let folder = Scratch::new("extant-lab-fit-time");
    // Of the page cache: what it is like does not matter, how long that takes does.
    let file = written(&folder, "file", &"x".repeat(64 << 20));
    let clock = RealClock::new();
    let begun = clock.now();
    let found = json(&["lab", "fit", &file, "--buffered", "--time", "6", "--json"]);
    let took = clock.now() - begun;
    // The candidate that is being played is played to its end, and so is the held-out phase: on a
    // machine that has more to do both take their time.
    assert!(took < 60_000_000_000, "{took} ns");
    assert_eq!(found["cut_short"], true, "{found}");
    let text = found["drive_file"].as_str().unwrap();
    assert!(text.contains("kind = "), "{text}");
}

#[test]
fn what_cannot_be_probed_is_refused_in_one_line() {
    let folder = Scratch::on_disk("lab-fit");
    let small = written(&folder, "small", &"x".repeat(1 << 20));
    let empty = written(&folder, "empty", "");
    let holes = folder.join("holes");
    std::fs::File::create(&holes).unwrap().set_len(1 << 30).unwrap();
    let here = folder.path().to_str().unwrap().to_owned();
    let wrong = [
        ("/not/there", "No such file"),
        ("/dev/null", "is a character device"),
        (here.as_str(), "is a folder"),
        (empty.as_str(), "is empty"),
        (holes.to_str().unwrap(), "has holes"),
    ];
    for (device, said) in wrong {
        let (code, line) = failure(&["lab", "fit", device]);
        assert!(code == 1 && line.contains(said) && line.contains(device), "{line}");
    }
    let (code, line) = failure(&["lab", "fit", &small, "--buffered"]);
    assert!(code == 1 && line.contains("to be probed it needs 16777216 at least"), "{line}");
    let (code, line) = failure(&["lab", "fit", &small, "--buffered", "--write", &small]);
    assert!(code == 1 && line.contains("has content"), "{line}");
    assert_eq!(std::fs::metadata(&small).unwrap().len(), 1 << 20, "and it keeps its content");
    assert_eq!(extant(&["lab", "fit", &small, "--time", "0"]).status.code(), Some(2));
}

#[test]
fn a_file_in_memory_is_no_device() {
    let shared = Path::new("/dev/shm");
    if !shared.is_dir() {
        return skip("no /dev/shm");
    }
    let folder = Scratch::inside(shared, "lab-fit");
    let file = written(&folder, "file", &"x".repeat(32 << 20));
    let (code, line) = failure(&["lab", "fit", &file]);
    assert!(code == 1 && line.contains("the page cache would answer, not a device"), "{line}");
}
