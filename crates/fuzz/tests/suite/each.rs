//! Some hundred inputs of each body: none panics, or takes too long or too much memory.
use extant_fuzz::memory;
use extant_fuzz::rounds::{Limits, Note, Plan, run};
use extant_fuzz::targets::TARGETS;
use extant_testkit::variables;

#[test]
fn no_input_hurts() {
    memory::count_by(&crate::ALLOCATOR);
    let rounds = variables::number("EXTANT_FUZZ");
    let seed = variables::seed("EXTANT_FUZZ_SEED", 0);
    let mut wrong = Vec::new();
    for target in TARGETS {
        let rounds = (rounds / target.share()).max(1);
        let plan = Plan { seed, rounds, seconds: None, limits: Limits::USUAL };
        match run(target, &plan, Note::NONE) {
            Ok(done) => assert_eq!(done, rounds, "{}", target.name),
            Err(failure) => wrong.push(failure.to_string()),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_body_is_a_target_of_libfuzzer_too() {
    let manifest = extant_testkit::repository().join("fuzz/Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).expect("the manifest of fuzz");
    let names = manifest.split("[[bin]]\nname = \"").skip(1);
    let names: Vec<&str> = names.filter_map(|rest| rest.split('"').next()).collect();
    let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, known);
}
