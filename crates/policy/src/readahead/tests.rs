//! What each policy asks for, read by read.
use super::*;

/// A stream of reads of a file, and what they made the policy ask for.
struct Reader<'a> {
    policy: &'a dyn ReadAhead,
    stream: ReadStream,
    file_blocks: u32,
    block_size: u32,
}

impl Reader<'_> {
    fn of(policy: &dyn ReadAhead) -> Reader<'_> {
        Reader { policy, stream: ReadStream::default(), file_blocks: 100_000, block_size: 4096 }
    }

    fn file_bytes(&self) -> u64 {
        u64::from(self.file_blocks) * u64::from(self.block_size)
    }

    fn read(&mut self, block: u32, count: u32) -> Option<Range<u32>> {
        let cached = block > 0 && block < self.stream.ahead;
        self.read_found(block, count, cached)
    }

    fn read_found(&mut self, block: u32, count: u32, cached: bool) -> Option<Range<u32>> {
        let access = Access {
            block,
            count,
            file_blocks: self.file_blocks,
            cached,
            block_size: self.block_size,
            file_bytes: self.file_bytes(),
            call_end: u64::from(block.saturating_add(count)) * u64::from(self.block_size),
        };
        let window = self.policy.window(&mut self.stream, &access);
        if let Some(window) = &window {
            assert!(
                window.start >= access.end()
                    && window.start < window.end
                    && window.end <= self.file_blocks,
                "{window:?} for {access:?}"
            );
        }
        window
    }

    /// Reads `count` blocks at a time in sequence. Returns at which block which window was asked
    /// for.
    fn sequence(&mut self, count: u32, end: u32) -> Vec<(u32, Range<u32>)> {
        let blocks = (0..end).step_by(count as usize);
        blocks.filter_map(|block| Some((block, self.read(block, count)?))).collect()
    }
}

