//! Matrices: counts, orders, and each mistake with its line.
use crate::fixture::{planned, planned_within};
use extant_sweep::job::Job;
use extant_testkit::scratch::Scratch;
use std::collections::BTreeSet;

/// The first sentence of an issue: 3 layouts, 11 drives, 4 presets, 5 seeds.
const ISSUE: &str = r#"
[[jobs]]
kind = "lab run"
[jobs.over]
scenario = ["a", "b", "c"]
drive = ["d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9", "d10", "d11"]
preset = ["p1", "p2", "p3", "p4"]
seed = { from = 1, to = 5 }
"#;

fn refused(text: &str) -> String {
    let error = planned(text).map(|(jobs, _)| jobs.len()).expect_err(text);
    format!("{error}")
}

fn words(jobs: &[Job]) -> Vec<String> {
    jobs.iter().map(|job| job.words.join(" ")).collect()
}

#[test]
fn the_matrix_of_the_issue_has_660_jobs_in_the_order_of_its_text() {
    let (jobs, planned) = planned(ISSUE).unwrap();
    assert_eq!((jobs.len(), planned.jobs, planned.repeated), (3 * 11 * 4 * 5, 660, 0));
    let ids: BTreeSet<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(ids.len(), 660);
    let words = words(&jobs);
    assert_eq!(words[0], "lab run --drive=d1 --preset=p1 --seed=1 a");
    assert_eq!(words[1], "lab run --drive=d1 --preset=p1 --seed=2 a");
    assert_eq!(words[5], "lab run --drive=d1 --preset=p2 --seed=1 a");
    assert_eq!(words[659], "lab run --drive=d11 --preset=p4 --seed=5 c");
    // The same text gives the same lines.
    let again = crate::fixture::planned(ISSUE).unwrap().0;
    assert_eq!(again, jobs);
}

#[test]
fn zips_go_together_and_filters_leave_out() {
    let text = r#"
limits = { memory = "1G" }
[[jobs]]
kind = ["lab run", "lab age"]
with = { drive = "d" }
zip = [{ seed = [1, 2, 3], scale = { from = 10, to = 30, step = 10 } }]
except = [{ kind = "lab age", seed = [2, 3] }]
limits = { seconds = 9 }
[[jobs]]
kind = "lab run"
over = { scenario = ["x", "y"], column = { placement = ["orlov", "parent"], growth = "g" } }
only = [{ scenario = "x" }, { "column.placement" = "parent" }]
"#;
    let (jobs, planned) = planned(text).unwrap();
    assert_eq!((planned.jobs, planned.left_out), (4 + 3, 2 + 1));
    assert_eq!(
        words(&jobs),
        [
            "lab run --drive=d --scale=10 --seed=1",
            "lab run --drive=d --scale=20 --seed=2",
            "lab run --drive=d --scale=30 --seed=3",
            "lab age --drive=d --scale=10 --seed=1",
            "lab run --preset=growth=g,placement=orlov x",
            "lab run --preset=growth=g,placement=parent x",
            "lab run --preset=growth=g,placement=parent y",
        ]
    );
    let limits = |job: &Job| (job.limits.memory_bytes, job.limits.seconds);
    assert_eq!(limits(&jobs[0]), (Some(1 << 30), Some(9)));
    assert_eq!(limits(&jobs[6]), (Some(1 << 30), None));
}

