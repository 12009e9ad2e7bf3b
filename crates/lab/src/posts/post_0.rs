//! Andrew Morton, 2001: disk throughput.
use super::{Post, PostReport, Scale};
use crate::scenario::ScenarioError;

/// The post.
pub const POST: Post = Post {
    number: 0,
    origin: "Andrew Morton, 2001",
    title: "disk throughput",
    drive: "ide-2001-7200",
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
