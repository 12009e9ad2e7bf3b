//! Walks directory by directory of those at the top, with a row for each.
use super::process::{Outcome, Stop, Worker};
use super::rows::Joining;
use super::step::{Action, Order, Warmth};
use crate::report::Measure;
use extant_format::inode::FileType;
use std::path::Path;
use std::sync::Arc;

impl Worker {
    /// A walk, directory by directory of those at the top, with a row for each. Files at the top
    /// are left out.
    pub(super) fn walk_by_directory(
        &mut self,
        action: &Action,
        warmth: Warmth,
        label: &str,
    ) -> Outcome {
        let Action::Walk { at, task, order, chunk, end, .. } = action else {
            return Err(Stop::from("no walk has rows"));
        };
        let at = self.path(at);
        let world = Arc::clone(&self.world);
        for directory in self.directories_of(&at, *order)? {
            if warmth == Warmth::Cold {
                world.mounts[self.mount()?].reopen(None)?;
            }
            let (started, before) = (self.mark(), std::mem::take(&mut self.work));
            let name = directory.rsplit('/').next().unwrap_or(&directory);
            let name = format!("{}: {name}", self.path(label));
            let key = self.enter_row(&name, started, Joining::None);
            let outcome = self.walk(&directory, *task, *order, *chunk, *end);
            let ended = self.mark();
            self.leave_row(&key);
            let row = Measure {
                process: world.process(self.process).name.clone(),
                copy: Some(self.copy),
                measure: name,
                started_ns: started.ns,
                elapsed_ns: ended.ns - started.ns,
                traffic: ended.traffic.since(&started.traffic),
                work: self.work,
            };
            self.work = self.work.and(&before);
            self.rows.add(row, key, Joining::None);
            outcome?;
        }
        Ok(())
    }

    /// The directories in a directory, in this order.
    fn directories_of(&mut self, at: &str, order: Order) -> Outcome<Vec<String>> {
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        let mut names = self.names(&in_use.filesystem, Path::new(at), order)?;
        if order == Order::Inode {
            names.sort_by_key(|entry| entry.ino);
        }
        let mut found = Vec::new();
        for entry in names.iter().filter(|entry| entry.name != b"lost+found") {
            let path = Path::new(at).join(super::walk::name(entry));
            if self.file_type(&in_use.filesystem, &path, entry)? == FileType::Directory {
                let text = path.to_str().map(str::to_owned);
                let failed = || Stop::Failed(format!("{}: is no text", path.display()));
                found.push(text.ok_or_else(failed)?);
            }
        }
        Ok(found)
    }
}
