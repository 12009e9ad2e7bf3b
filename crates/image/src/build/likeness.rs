//! What other programs may take a finished volume for.
use super::job::Destination;
use crate::notice::{NoticeKind, Notices};
use extant_archive::is_swap_area_by;
use std::io;
use std::os::unix::fs::FileExt;

/// Notes it if a swap area of the tree has come to lie where one of the whole volume would have its
/// mark: blkid, and mount without a type, then find two things and take neither. Only volumes with
/// little metadata have data that far in front. The volume begins at byte `origin_bytes`.
///
/// # Errors
/// Those of reading the file.
pub fn note_swap_mark(
    destination: &Destination<'_>,
    origin_bytes: u64,
    notices: &mut Notices,
) -> io::Result<()> {
    let Destination { file, name, .. } = destination;
    let mut failed = Ok(());
    let has_mark = is_swap_area_by(|at, mark| {
        let read = file.read_exact_at(mark, origin_bytes.saturating_add(at));
        match read {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                failed = Err(error);
                false
            }
            read => read.is_ok(),
        }
    });
    if has_mark {
        notices.add(NoticeKind::TakenForSwap, || {
            format!("{name}: a swap area of the tree lies where blkid looks for one of the volume")
        });
    }
    failed
}
