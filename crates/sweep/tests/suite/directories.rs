//! Two runs, plans that are none, results that are not whole.
use crate::fixture::kept;
use extant_sweep::collect::collect;
use extant_sweep::directory::{Directory, Part};
use extant_sweep::status::Status;
use extant_sweep::table::{Form, Lines};
use extant_testkit::scratch::Scratch;

#[test]
fn a_second_run_is_refused_and_parts_share_the_work() {
    let folder = Scratch::new("directory");
    let directory = Directory::make(&folder.join("d")).unwrap();
    let shard = |index| Part::Shard { index, of: 2 };
    let whole = directory.hold(Part::Whole).unwrap();
    assert!(whole.is_held && directory.is_at_work());
    for part in [Part::Whole, shard(0), Part::Job(3)] {
        let refused = directory.hold(part).unwrap_err().message;
        let who = format!("a run (process {} on ", std::process::id());
        assert!(refused.contains(&who) && refused.ends_with("is at work in it"), "{refused}");
    }
    drop(whole);
    let parts = [shard(0), shard(1), Part::Job(0), Part::Job(0)];
    let held: Vec<_> = parts.map(|part| directory.hold(part).unwrap()).into();
    assert!(directory.hold(shard(0)).is_err() && directory.hold(Part::Whole).is_err());
    drop(held);
    assert!(!directory.is_at_work());
    // Every job is in one shard.
    let parts: Vec<usize> = (0..10)
        .map(|line| (0..3).filter(|index| Part::Shard { index: *index, of: 3 }.has(line)).count())
        .collect();
    assert_eq!(parts, [1; 10]);
}

#[test]
fn what_is_no_directory_of_a_sweep_is_left_alone() {
    let folder = Scratch::new("directory-foreign");
    std::fs::write(folder.join("thesis.tex"), "x").unwrap();
    let refused = Directory::make(folder.path()).unwrap_err().message;
    assert!(refused.ends_with("holds thesis.tex, which no sweep has"), "{refused}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let file = Directory::make(&folder.join("thesis.tex")).unwrap_err().message;
    assert!(file.contains("thesis.tex"), "{file}");
    assert!(Directory::open(folder.path()).unwrap_err().message.ends_with("holds no sweep"));
    let none = Directory::open(&folder.join("none")).unwrap_err().message;
    assert!(none.ends_with("there is no such directory"));
}

#[test]
fn a_plan_is_kept_whole_or_refused_with_its_line() {
    let folder = Scratch::new("directory-plans");
    let directory = Directory::make(&folder.join("d")).unwrap();
    let (jobs, plan) = kept(&directory, 3);
    assert_eq!(plan.count(), 3);
    assert_eq!(plan.job(1).unwrap(), jobs[1]);
    assert!(plan.job(3).is_err());
    let line = |at: usize| jobs[at].line().unwrap();
    let refused =
        |text: String| directory.keep_plan("p", &mut text.as_bytes()).unwrap_err().message;
    let twice = format!("{}\n\n{}\n{}\n", line(0), line(1), line(0));
    assert_eq!(refused(twice), "p:3: the same job is in a line before");
    let version = line(1).replace(extant_sweep::VERSION, "0.0.9");
    let other = refused(format!("{}\n{version}\n", line(0)));
    assert!(other.starts_with("p:2: is a job of extant 0.0.9 ("), "{other}");
    let edited = line(0).replace("--seed=1", "--seed=7");
    assert!(refused(edited).starts_with("p:1: was changed after it was planned"));
    assert_eq!(refused(String::new()), "p: has no job");
    assert!(refused("x\n".into()).starts_with("p:1: is no job"));
    let long = "x".repeat(3 << 20);
    assert_eq!(refused(long), "p:1: has more than 1048576 bytes");
    assert_eq!(directory.plans().unwrap().len(), 1, "nothing is left of what was refused");
    // The same lines are the same plan.
    kept(&directory, 3);
    assert_eq!(directory.plans().unwrap().len(), 1);
}

#[test]
fn a_table_says_what_is_missing_and_refuses_what_is_torn() {
    let folder = Scratch::new("directory-collect");
    let directory = Directory::make(&folder.join("d")).unwrap();
    let (jobs, _) = kept(&directory, 3);
    let write = |at: usize, text: String| {
        let path = directory.result(&jobs[at].id);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let result = |at: usize, document: &str| {
        format!(
            "{{\"schema\":\"extant-sweep-result/1\",\"id\":\"{}\",\"exit\":0,\
             \"document\":{document}}}",
            jobs[at].id
        )
    };
    write(0, result(0, "{\"x\":1,\"seed\":7}"));
    write(2, result(2, "{\"y\":\"a,b\"}"));
    let collected = |out: &mut Vec<u8>| collect(&directory, &mut Lines::new(Form::Csv, out), "out");
    let mut out = Vec::new();
    let found = collected(&mut out).unwrap();
    assert_eq!((found.jobs, found.rows, found.missing), (3, 2, 1));
    let table = String::from_utf8(out).unwrap();
    let expected = format!(
        "job,kind,exit,scenario,seed,result.seed,x,y\n{},lab run,0,s,1,7,1,\n\
         {},lab run,0,s,3,,,\"a,b\"\n",
        jobs[0].id, jobs[2].id
    );
    assert_eq!(table, expected);
    let status = Status::of(&directory).unwrap();
    assert_eq!((status.jobs, status.done, status.failed, status.left), (3, 2, 0, 1));
    // Torn, or another job's.
    for text in [result(1, "{")[..90].to_owned(), result(0, "{}"), String::new()] {
        write(1, text);
        let refused = collected(&mut Vec::new()).unwrap_err().message;
        assert!(refused.ends_with("is no result of this job"), "{refused}");
    }
}
