//! Bruce Evans, 2010: ext2fs now extremely slow.
use super::{Post, PostReport, Scale};
use crate::scenario::ScenarioError;

/// The post.
pub const POST: Post = Post {
    number: 4,
    origin: "Bruce Evans, 2010",
    title: "ext2fs now extremely slow",
    drive: "ide-2001-5400",
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
