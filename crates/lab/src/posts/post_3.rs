//! Linus Torvalds, 2007: readdir of a cold directory.
use super::{Post, PostReport, Scale};
use crate::scenario::ScenarioError;

/// The post.
pub const POST: Post = Post {
    number: 3,
    origin: "Linus Torvalds, 2007",
    title: "readdir of a cold directory",
    drive: "sata-2006-250",
    fitted: &[],
    run,
};

fn run(scale: Scale, progress: &mut dyn FnMut(&str)) -> Result<PostReport, ScenarioError> {
    let _ = (scale, progress);
    Ok(PostReport {
        number: POST.number,
        origin: POST.origin.to_owned(),
        title: POST.title.to_owned(),
        drive: POST.drive.to_owned(),
        fitted: Vec::new(),
        seed: 1,
        tables: Vec::new(),
        notes: Vec::new(),
        trace_hash: String::new(),
    })
}
