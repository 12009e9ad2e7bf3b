//! The elevators of Linux 2.4 against a plain model of their rules, and by hand.
use super::*;

/// A waiting request of the model: all in sectors.
#[derive(Clone, Debug)]
struct Waits {
    write: bool,
    start: u64,
    sectors: u64,
    budget: i64,
}

/// A list of waiting requests, kept by the rules as they are written down: each block scans from
/// the tail.
struct Model {
    rule: &'static str,
    budgets: [i64; 2],
    /// What writes a read waits for may weigh, for `read-latency`.
    weight: u64,
    most: u64,
    list: Vec<Waits>,
}

const BLOCK: u64 = 8;

/// At which end a request grew.
#[derive(Clone, Copy)]
enum Grows {
    Front,
    Back,
}

impl Model {
    fn is_between(&self, index: usize, start: u64) -> bool {
        let Some(next) = self.list.get(index + 1) else { return false };
        let (one, other) = (self.list[index].start, next.start);
        match one <= other {
            true => one <= start && start < other,
            false => start >= one || start < other,
        }
    }

    /// Everything after this request in the list loses as much.
    fn later_lose(&mut self, index: usize, loss: i64) {
        self.list[index + 1..].iter_mut().for_each(|waits| waits.budget -= loss);
    }

    /// Where it becomes part of another one, or else where it goes.
    fn scan(&mut self, write: bool, start: u64) -> Result<(usize, Grows), usize> {
        let by_requests = self.rule == "linus-2.4.20";
        let mut place = None;
        let mut may_insert = true;
        let mut grows = Grows::Front;
        for index in (0..self.list.len()).rev() {
            let used_up = self.list[index].budget <= 0;
            if !by_requests {
                self.list[index].budget -= 1;
            }
            if used_up && self.rule == "linus" {
                break;
            }
            may_insert &= !used_up;
            if place.is_none() && may_insert && self.is_between(index, start) {
                place = Some(index + 1);
            }
            let seen = self.list[index].clone();
            if seen.write != write || seen.sectors + BLOCK > self.most {
                continue;
            }
            if self.rule == "linus" && seen.budget < BLOCK as i64 {
                break;
            }
            if seen.start + seen.sectors == start {
                self.list[index].sectors += BLOCK;
                grows = Grows::Back;
            } else if start + BLOCK == seen.start {
                self.list[index].start = start;
                self.list[index].sectors += BLOCK;
                if !by_requests {
                    self.list[index].budget -= BLOCK as i64;
                }
            } else {
                continue;
            }
            if !by_requests {
                self.later_lose(index, BLOCK as i64);
            }
            return Ok((index, grows));
        }
        Err(place.unwrap_or(self.list.len()))
    }

    fn arrives(&mut self, write: bool, start: u64) {
        let mut place = match self.scan(write, start) {
            Ok((grown, end)) => return self.join_at(grown, end),
            Err(place) => place,
        };
        if self.rule == "linus-2.4.20" {
            self.list[place..].iter_mut().for_each(|passed| passed.budget -= 1);
        }
        if self.rule == "read-latency" && !write {
            let mut weight = 0;
            let reached = self.list[..place].iter().position(|waits| {
                weight += if waits.write { 1 + waits.sectors / 64 } else { 0 };
                waits.write && weight >= self.weight
            });
            place = reached.map_or(place, |index| index + 1);
        }
        let budget = self.budgets[usize::from(write)];
        self.list.insert(place, Waits { write, start, sectors: BLOCK, budget });
    }

