//! Runs of blocks against a map with one entry for each block.
use super::*;

/// What is in memory, block by block; no bytes for phantoms.
type Model = BTreeMap<u32, Vec<u8>>;

/// A generator of numbers (xorshift), the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A write under way: what it was given, and what it has to store.
struct UnderWay {
    segments: Vec<Segment>,
    expected: Vec<u8>,
}

fn stored(segments: &[Segment]) -> Vec<u8> {
    segments.iter().flat_map(|segment| segment.content().unwrap_or_default().to_vec()).collect()
}

fn compare(residents: &Residents, model: &Model, blocks: u32, block_size: usize) {
    for block in 0..blocks {
        let found = residents.at(block);
        assert_eq!(found.is_some(), model.contains_key(&block), "block {block}");
        let next = model.range(block..blocks).next().map(|(block, _)| *block);
        assert_eq!(residents.next(block..blocks), next, "after block {block}");
        assert_eq!(residents.end_of(block), found.as_ref().map(|found| found.blocks.end));
        if let Some(Found { blocks, payload: Payload::Bytes(bytes) }) = found {
            assert_eq!(bytes.len(), blocks.len() * block_size);
            assert!(blocks.len() == 1 || blocks.end <= window_end(blocks.start, block_size));
            let part = bytes_of(&(block..block + 1), blocks.start, block_size);
            assert!(bytes[part] == model[&block], "block {block} of {blocks:?}");
        }
    }
    let whole = residents.runs.iter().all(|(first, run)| *first < run.end);
    assert!(whole, "no run is empty");
    assert!(residents.room() >= model.values().map(Vec::len).sum::<usize>());
}

/// One random change of both. Returns a write that was started.
fn change(
    numbers: &mut Numbers,
    (residents, model): (&mut Residents, &mut Model),
    blocks: u32,
    block_size: usize,
) -> Option<UnderWay> {
    let start = numbers.below(blocks.into()) as u32;
    let end = (start + 1 + numbers.below(40) as u32).min(blocks);
    let fill = numbers.below(255) as u8 + 1;
    match numbers.below(8) {
        0..=2 => {
            // As the engine does: blocks written in part are in memory before.
            let whole = !model.contains_key(&start) || !model.contains_key(&(end - 1));
            let most = (end - start) as u64 * block_size as u64;
            let (skip, length) = match whole {
                true => (0, most),
                false => {
                    let skip = numbers.below(block_size as u64);
                    (skip, 1 + numbers.below(most - skip))
                }
            };
            let bytes = vec![fill; length as usize];
            residents.write(block_size, u64::from(start) * block_size as u64 + skip, &bytes);
            for (at, byte) in bytes.iter().enumerate() {
                let at = skip as usize + at;
                let block = start + (at / block_size) as u32;
                let page = model.entry(block).or_insert_with(|| vec![0; block_size]);
                page[at % block_size] = *byte;
            }
        }
        3 => {
            for at in start..end {
                model.entry(at).or_insert_with(|| vec![fill; block_size]);
            }
            let mut at = start;
            while at < end {
                let next = window_end(at, block_size).min(end);
                let bytes = vec![fill; (next - at) as usize * block_size];
                let payload = Payload::Bytes(Arc::new(Buffer::from(&bytes[..])));
                residents.add(at..next, (at, &payload), block_size);
                at = next;
            }
        }
        4 => {
            residents.remove(start..end);
            model.retain(|block, _| !(start..end).contains(block));
        }
        5 => {
            let mut sets = [RunSet::default(), RunSet::default()];
            sets[0].insert(start.into()..end.into());
            sets[1].insert(u64::from(start / 2)..u64::from(start));
            sets[1].insert(u64::from(end + 3)..u64::from(end + 9));
            residents.keep(&[&sets[0], &sets[1]]);
            model.retain(|block, _| sets.iter().any(|set| set.contains((*block).into())));
        }
        _ => {
            let zeros = vec![0; block_size];
            let of = |block: u32| model.get(&block).unwrap_or(&zeros).clone();
            let expected = (start..end).flat_map(of).collect();
            return Some(UnderWay {
                segments: residents.segments(start..end, block_size),
                expected,
            });
        }
    }
    None
}

#[test]
fn runs_hold_what_blocks_would_and_writes_under_way_stay_as_they_were() {
    for block_size in [1024, 2048, 4096, 65_536] {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ block_size as u64);
        let (mut residents, mut model) = (Residents::default(), Model::new());
        let blocks = if block_size == 65_536 { 40 } else { 200 };
        let mut under_way: Vec<UnderWay> = Vec::new();
        for _ in 0..600 {
            let both = (&mut residents, &mut model);
            under_way.extend(change(&mut numbers, both, blocks, block_size));
            if under_way.len() > 5 {
                let ended = under_way.remove(0);
                assert!(stored(&ended.segments) == ended.expected, "blocks of {block_size}");
            }
            compare(&residents, &model, blocks, block_size);
        }
    }
}

#[test]
fn phantoms_take_one_entry_however_many_they_are() {
    let mut residents = Residents::default();
    let block_size = 4096;
    for start in (0..1 << 28).step_by(1 << 14) {
        residents.add(start..start + (1 << 14), (start, &Payload::Phantom), block_size);
    }
    assert_eq!(residents.runs.len(), 1);
    assert_eq!(residents.room(), 0);
    residents.remove(1000..2000);
    assert_eq!(residents.runs.len(), 2);
    residents.add(500..1500, (500, &Payload::Phantom), block_size);
    residents.add(1500..2000, (1500, &Payload::Phantom), block_size);
    assert_eq!(residents.end_of(0), Some(1 << 28));
    let mut dirty = RunSet::default();
    dirty.insert(10..20);
    residents.keep(&[&dirty, &RunSet::default()]);
    assert_eq!((residents.next(0..100), residents.end_of(10)), (Some(10), Some(20)));
}

#[test]
fn a_file_written_in_order_takes_little_more_memory_than_its_bytes() {
    for block_size in [1024_usize, 4096] {
        for bytes in [block_size, 20 << 10, 64 << 10, 200 << 10, 4 << 20] {
            let mut residents = Residents::default();
            for offset in (0..bytes).step_by(block_size) {
                residents.write(block_size, offset as u64, &vec![7; block_size]);
            }
            let most = bytes + bytes.min(PIECE_BYTES);
            assert!(residents.room() <= most, "{bytes} by {block_size}: {}", residents.room());
            let runs = bytes.div_ceil(PIECE_BYTES);
            assert_eq!(residents.runs.len(), runs, "{bytes} by {block_size}");
        }
    }
}
