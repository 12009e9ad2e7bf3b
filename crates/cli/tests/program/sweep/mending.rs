//! Repair and heal as jobs: what is read is never changed, and what is written is the same each
//! time.
use super::fixture::{Folder, counts};
use extant_testkit::command::{self, program};
use extant_testkit::oracle::{e2fsck, require};
use serde_json::Value;
use std::process::Output;

const EPOCH: &str = "1700000000";

const MATRIX: &str = r#"
[[jobs]]
kind = "repair"
outputs = ["image"]
over = { image = { files = "*.image" }, all = [true, false] }

[[jobs]]
kind = "heal"
target = "{image}.healed"
over = { image = { files = "*.image" } }
"#;

/// `a.image` is damaged, what mends it costs a name; `b.image` is clean; `c.image` waits for a
/// replay.
fn folder(name: &str) -> Option<Folder> {
    if !require("debugfs") || !require("e2fsck") {
        return None;
    }
    let folder = Folder::new(name);
    std::fs::copy(folder.path().join("b.image"), folder.path().join("c.image")).unwrap();
    folder.write("commands", "jo\njw -b 2000 /dev/zero\njc\n");
    for (image, words) in [
        ("a.image", ["-R", "clri /sub/file"]),
        ("a.image", ["-R", "sif /sub links_count 9"]),
        ("c.image", ["-f", "commands"]),
    ] {
        let mut debugfs = program("debugfs");
        debugfs.arg("-w").args(words).arg(image).current_dir(folder.path());
        command::output(&mut debugfs).unwrap();
    }
    Some(folder)
}

fn images(folder: &Folder) -> Vec<Vec<u8>> {
    let read = |name| std::fs::read(folder.path().join(name)).unwrap();
    ["a.image", "b.image", "c.image"].map(read).to_vec()
}

/// The command at the time that images get.
fn dated(folder: &Folder, words: &[&str]) -> Output {
    folder.command(words).env("SOURCE_DATE_EPOCH", EPOCH).output().unwrap()
}

/// The report of a run.
fn run(folder: &Folder, words: &[&str]) -> Value {
    let output = dated(folder, &[&["sweep", "run", "--json"], words].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"))
}

/// The results of a directory.
fn results(folder: &Folder, directory: &str) -> Vec<Value> {
    let files = folder.files(directory).into_iter();
    let results = files.filter(|(name, _)| name.starts_with("results/"));
    results.map(|(_, bytes)| serde_json::from_slice(&bytes).unwrap()).collect()
}

#[test]
fn a_repair_that_nobody_asks_an_image_of_only_says_what_it_would_do() {
    let Some(folder) = folder("sweep-dry") else { return };
    let before = images(&folder);
    let over = "over = { image = { files = \"*.image\" }, all = [true, false] }";
    folder.plan(&format!("[[jobs]]\nkind = \"repair\"\n{over}\n"), "jobs");
    let (code, report) = folder.run(&["jobs", "d"]);
    assert_eq!((code, counts(&report)), (0, [6, 6, 0, 0]), "{report}");
    assert!(images(&folder) == before);
    assert!(folder.files("d").keys().all(|name| name.starts_with("results/")));
    let mut exits = Vec::new();
    for result in results(&folder, "d") {
        let words: Vec<&str> =
            result["words"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        let output = folder.output(&[&words[..], &["--json", "--dry-run"]].concat());
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&result["document"], &printed["dry_run"]), (&printed, &true.into()));
        assert_eq!(result["outputs"], serde_json::json!([]));
        let (image, all) = (&result["parameters"]["image"], &result["parameters"]["all"]);
        let lost = printed["changes"].as_array().unwrap().iter().any(|one| !one["loss"].is_null());
        assert_eq!(lost, *image == "a.image" && *all == true, "{result}");
        exits.push((image.to_string(), all.to_string(), result["exit"].as_u64().unwrap()));
    }
    exits.sort();
    let found: Vec<u64> = exits.iter().map(|(_, _, exit)| *exit).collect();
    assert_eq!(found, [4, 1, 0, 0, 0, 0], "{exits:?}");
}