    /// A request that grew at one end becomes one with a neighbour in the list that it touches
    /// there now. The smaller budget stays.
    fn join_at(&mut self, grown: usize, end: Grows) {
        let touches = |one: &Waits, other: &Waits| {
            let met = match end {
                Grows::Back => one.start + one.sectors == other.start,
                Grows::Front => other.start + other.sectors == one.start,
            };
            one.write == other.write && met
        };
        for other in [grown.checked_sub(1), Some(grown + 1)].into_iter().flatten() {
            let Some(neighbour) = self.list.get(other).cloned() else { continue };
            let one = self.list[grown].clone();
            if touches(&one, &neighbour) && one.sectors + neighbour.sectors <= self.most {
                let first = grown.min(other);
                self.list[first] = Waits {
                    start: one.start.min(neighbour.start),
                    sectors: one.sectors + neighbour.sectors,
                    budget: one.budget.min(neighbour.budget),
                    ..one
                };
                self.list.remove(first + 1);
                return;
            }
        }
    }
}

fn settings_of(elevator: &str, merge_pages: u64) -> QueueSettings {
    QueueSettings {
        merge_bytes_max: merge_pages * 4 * KIB,
        requests_max: 1 << 20,
        ..settings(elevator)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever arrives and is sent, in any order: the same list as the model's.
    #[test]
    fn they_keep_the_list_that_the_rules_give(
        rule in prop_oneof![Just("linus"), Just("linus-2.4.20"), Just("read-latency")],
        budgets in (0_i64..60, 0_i64..60),
        weight in 0_u64..8,
        merge_pages in 1_u64..32,
        events in proptest::collection::vec((0_u8..8, any::<bool>(), 0_u64..40), 1..200),
    ) {
        let numbers = match rule {
            "read-latency" => format!("{rule}({},{},{weight})", budgets.0, budgets.1),
            _ => format!("{rule}({},{})", budgets.0, budgets.1),
        };
        let budgets = [budgets.0, budgets.1];
        let most = merge_pages * BLOCK;
        let mut model = Model { rule, budgets, weight, most, list: Vec::new() };
        let mut queue = HostQueue::new(&settings_of(&numbers, merge_pages));
        let sent = |queue: &mut HostQueue, model: &mut Model| match queue.next(0, 0) {
            Next::Dispatch(command) => {
                queue.completed(command.id, 0);
                let expected = model.list.remove(0);
                let found = (command.operation == Write, command.offset / 512, command.bytes / 512);
                prop_assert_eq!(found, (expected.write, expected.start, expected.sectors));
                Ok(())
            }
            _ => {
                prop_assert!(model.list.is_empty());
                Ok(())
            }
        };
        for (sequence, (kind, write, page)) in events.into_iter().enumerate() {
            if kind == 0 {
                sent(&mut queue, &mut model)?;
                continue;
            }
            let start = page * BLOCK;
            let covers =
                |waits: &Waits| waits.start <= start && start < waits.start + waits.sectors;
            if model.list.iter().any(covers) {
                // A block that waits is locked: it is not asked for again.
                continue;
            }
            let operation = if write { Write } else { Read };
            queue.add(pages(sequence as u64, operation, page, 1), 0);
            model.arrives(write, start);
            prop_assert_eq!(queue.waiting(), model.list.len() as u64);
        }
        while !queue.is_empty() {
            sent(&mut queue, &mut model)?;
        }
        prop_assert!(model.list.is_empty());
    }
}

/// Reads (r) and writes (w) of a page arrive at these places; in which order they are sent, as
/// place and length in pages.
fn order(elevator: &str, arriving: &[(Operation, u64)]) -> Vec<(u64, u64)> {
    order_within(31, elevator, arriving)
}

fn order_within(
    merge_pages: u64,
    elevator: &str,
    arriving: &[(Operation, u64)],
) -> Vec<(u64, u64)> {
    let mut queue = HostQueue::new(&settings_of(elevator, merge_pages));
    for (sequence, (operation, page)) in arriving.iter().enumerate() {
        queue.add(pages(sequence as u64, *operation, *page, 1), 0);
    }
    drain(&mut queue).into_iter().map(|(page, count, _)| (page, count)).collect()
}

/// Commands of one page, so that none has room for a merge.
fn places(elevator: &str, arriving: &[u64]) -> Vec<u64> {
    let arriving: Vec<_> = arriving.iter().map(|page| (Read, *page)).collect();
    order_within(1, elevator, &arriving).into_iter().map(|(page, _)| page).collect()
}

#[test]
fn sweeps_begin_after_what_waits_and_never_before_it() {
    // 40 and 45 are before 50, which was there first: they are the next sweep. 60 goes on.
    assert_eq!(places("linus", &[50, 40, 45, 60]), [50, 60, 40, 45]);
    // What belongs before the first that waits goes to the tail, whatever is in service.
    let mut queue = HostQueue::new(&settings_of("linus", 31));
    for (sequence, page) in [(0, 10), (1, 50)] {
        queue.add(pages(sequence, Read, page, 1), 0);
    }
    assert!(matches!(queue.next(0, 0), Next::Dispatch(_)), "10 is in service");
    queue.add(pages(2, Read, 30, 1), 0);
    let rest: Vec<u64> = drain(&mut queue).into_iter().map(|(page, ..)| page).collect();
    assert_eq!(rest, [50, 30]);
}

#[test]
fn each_visit_ages_a_command_by_one_and_a_merge_by_its_sectors() {
    // With budgets of two: 40 and 30 visit 50, which is then used up: 20 finds no place after it.
    assert_eq!(places("linus(2,2)", &[50, 40, 30, 20]), [50, 30, 40, 20]);
    assert_eq!(places("linus(3,3)", &[50, 40, 30, 20]), [50, 20, 30, 40]);
    // 101 becomes part of 100, at a cost of eight sectors for 50 and 70, which waited after it:
    // with 12, 70 has three left, then two when 60 visits it, less than the eight of a merge.
    let pair: &[u64] = &[100, 50, 70, 101, 71];
    assert_eq!(order_of("linus(12,12)", pair), [(100, 2), (50, 1), (70, 1), (71, 1)]);
    assert_eq!(order_of("linus(30,30)", pair), [(100, 2), (50, 1), (70, 2)]);
}

fn order_of(elevator: &str, arriving: &[u64]) -> Vec<(u64, u64)> {
    let arriving: Vec<_> = arriving.iter().map(|page| (Read, *page)).collect();
    order(elevator, &arriving)
}

#[test]
fn from_2_4_20_on_insertions_are_counted_and_merges_are_free() {
    // 30 passes 40, whose budget of one is then used up: 20 goes to the tail.
    assert_eq!(places("linus-2.4.20(1,1)", &[50, 40, 30, 20]), [50, 30, 40, 20]);
    // Merges go past what is used up, as often as they like.
    let merged = order_of("linus-2.4.20(1,1)", &[50, 40, 30, 51, 52, 41, 20]);
    assert_eq!(merged, [(50, 3), (30, 1), (40, 2), (20, 1)]);
}

#[test]
fn with_read_latency_a_read_waits_for_few_writes() {
    // Ten writes of a page apart weigh one each; a read before them all goes after the sixth.
    let writes: Vec<_> = (1..=10).map(|page| (Write, page * 100)).collect();
    let with = |elevator: &str, page: u64| {
        let arriving: Vec<_> = writes.iter().copied().chain([(Read, page)]).collect();
        let sent = order(elevator, &arriving);
        sent.iter().position(|(place, _)| *place == page).expect("it is sent")
    };
    assert_eq!(with("read-latency", 5), 6);
    assert_eq!(with("read-latency(8192,16384,2)", 5), 2);
    // Where sorting puts it nearer to the front, it stays there.
    assert_eq!(with("read-latency", 350), 3);
    assert_eq!(with("linus", 5), 10, "without the patch it goes to the tail");
    // A write of 16 pages, 128 sectors, weighs three: two of them are enough.
    let large: Vec<_> = (0..3)
        .flat_map(|run| (0..16).map(move |page| (Write, 1000 + run * 100 + page)))
        .chain([(Read, 5)])
        .collect();
    let sent = order("read-latency", &large);
    assert_eq!(sent, [(1000, 16), (1100, 16), (5, 1), (1200, 16)]);
}