#[test]
fn files_are_found_read_and_named_by_content() {
    let folder = Scratch::new("plans-files");
    for (name, content) in [("b.img", "2"), ("a.img", "1"), ("c.txt", "3"), (".d.img", "4")] {
        std::fs::write(folder.join(name), content).unwrap();
    }
    let here = folder.path().display();
    let text = format!(
        "[[jobs]]\nkind = \"check\"\nover = {{ image = {{ files = \"{here}/*.img\" }} }}\n"
    );
    let (jobs, _) = planned(&text).unwrap();
    assert_eq!(words(&jobs), [format!("check {here}/a.img"), format!("check {here}/b.img")]);
    let digest = |job: &Job| job.inputs[0].sha256.clone();
    assert_eq!(digest(&jobs[0])[..8], *"6b86b273");
    std::fs::write(folder.join("a.img"), "9").unwrap();
    let (changed, _) = planned(&text).unwrap();
    assert_ne!(changed[0].id, jobs[0].id);
    assert_eq!(changed[1].id, jobs[1].id);
    let list = folder.join("list");
    std::fs::write(&list, format!("{here}/b.img\n\n{here}/a.img\n")).unwrap();
    let lines = format!(
        "[[jobs]]\nkind = \"check\"\nover = {{ image = {{ lines = \"{}\" }} }}\n",
        list.display()
    );
    assert_eq!(planned(&lines).unwrap().0[1].id, changed[0].id);
    let none = text.replace("*.img", "*.raw");
    assert!(refused(&none).ends_with("*.raw: no file fits"), "{}", refused(&none));
    // A file that a scenario, or any other word, refers to counts too.
    let scenario = folder.join("s.toml");
    std::fs::write(&scenario, "image = \"b.img\"\n").unwrap();
    let text = format!(
        "[[jobs]]\nkind = \"lab run\"\n\
         over = {{ scenario = \"{}\", exclude = \"x={here}/c.txt\" }}\n",
        scenario.display()
    );
    let inputs = |text: &str| -> Vec<String> {
        let job = planned(text).unwrap().0.remove(0);
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        job.inputs.iter().map(|input| name(&input.path)).collect()
    };
    assert_eq!(inputs(&text), ["b.img", "c.txt", "s.toml"]);
}

#[test]
fn targets_are_named_by_values_and_no_two_jobs_have_one() {
    let folder = Scratch::new("plans-targets");
    std::fs::write(folder.join("a.img"), "1").unwrap();
    let text = |target: &str| {
        format!(
            "[[jobs]]\nkind = \"tar\"\ntarget = \"{target}\"\nover = {{ image = \"{}\", \
             path = [\"x\", \"y\"] }}\n",
            folder.join("a.img").display()
        )
    };
    let (jobs, _) = planned(&text("t/{image}-{path}.tar")).unwrap();
    let targets: Vec<_> = jobs.iter().filter_map(|job| job.outputs[0].target.clone()).collect();
    assert_eq!(targets, ["t/a-x.tar", "t/a-y.tar"]);
    let twice = refused(&text("t/{image}.tar"));
    assert!(twice.starts_with("m.toml:1: t/a.tar: is written by tar image="), "{twice}");
    assert!(refused(&text("{none}")).contains("there is no none in this block"));
    assert!(refused(&text("{path")).contains("a } is missing"));
    let (jobs, _) = planned(&text("x").replace("target = \"x\"\n", "")).unwrap();
    assert_eq!(jobs[0].outputs[0].target, None);
}

