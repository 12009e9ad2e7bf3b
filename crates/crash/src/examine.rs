//! One history, and its states: each medium is recovered once, however many cuts leave it, and
//! judged at every moment at which it may be found.
use crate::base::{Base, Setting};
use crate::found::FoundTree;
use crate::machine::Lived;
use crate::recovery::{Recovered, e2fsck, recover};
use crate::state::{Image, Manner, State};
use crate::verdict::{Bytes, judge};
use extant_block::MemoryDevice;
use extant_sim::random::{mix, splitmix64};
use rustc_hash::{FxHashMap, FxHashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Who judges, and how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judges {
    /// One of how many media that are new after their recovery e2fsck judges; 0 for none.
    pub e2fsck_one_in: u64,
    /// One of how many recoveries is cut itself; 0 for none.
    pub second_cut_one_in: u64,
    /// Which bytes a file may show.
    pub bytes: Bytes,
}

/// Media that e2fsck has judged, so that it judges none twice.
#[derive(Default)]
pub struct Judged(FxHashSet<u64>);

/// What is known of a medium.
struct Known {
    found: FoundTree,
    /// What it shows when its recovery is cut too.
    again: Option<FoundTree>,
}

/// Looks at the states of one history.
pub struct Examiner<'a> {
    base: &'a Base,
    lived: &'a Lived,
    judges: Judges,
    known: FxHashMap<u64, Result<Arc<Known>, String>>,
}

impl<'a> Examiner<'a> {
    /// Of a history that was lived on this volume.
    pub fn new(base: &'a Base, lived: &'a Lived, judges: Judges) -> Examiner<'a> {
        Examiner { base, lived, judges, known: FxHashMap::default() }
    }

    /// How many media were recovered.
    pub fn distinct(&self) -> usize {
        self.known.len()
    }

    /// Whether a state is as promised.
    ///
    /// # Errors
    /// What is wrong, in a sentence or in e2fsck's words.
    pub fn examine(&mut self, state: State, judged: &mut Judged) -> Result<(), String> {
        let cut = self.lived.log.cut(state.moment);
        let image = Image::new(&cut, state.manner);
        let hash = image.hash(&self.base.medium)?;
        let known = match self.known.get(&hash) {
            Some(known) => known.clone(),
            None => {
                let known = self.learn(&image, hash, judged).map(Arc::new);
                self.known.insert(hash, known.clone());
                known
            }
        }?;
        let (history, bytes) = (&self.lived.history, self.judges.bytes);
        judge(history, state.moment, &known.found, bytes)?;
        match &known.again {
            None => Ok(()),
            Some(again) => judge(history, state.moment, again, bytes)
                .map_err(|why| format!("recovery cut too: {why}")),
        }
    }

    fn learn(&self, image: &Image<'_>, hash: u64, judged: &mut Judged) -> Result<Known, String> {
        let setting = &self.base.setting;
        let recovered = recover_calmly(setting, image.medium(&self.base.medium)?)?;
        self.believe_e2fsck(&recovered, hash, judged)?;
        let again = match is_drawn(hash, "second cut", self.judges.second_cut_one_in) {
            true => Some(self.cut_again(&recovered, hash, judged)?),
            false => None,
        };
        Ok(Known { found: recovered.found, again })
    }

    /// Asks e2fsck about a medium that it has not seen.
    fn believe_e2fsck(
        &self,
        recovered: &Recovered,
        hash: u64,
        judged: &mut Judged,
    ) -> Result<(), String> {
        let after = recovered.hash(hash)?;
        let is_asked = is_drawn(after, "e2fsck", self.judges.e2fsck_one_in);
        if is_asked && judged.0.insert(after) { e2fsck(recovered.log.device()) } else { Ok(()) }
    }

    /// Cuts the recovery at a moment that the medium decides, and recovers what is left.
    fn cut_again(
        &self,
        recovered: &Recovered,
        hash: u64,
        judged: &mut Judged,
    ) -> Result<FoundTree, String> {
        let mut seed = hash;
        let moment = splitmix64(&mut seed) % (recovered.log.moments() as u64 + 1);
        let manner = match splitmix64(&mut seed) % 3 {
            0 => Manner::Prefix,
            _ => Manner::Subset(splitmix64(&mut seed)),
        };
        let cut = recovered.log.cut(moment as usize);
        let image = Image::new(&cut, manner);
        let told = |why: String| format!("recovery cut at moment {moment} {manner:?}: {why}");
        let hash = hash ^ mix(image.hash(&recovered.before)?);
        let again =
            recover_calmly(&self.base.setting, image.medium(&recovered.before)?).map_err(told)?;
        self.believe_e2fsck(&again, hash, judged).map_err(told)?;
        Ok(again.found)
    }
}

/// As [`recover`]; a panic is an error like others.
fn recover_calmly(setting: &Setting, medium: MemoryDevice) -> Result<Recovered, String> {
    let recovered = catch_unwind(AssertUnwindSafe(|| recover(setting, medium)));
    recovered.unwrap_or_else(|_| Err("the recovery panics".to_owned()))
}

/// Whether one of so many is drawn, by a number that differs from medium to medium.
fn is_drawn(hash: u64, part: &str, one_in: u64) -> bool {
    let salt = part.bytes().fold(0, |salt, byte| salt * 31 + u64::from(byte));
    one_in > 0 && mix(hash ^ salt).is_multiple_of(one_in)
}