#[test]
fn reads_in_sequence_ask_for_more_and_more() {
    type Expected = (&'static str, &'static dyn ReadAhead, &'static [(u32, Range<u32>)]);
    let rows: [Expected; 5] = [
        (
            "2.4",
            &Linux24,
            &[
                (0, 1..4),
                (1, 4..11),
                (4, 11..24),
                (11, 24..49),
                (24, 49..81),
                (49, 81..113),
                (81, 113..145),
            ],
        ),
        (
            "2.6",
            &Linux26,
            &[
                (0, 1..4),
                (1, 4..12),
                (4, 12..28),
                (12, 28..60),
                (28, 60..92),
                (60, 92..124),
                (92, 124..156),
            ],
        ),
        (
            "clustered",
            &Clustered,
            &[
                (0, 1..2),
                (1, 2..4),
                (2, 4..6),
                (4, 6..10),
                (6, 10..14),
                (10, 14..22),
                (14, 22..30),
                (22, 30..46),
                (30, 46..62),
                (46, 62..94),
                (62, 94..126),
                (94, 126..158),
            ],
        ),
        (
            "on-demand-128k",
            &OnDemand::LINUX,
            &[
                (0, 1..4),
                (1, 4..12),
                (4, 12..28),
                (12, 28..60),
                (28, 60..92),
                (60, 92..124),
                (92, 124..156),
            ],
        ),
        ("on-demand", &OnDemand::FAR, &[(0, 1..16), (1, 16..80), (16, 80..208), (80, 208..464)]),
    ];
    for (name, policy, expected) in rows {
        assert_eq!(Reader::of(policy).sequence(1, 100), expected, "{name}");
    }
    assert!(Reader::of(&None).sequence(1, 100).is_empty());
}

/// A call for 512 KiB somewhere in a file, with windows of 128 KiB: both systems read one window
/// too many. Up to 2.6.22 the first 128 KiB are waited for before any more is asked for.
#[test]
fn a_long_call_overshoots_by_one_window_and_stalled_once_before_2_6_23() {
    let windows = |policy: &dyn ReadAhead| {
        let mut stream = ReadStream::default();
        let mut read = |part: u32| {
            let block = 50_000 + 32 * part;
            let access = Access {
                block,
                count: 32,
                file_blocks: 100_000,
                cached: part > 0 && block < stream.ahead,
                block_size: 4096,
                file_bytes: 100_000 * 4096,
                call_end: (50_000 + 128) * 4096,
            };
            policy.window(&mut stream, &access)
        };
        [read(0), read(1), read(2), read(3)]
    };
    let at = |part: u32| Some(50_000 + 32 * part..50_000 + 32 * (part + 1));
    assert_eq!(windows(&Linux26), [Option::None, at(2), at(3), at(4)], "stalls after the first");
    assert_eq!(windows(&OnDemand::LINUX), [at(1), at(2), at(3), at(4)]);
}

#[test]
fn windows_in_the_end_are_as_long_as_the_policy_allows_and_leave_nothing_out() {
    let rows: [(&dyn ReadAhead, u32); 5] = [
        (&Linux24, 32),
        (&Linux26, 32),
        (&Clustered, 32),
        (&OnDemand::LINUX, 32),
        (&OnDemand::FAR, 512),
    ];
    for (policy, longest) in rows {
        for count in [1, 2, 3, 16, 64] {
            let mut reader = Reader::of(policy);
            let windows = reader.sequence(count, 20_000);
            let (_, last) = windows.last().unwrap();
            assert_eq!(last.end - last.start, longest);
            assert!(windows.iter().all(|(_, window)| window.end - window.start <= longest));
            for pair in windows.windows(2) {
                let ((_, one), (block, other)) = (&pair[0], &pair[1]);
                assert!(
                    other.start == one.end || other.start == block + count,
                    "{one:?} {other:?}"
                );
            }
        }
    }
}

#[test]
fn all_count_bytes_where_they_count_pages() {
    let large = |policy: &dyn ReadAhead| Reader::of(policy).sequence(1, 300);
    for policy in [&Linux24 as &dyn ReadAhead, &Linux26, &OnDemand::LINUX, &OnDemand::FAR] {
        let mut reader = Reader::of(policy);
        (reader.block_size, reader.file_blocks) = (1024, 400_000);
        let small: Vec<(u32, Range<u32>)> = reader
            .sequence(4, 1200)
            .into_iter()
            .map(|(block, window)| (block / 4, window.start / 4..window.end / 4))
            .collect();
        assert_eq!(small, large(policy));
    }
    for policy in [&Linux24 as &dyn ReadAhead, &Linux26, &Clustered, &OnDemand::LINUX] {
        let mut reader = Reader::of(policy);
        reader.block_size = 64 << 10;
        let windows = reader.sequence(1, 100);
        assert!(windows.iter().all(|(_, window)| window.end - window.start <= 2), "{windows:?}");
        assert!(windows.len() > 40);
    }
}

#[test]
fn what_is_read_here_and_there_asks_for_nothing() {
    for policy in [&Linux26 as &dyn ReadAhead, &Clustered, &OnDemand::LINUX, &OnDemand::FAR] {
        let mut reader = Reader::of(policy);
        for at in 1..500u32 {
            let block = at.wrapping_mul(7919) % 90_000 + 5000;
            assert_eq!(reader.read_found(block, 1, false), Option::None, "block {block}");
        }
    }
}

#[test]
fn a_jump_ends_a_window_and_a_sequence_behind_it_begins_anew() {
    let rows: [(&dyn ReadAhead, Range<u32>); 4] = [
        (&Linux26, 5002..5005),
        (&Clustered, 5002..5003),
        (&OnDemand::LINUX, 5002..5005),
        (&OnDemand::FAR, 5002..5017),
    ];
    for (policy, expected) in rows {
        let mut reader = Reader::of(policy);
        reader.sequence(1, 100);
        assert_eq!(reader.read(5000, 1), Option::None);
        assert_eq!(reader.read(5001, 1), Some(expected));
    }
}

#[test]
fn linux_2_4_reads_as_much_ahead_as_a_call_reads_and_a_page() {
    // The page after each read of n pages, alone or after a jump, is read with n more.
    let mut here_and_there = Reader::of(&Linux24);
    for (block, count, expected) in
        [(5000, 1, 5001..5003), (900, 4, 904..909), (40, 30, 70..101), (7000, 64, 7064..7095)]
    {
        assert_eq!(here_and_there.read_found(block, count, false), Some(expected));
    }
    // What follows goes on in groups.
    assert_eq!(here_and_there.read(7064, 1), Some(7095..7127));
}

/// Reads a part of a call that ends at that byte of a file of that many bytes.
fn read_in_call(
    stream: &mut ReadStream,
    block: u32,
    (call_end, file_bytes): (u64, u64),
) -> Option<Range<u32>> {
    let cached = block > 0 && block < stream.ahead;
    let file_blocks = file_bytes.div_ceil(4096) as u32;
    let access =
        Access { block, count: 1, file_blocks, cached, block_size: 4096, file_bytes, call_end };
    Linux24.window(stream, &access)
}

#[test]
fn linux_2_4_reads_a_last_page_that_is_filled_in_part_alone() {
    // 13,200 bytes: pages 0, 1 and 2, and 912 bytes of page 3.
    let (mut stream, size) = (ReadStream::default(), 13_200);
    assert_eq!(read_in_call(&mut stream, 0, (4096, size)), Some(1..3));
    for block in 1..4 {
        assert_eq!(read_in_call(&mut stream, block, (size, size)), Option::None, "page {block}");
    }
    // A file of whole pages is read ahead to its end.
    let mut whole = ReadStream::default();
    assert_eq!(read_in_call(&mut whole, 0, (4096, 16_384)), Some(1..4));
}

#[test]
fn linux_2_4_reads_nothing_ahead_of_a_small_first_read() {
    let size = 40_960;
    for (call_end, expected) in [(1, Option::None), (2048, Option::None), (2049, Some(1..4))] {
        let asked = read_in_call(&mut ReadStream::default(), 0, (call_end, size));
        assert_eq!(asked, expected, "{call_end}");
    }
    // One call for everything raises the window to as many pages and one, at most 31.
    let all = read_in_call(&mut ReadStream::default(), 0, (size, size));
    assert_eq!(all, Some(1..10));
    let far = read_in_call(&mut ReadStream::default(), 0, (1 << 20, 1 << 20));
    assert_eq!(far, Some(1..32));
}

#[test]
fn unaligned_reads_are_sequential_too() {
    // 10 KiB at a time, as tar does: the block in which one ends is where the next begins.
    for policy in [&Linux24 as &dyn ReadAhead, &Linux26, &Clustered, &OnDemand::LINUX] {
        let mut reader = Reader::of(policy);
        let (mut asked, mut windows) = (0, Vec::new());
        for at in 0..200u32 {
            let (first, end) = (at * 10 / 4, (at * 10 + 10).div_ceil(4));
            if let Some(window) = reader.read(first, end - first) {
                assert_eq!(
                    window.start,
                    end.max(asked),
                    "nothing twice and nothing left out: {windows:?}"
                );
                asked = window.end;
                windows.push(window);
            }
        }
        let last = windows.last().unwrap();
        assert!(last.end - last.start >= 31 && last.end > 500, "{windows:?}");
    }
}

#[test]
fn nothing_behind_the_end_of_a_file_is_asked_for() {
    for policy in
        [&Linux24 as &dyn ReadAhead, &Linux26, &Clustered, &OnDemand::LINUX, &OnDemand::FAR]
    {
        for file_blocks in [1, 2, 3, 5, 17, 100] {
            let mut reader = Reader::of(policy);
            reader.file_blocks = file_blocks;
            let windows = reader.sequence(1, file_blocks);
            assert_eq!(windows.last().map_or(1, |(_, window)| window.end), file_blocks);
        }
    }
}

#[test]
fn pages_that_were_lost_make_the_window_shorter() {
    let mut reader = Reader::of(&Linux26);
    reader.sequence(1, 60);
    assert_eq!(reader.read_found(60, 1, false), Some(92..122));
    assert_eq!(reader.read_found(92, 1, false), Option::None, "a jump");
}

#[test]
fn the_cluster_that_was_cut_goes_on_where_it_ended() {
    let mut reader = Reader::of(&Clustered);
    reader.sequence(1, 46);
    assert_eq!(reader.read(46, 1), Some(62..94));
    reader.stream.cut(70);
    assert_eq!((47..62).find_map(|block| reader.read(block, 1)), Option::None);
    assert_eq!(reader.read(62, 1), Some(70..102));
}

#[test]
fn the_largest_numbers_overflow_nothing() {
    for policy in
        [&Linux24 as &dyn ReadAhead, &Linux26, &Clustered, &OnDemand::LINUX, &OnDemand::FAR, &None]
    {
        let mut reader = Reader::of(policy);
        reader.file_blocks = u32::MAX;
        for (block, count) in [
            (0, u32::MAX),
            (u32::MAX, 1),
            (u32::MAX, u32::MAX),
            (u32::MAX - 1, 1),
            (0, 0),
            (u32::MAX, 0),
        ] {
            for block_size in [1, 1024, 65536, u32::MAX] {
                reader.block_size = block_size;
                let _ = reader.read_found(block, count, false);
                let _ = reader.read_found(block, count, true);
            }
        }
    }
}

#[test]
fn map_blocks_are_read_ahead_of_a_stream_that_goes_on() {
    let mut going = Going::default();
    let mut read = |block: u32, count: u32| {
        let access = Access {
            block,
            count,
            file_blocks: 10_000_000,
            cached: false,
            block_size: 4096,
            file_bytes: 10_000_000 * 4096,
            call_end: 0,
        };
        going.note(&access);
        let looked: Vec<_> =
            std::iter::from_fn(|| going.maps(&(block..block + count), 4096, 1024, 12)).collect();
        looked
    };
    assert_eq!(read(0, 255), [], "not a MiB yet");
    assert_eq!(read(255, 1), [(255, 4)]);
    assert_eq!(read(256, 32), [], "looked for");
    assert_eq!(read(288, 1024), [(1036, 8)], "the next map block, after one was passed");
    assert_eq!(read(1312, 4000), [(2060, 24), (3084, 24), (4108, 24), (5132, 24)]);
    assert_eq!(read(5312, 10_000).first(), Some(&(6156, 32)), "never more");
    assert_eq!(read(1_000_000, 128), [], "a jump");
    assert_eq!(read(1_000_128, 127), []);
    assert_eq!(read(1_000_255, 1), [(1_000_255, 4)], "and on from there");
    assert_eq!(read(40, 255), []);
}

#[test]
fn a_missing_map_block_brings_those_that_are_clustered_with_it() {
    // Pointers of one block: two clusters of 40 and 4, one map block between data, a hole.
    let pointers: Vec<u32> =
        (5_000..5_040).chain([90_000, 0]).chain([200_000, 200_900, 200_100, 200_001]).collect();
    let count = pointers.len() as u32;
    let at = |index: u32| pointers.get(index as usize).copied().unwrap_or(0);
    let siblings = |index: u32| {
        let missing = MissingMap { block: at(index), index, pointers: count, mapped: 1024 };
        missing.siblings(at)
    };
    assert_eq!(siblings(0), 0..32, "no more than 32");
    assert_eq!(siblings(20), 4..36, "as many before it as after it");
    assert_eq!((siblings(5), siblings(39)), (0..32, 8..40), "more on one side where there is room");
    assert_eq!(siblings(40), 40..41, "alone between data");
    assert_eq!(siblings(43), 42..46, "near, and in any order");
    for (index, pointers) in [(0, 0), (7, 3), (u32::MAX - 1, u32::MAX)] {
        let missing = MissingMap { block: 9, index, pointers, mapped: u32::MAX };
        let siblings = missing.siblings(|_| 9);
        assert!(siblings.contains(&index) && siblings.len() <= 32, "{siblings:?}");
    }
    for (block, around) in [(5_000, 4_992..5_024), (0, 0..32), (u32::MAX, u32::MAX - 31..u32::MAX)]
    {
        let missing = MissingMap { block, index: 12, pointers: 1024, mapped: 1024 };
        assert_eq!(missing.surroundings(), around);
    }
    assert!(!is_near(0, 5, 1024) && !is_near(5, 0, 1024) && !is_near(5, 1029, 1024));
    assert!(is_near(5, 1028, 1024) && is_near(1028, 5, 1024));
}