#[test]
fn each_mistake_is_one_line_with_its_place() {
    let block = |rest: &str| format!("[[jobs]]\nkind = \"lab run\"\n{rest}\n");
    for (text, said) in [
        ("jobs = 1".to_owned(), "m.toml:1: jobs: has to be a list"),
        ("".to_owned(), "m.toml:1: there is no [[jobs]]"),
        ("[[jobs]]\nkind = \"x\"".to_owned(), "m.toml:2: x: no such kind"),
        ("[[jobs]]\nover = {}".to_owned(), "m.toml:1: kind is missing"),
        ("[[jobs]".to_owned(), "m.toml:1: unclosed array table, expected `]]`"),
        ("a = 1\n".to_owned() + &block(""), "m.toml:1: a: no such key"),
        (block("ovr = { }"), "m.toml:3: ovr: no such key"),
        (block("over = { speed = 1 }"), "m.toml:3: speed: extant lab run has no such option"),
        (
            block("over = { real = 'x' }"),
            "m.toml:3: real: is not for jobs; the run gives what they write",
        ),
        (
            block("over = { json = true }"),
            "m.toml:3: json: is not for jobs; the run gives what they write",
        ),
        (block("over = { seed = true }"), "m.toml:3: seed: takes a value, not true or false"),
        (block("over = { strict = 1 }"), "m.toml:3: strict: takes no value, only true or false"),
        (block("over = { seed = [] }"), "m.toml:3: seed: the list is empty"),
        (
            block("over = { seed = [{}] }"),
            "m.toml:3: seed: has to be a string, a number, or true or false",
        ),
        (block("over = { seed = \"a\\nb\" }"), "m.toml:3: seed: has to be one line"),
        (
            block("over = { seed = { from = 3, to = 2 } }"),
            "m.toml:3: seed: from 3 to 2 by 1 is no range",
        ),
        (block("over = { seed = { from = 3 } }"), "m.toml:3: seed: to is missing"),
        (block("over = { seed = { start = 3 } }"), "m.toml:3: start: no such key"),
        (block("over = { seed = inf }"), "m.toml:3: seed: is no number that can be given"),
        (block("over = { drive = [\n\"d\",\n\"nonsense\"] }"), "m.toml:3: nonsense: no such Drive"),
        (block("over = { exclude = \"nonsense\" }"), "m.toml:1: --exclude=nonsense means nothing"),
        (
            block("over = { exclude = [\"a\", \"nonsense\"] }"),
            "m.toml:3: --exclude=nonsense means nothing",
        ),
        (
            block("over = { column = { x = \"nonsense\" } }"),
            "m.toml:3: x=nonsense: no such Policies",
        ),
        (block("with = { seed = [1, 2] }"), "m.toml:3: seed: has several values"),
        (block("with = { seed = 1 }\nover = { seed = 2 }"), "m.toml:4: seed: is in line 3 already"),
        (
            block("zip = [{ seed = [1, 2], scale = [1] }]"),
            "m.toml:3: zip: scale has 1 values, and seed has 2",
        ),
        (block("zip = [{}]"), "m.toml:3: zip: the table is empty"),
        (block("except = [{ seed = 1 }]"), "m.toml:3: except: seed is no axis of this block"),
        (
            block("over = { seed = [1] }\nexcept = [{ seed = 2 }]"),
            "m.toml:4: except: 2 is no value of seed",
        ),
        (
            block("except = [{ kind = \"check\" }]"),
            "m.toml:3: except: \"check\" is no value of kind",
        ),
        (
            block("limits = { memory = \"1X\" }"),
            "m.toml:3: 1X: has to be memory such as 512M or 2G",
        ),
        (block("limits = { memory = \"1K\" }"), "m.toml:3: 1K: no job fits in less than 1M"),
        (block("limits = { seconds = 0 }"), "m.toml:3: seconds: has to be 1 at least"),
        (block("outputs = [\"image\"]"), "m.toml:1: outputs: image: lab run writes no such file"),
        (block("target = \"x\""), "m.toml:1: target: lab run does not write one file"),
    ] {
        let found = refused(&text);
        let is_same =
            found == said || (said.contains("expected") && found.starts_with("m.toml:1: "));
        assert!(is_same, "{text}\nsays  {found}\nand not {said}");
    }
}

#[test]
fn a_product_that_is_too_large_is_counted_not_planned() {
    let text = "[[jobs]]\nkind = \"lab run\"\nover = { seed = { from = 1, to = 1000000000 } }\n";
    assert_eq!(refused(text), "m.toml:1: 1000000000 combinations, the limit is 1000000");
    let huge = "[[jobs]]\nkind = \"lab run\"\n[jobs.over]\n\
        seed = { from = -9223372036854775808, to = 9223372036854775807 }\n\
        scale = { from = -9223372036854775808, to = 9223372036854775807 }\n\
        threads = { from = -9223372036854775808, to = 9223372036854775807 }\n";
    assert!(refused(huge).contains(" combinations, the limit is "), "{}", refused(huge));
    assert!(planned_within(ISSUE, 659).is_err());
    assert_eq!(planned_within(ISSUE, 660).unwrap().1.jobs, 660);
}

#[test]
fn ten_thousand_jobs_are_planned_and_a_repeated_one_counts_once() {
    let text = "[[jobs]]\nkind = \"lab run\"\n[jobs.over]\nscenario = [\"a\", \"b\", \"a\"]\n\
        drive = [\"1\", \"2\", \"3\", \"4\", \"5\"]\nseed = { from = 1, to = 1000 }\n";
    let (jobs, planned) = planned(text).unwrap();
    assert_eq!((jobs.len(), planned.jobs, planned.repeated), (10_000, 10_000, 5_000));
}