#[test]
fn what_is_mended_is_a_copy_with_the_same_bytes_each_time() {
    let Some(folder) = folder("sweep-mended") else { return };
    let before = images(&folder);
    folder.write("matrix.toml", MATRIX);
    // The time of a run would be in the image.
    let (code, said) = folder.failure(&["sweep", "plan", "matrix.toml"]);
    let reason = "matrix.toml:2: repair: the image would have the time of the run in it";
    assert!(code == 1 && said.starts_with(&format!("extant: sweep: {reason}\n")), "{said}");
    assert!(said.contains("hint: SOURCE_DATE_EPOCH=SECONDS"), "{said}");
    let planned = dated(&folder, &["sweep", "plan", "matrix.toml"]);
    std::fs::write(folder.path().join("jobs"), planned.stdout).unwrap();
    let (_, report) = folder.run(&["jobs", "undated"]);
    let reason = report["failures"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("SOURCE_DATE_EPOCH was "), "{reason}");
    for (directory, workers) in [("d", "1"), ("e", "3")] {
        let report = run(&folder, &["jobs", directory, "-j", workers]);
        assert_eq!(counts(&report), [9, 9, 0, 0], "{report}");
    }
    assert_eq!(counts(&run(&folder, &["jobs", "d"])), [9, 0, 9, 0]);
    assert!(images(&folder) == before, "what a job reads stays as it is");
    let files = folder.files("d");
    assert!(files == folder.files("e"), "the same bytes wherever and whenever it runs");
    // Nine results, six images, and nothing beside them; three images have names of their own.
    assert_eq!(files.len(), 9 + 6, "{:?}", files.keys());
    for result in results(&folder, "d") {
        let output = &result["outputs"][0];
        let path = output["path"].as_str().unwrap();
        let shown = match (result["kind"].as_str().unwrap(), &result["document"]) {
            ("heal", document) => &document["images"][0]["image"],
            (_, document) => &document["image"],
        };
        assert_eq!(shown, path, "{result}");
        let path = match output["is_target"] == true {
            true => folder.path().join(path),
            false => folder.path().join("d").join(path),
        };
        let (is_a, kind) = (shown_of(&result) == "a.image", &result["kind"]);
        let is_left = is_a && result["parameters"]["all"] == false;
        assert_eq!(is_left, result["exit"] == 4, "{result}");
        // What is in the superblock is all that heal looks at.
        assert_eq!(e2fsck(&path).is_err(), is_left || (is_a && kind == "heal"), "{result}");
    }
    let healed = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    // Its superblock says nothing of the damage; the log of the other is replayed.
    assert!(healed("a.healed") == before[0] && healed("b.healed") == before[1]);
    assert!(healed("c.healed") != before[2]);
    let others = std::fs::read_dir(folder.path()).unwrap().flatten();
    let hidden = others.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0);
}

/// The image that a job reads.
fn shown_of(result: &Value) -> &str {
    result["parameters"]["image"].as_str().unwrap()
}

#[test]
fn what_a_job_cannot_mend_is_one_line() {
    let Some(folder) = folder("sweep-unmended") else { return };
    let plan = |kind: &str, over: &str| {
        folder.write("m.toml", &format!("[[jobs]]\nkind = \"{kind}\"\nover = {{ {over} }}\n"));
        let output = dated(&folder, &["sweep", "plan", "m.toml"]);
        assert!(output.stdout.is_empty(), "{over}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (kind, over, said) in [
        ("repair", "image = \"a.image\", dry-run = true", "dry-run: is not for jobs"),
        ("repair", "image = \"a.image\", no-undo = true", "no-undo: is not for jobs"),
        ("repair", "image = \"a.image\", log = \"x\"", "log: is not for jobs"),
        ("heal", "image = \"a.image\", undo = true", "undo: is not for jobs"),
        ("heal", "image = \"a.image\", journal = \"x\"", "journal: is not for jobs"),
        ("heal", "image = [[\"a.image\", \"b.image\"]]", "image: a job of heal has one"),
        ("repair", "image = \"a.image\", all = true, preen = true", "cannot be used with"),
    ] {
        let line = plan(kind, over);
        assert!(line.starts_with("extant: sweep: m.toml:") && line.contains(said), "{line}");
    }
    folder.write("b.image", "no image");
    // What a change that was cut has left of an image is none.
    folder.write(".c.image.extant-redo", "cut");
    folder
        .write("matrix.toml", "[[jobs]]\nkind = \"heal\"\nover.image = { files = \"*.image\" }\n");
    let planned = dated(&folder, &["sweep", "plan", "matrix.toml"]);
    std::fs::write(folder.path().join("jobs"), planned.stdout).unwrap();
    let report = run(&folder, &["jobs", "d", "--retries", "0"]);
    assert_eq!(counts(&report), [3, 1, 0, 2], "{report}");
    let failures = report["failures"].as_array().unwrap();
    let mut reasons: Vec<&str> =
        failures.iter().map(|failure| failure["reason"].as_str().unwrap()).collect();
    reasons.sort_unstable();
    assert!(reasons[0].starts_with("b.image: "), "{reasons:?}");
    assert!(reasons[1].starts_with("c.image: a change of it was cut"), "{reasons:?}");
    let left = folder.files("d").into_keys().filter(|name| name.starts_with("out/"));
    assert_eq!(left.count(), 1);
}
