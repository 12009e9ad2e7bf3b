//! Elevators and the queue in a closed loop of clients: what each elevator promises holds, whatever
//! arrives.
use super::*;
use extant_sim::queue::{Unplug, WakeUp};

/// A client of a simulated run: it submits its next request some time after one was completed.
#[derive(Clone, Debug)]
struct Client {
    operation: Operation,
    urgency: Urgency,
    think_ns: u64,
    sequential: bool,
    pages: u64,
    /// How many requests at once.
    outstanding: u64,
    begins: u64,
}

#[derive(Clone, Copy)]
struct Arrival {
    request: Queued,
    at: u64,
    /// How many commands had been sent.
    sent_before: usize,
}
struct Sent {
    command: Command,
    at: u64,
}
struct Run {
    arrivals: Vec<Arrival>,
    sent: Vec<Sent>,
    statistics: QueueStatistics,
}

const DEVICE_PAGES: u64 = 1 << 20;
/// No command takes longer in a simulated run.
const SERVICE_NS_MAX: u64 = 300 * US + 8 * MS + 512 * KIB * 20;

/// A small generator (splitmix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives(usize),
    Ends(u64),
}

struct Simulation<'a> {
    queue: HostQueue,
    clients: &'a [Client],
    places: Vec<u64>,
    random: u64,
    submit_until: u64,
    events: BTreeSet<(u64, u64, Event)>,
    events_made: u64,
    /// What is left of each request, and whose it is.
    left: BTreeMap<u64, (u64, usize)>,
    under_way: BTreeMap<u64, Command>,
    run: Run,
}

impl Simulation<'_> {
    fn event(&mut self, at: u64, event: Event) {
        self.events.insert((at, self.events_made, event));
        self.events_made += 1;
    }
    fn arrives(&mut self, index: usize, now: u64) {
        if now >= self.submit_until {
            return;
        }
        let client = &self.clients[index];
        if !client.sequential || self.places[index] + client.pages > DEVICE_PAGES {
            self.places[index] = random(&mut self.random) % (DEVICE_PAGES - client.pages);
        }
        let bytes = if client.operation == Flush { 0 } else { client.pages * 4 * KIB };
        let request = Queued {
            sequence: self.run.arrivals.len() as u64,
            operation: client.operation,
            offset: self.places[index] * 4 * KIB,
            bytes,
            urgency: client.urgency,
            stream: index as u32,
        };
        self.places[index] += client.pages;
        self.left.insert(request.sequence, (bytes, index));
        self.run.arrivals.push(Arrival { request, at: now, sent_before: self.run.sent.len() });
        self.queue.add(request, now);
    }
    fn ends(&mut self, id: u64, now: u64) {
        let command = self.under_way.remove(&id).expect("it is under way");
        self.queue.completed(id, now);
        for part in command.parts {
            let (left, client) =
                self.left.get_mut(&part.sequence).expect("parts are of requests that are not done");
            *left = left.checked_sub(part.bytes).expect("no byte is sent twice");
            if *left == 0 {
                let (client, _) = (*client, self.left.remove(&part.sequence));
                self.event(now + self.clients[client].think_ns, Event::Arrives(client));
            }
        }
    }
    /// Sends what can be sent; says when to ask again.
    fn send(&mut self, head: &mut u64, depth: usize, now: u64) -> Option<u64> {
        while self.under_way.len() < depth {
            match self.queue.next(*head, now) {
                Next::Dispatch(command) => {
                    let seek_ns =
                        head.abs_diff(command.offset) / (DEVICE_PAGES * 4 * KIB / (8 * MS));
                    let ends = now + 300 * US + seek_ns.min(8 * MS) + command.bytes * 20;
                    *head = command.offset + command.bytes;
                    self.event(ends, Event::Ends(command.id));
                    self.under_way.insert(command.id, command.clone());
                    self.run.sent.push(Sent { command, at: now });
                }
                Next::IdleUntil(until) => {
                    assert!(until > now, "idle until {until}, and it is {now}");
                    return Some(until);
                }
                Next::Empty => {
                    assert!(self.queue.under_way() > 0 || self.queue.is_empty());
                    return None;
                }
            }
        }
        None
    }
}

fn simulate(
    settings: &QueueSettings,
    clients: &[Client],
    seed: u64,
    depth: usize,
    submit_until: u64,
) -> Run {
    let mut simulation = Simulation {
        queue: HostQueue::new(settings),
        clients,
        places: vec![DEVICE_PAGES; clients.len()],
        random: seed,
        submit_until,
        events: BTreeSet::new(),
        events_made: 0,
        left: BTreeMap::new(),
        under_way: BTreeMap::new(),
        run: Run { arrivals: Vec::new(), sent: Vec::new(), statistics: QueueStatistics::default() },
    };
    for (index, client) in clients.iter().enumerate() {
        (0..client.outstanding)
            .for_each(|_| simulation.event(client.begins, Event::Arrives(index)));
    }
    let (mut head, mut wake) = (0, None);
    loop {
        let next = simulation.events.first().copied();
        let now = match (next, wake) {
            (None, None) => break,
            (Some((at, _, event)), wake) if wake.is_none_or(|wake| at <= wake) => {
                simulation.events.pop_first();
                match event {
                    Event::Arrives(client) => simulation.arrives(client, at),
                    Event::Ends(id) => simulation.ends(id, at),
                }
                at
            }
            (_, Some(wake)) => wake,
            (Some(_), None) => unreachable!("an event is earlier than never"),
        };
        wake = simulation.send(&mut head, depth, now);
    }
    assert!(simulation.left.is_empty(), "{} requests are never answered", simulation.left.len());
    assert_eq!(simulation.queue.waiting() + simulation.queue.under_way(), 0);
    simulation.run.statistics = simulation.queue.statistics();
    simulation.run
}

impl Run {
    /// Every request is sent once with exactly its bytes; commands are of one kind, whole, and not
    /// too large; flushes go after all older writes, if the elevator has them wait.
    fn check_conservation(&self, settings: &QueueSettings) {
        let mut pieces: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        let mut writes_unsent: BTreeMap<u64, u64> = BTreeMap::new();
        for Arrival { request, .. } in &self.arrivals {
            if request.operation == Write {
                writes_unsent.insert(request.sequence, request.bytes);
            }
        }
        for Sent { command, .. } in &self.sent {
            assert!(command.bytes <= settings.merge_bytes_max);
            let mut place = command.offset;
            for part in &command.parts {
                let request = &self.arrivals[part.sequence as usize].request;
                assert_eq!(request.operation, command.operation);
                assert_eq!(part.offset, place, "parts lie end to end");
                place += part.bytes;
                pieces.entry(part.sequence).or_default().push((part.offset, part.bytes));
                if let Some(left) = writes_unsent.get_mut(&part.sequence) {
                    *left -= part.bytes;
                    if *left == 0 {
                        writes_unsent.remove(&part.sequence);
                    }
                }
            }
            assert_eq!(place, command.offset + command.bytes);
            let waits = settings.elevator.entry().flush == FlushOrder::AfterArrived;
            if command.operation == Flush && waits {
                let older = writes_unsent.range(..command.parts[0].sequence).next();
                assert_eq!(older, None, "a flush passed a write");
            }
        }
        for Arrival { request, .. } in &self.arrivals {
            let mut pieces = pieces.remove(&request.sequence).expect("it is sent");
            pieces.sort();
            let mut place = request.offset;
            for (offset, bytes) in pieces {
                assert_eq!(offset, place);
                place += bytes;
            }
            assert_eq!(place, request.end());
        }
        let statistics = self.statistics;
        assert_eq!(statistics.arrivals, self.arrivals.len() as u64);
        let merged = statistics.merges_back + statistics.merges_front + statistics.joins;
        assert_eq!(statistics.dispatched + merged, statistics.arrivals + statistics.cuts);
        let requests_max = u64::from(settings.requests_max);
        let each = match settings.wake_up {
            WakeUp::Batches => requests_max + requests_max.div_ceil(2),
            WakeUp::EachSent | WakeUp::QuarterFree => requests_max,
        };
        assert!(statistics.depth_max <= 2 * each);
    }
    /// For each request the index of the command that holds the last of it.
    fn sent_as(&self) -> BTreeMap<u64, usize> {
        let parts = |(index, sent): (usize, &Sent)| {
            let sequences: Vec<u64> = sent.command.parts.iter().map(|part| part.sequence).collect();
            sequences.into_iter().map(move |sequence| (sequence, index))
        };
        self.sent.iter().enumerate().flat_map(parts).collect()
    }
    /// How many requests of that direction had arrived before this one and were not sent at that
    /// time.
    fn older_waiting(&self, arrival: &Arrival, at: u64, sent_as: &BTreeMap<u64, usize>) -> u64 {
        let older = self.arrivals.iter().take(arrival.request.sequence as usize);
        let waits = |older: &&Arrival| {
            older.request.operation == arrival.request.operation
                && self.sent[sent_as[&older.request.sequence]].at >= at
        };
        older.filter(waits).count() as u64
    }
}

fn clients() -> impl Strategy<Value = Vec<Client>> {
    let operation = prop_oneof![4 => Just(Read), 4 => Just(Write), 1 => Just(Flush)];
    let urgency = prop_oneof![Just(Awaited), Just(Background)];
    let think = prop_oneof![Just(0), 0..10 * MS, 0..200 * MS];
    let client = (operation, urgency, think, any::<bool>(), 1_u64..40, 1_u64..20, 0..50 * MS);
    let client = client.prop_map(
        |(operation, urgency, think_ns, sequential, pages, outstanding, begins)| Client {
            operation,
            urgency,
            think_ns,
            sequential,
            pages,
            // Flushes that follow each other at once would leave time for nothing else.
            outstanding: if operation == Flush { 1 } else { outstanding },
            begins,
        },
    );
    prop::collection::vec(client, 1..7)
}

/// The clients without flushes, and with requests of at most `pages_max` pages.
fn without_flushes(clients: Vec<Client>, pages_max: u64) -> Vec<Client> {
    let others = clients.into_iter().filter(|client| client.operation != Flush);
    others.map(|client| Client { pages: client.pages.min(pages_max), ..client }).collect()
}

/// No limit: what is promised is promised from the moment at which the elevator knows of a command.
fn unlimited(elevator: &str) -> QueueSettings {
    QueueSettings { requests_max: 1 << 20, ..settings(elevator) }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_arrives_is_sent_once(
        clients in clients(),
        seed: u64,
        depth in 1_usize..8,
        requests_max in 1_u32..40,
        wake_up in prop_oneof![
            Just(WakeUp::EachSent),
            Just(WakeUp::QuarterFree),
            Just(WakeUp::Batches),
        ],
        merge_pages in 1_u64..40,
        plug_ns in prop_oneof![Just(0), 0..5 * MS],
        unplug in prop_oneof![Just(Unplug::OnArrival), Just(Unplug::OnWait)],
    ) {
        for entry in ELEVATORS {
            let settings = QueueSettings {
                merge_bytes_max: merge_pages * 4 * KIB,
                requests_max,
                wake_up,
                plug_ns,
                unplug,
                ..settings(entry.name)
            };
            let run = simulate(&settings, &clients, seed, depth, 500 * MS);
            run.check_conservation(&settings);
        }
    }

    #[test]
    fn c_look_sends_in_this_sweep_or_the_next_but_for_overlaps(clients in clients(), seed: u64) {
        let clients = without_flushes(clients, 64);
        let run = simulate(&unlimited("c-look"), &clients, seed, 1, 500 * MS);
        let sent_as = run.sent_as();
        let returns: Vec<u64> = run.sent.windows(2).map(|pair| {
            u64::from(pair[1].command.offset < pair[0].command.offset + pair[0].command.bytes)
        }).collect();
        for Arrival { request, sent_before, .. } in &run.arrivals {
            let last = sent_as[&request.sequence];
            let first = sent_before.saturating_sub(1);
            let sweeps: u64 = returns[first..last].iter().sum();
            // Its command begins there, or has grown to begin before.
            let begins = run.sent[last].command.offset..=request.offset;
            let reaches_over = |sent: &&Sent| {
                let Command { offset, bytes, .. } = sent.command;
                offset <= *begins.end() && offset + bytes > *begins.start()
            };
            let passed_over = run.sent[first..last].iter().filter(reaches_over).count() as u64;
            prop_assert!(sweeps <= 1 + passed_over, "{request:?} waits for {sweeps} returns, and \
                {passed_over} commands reached over it");
        }
    }

    #[test]
    fn deadline_keeps_its_promise(
        clients in clients(),
        seed: u64,
        batch in 1_u64..20,
        starved in 1_u64..4,
        expire in 0_u64..200,
    ) {
        let clients = without_flushes(clients, 64);
        let settings = unlimited(&format!("deadline({expire},{},{batch},{starved})", expire * 3));
        let run = simulate(&settings, &clients, seed, 1, 1000 * MS);
        let sent_as = run.sent_as();
        for arrival in &run.arrivals {
            let reads = arrival.request.operation == Read;
            let expires = arrival.at + if reads { expire } else { expire * 3 } * MS;
            let index = sent_as[&arrival.request.sequence];
            let after = run.sent[..index].iter().filter(|sent| sent.at >= expires).count() as u64;
            let older = run.older_waiting(arrival, expires, &sent_as);
            let batches = match reads {
                true => (older + 2) + (older / starved + 2),
                false => (older + 2) * (1 + starved),
            };
            prop_assert!(after <= batch * batches, "{after} were sent after {arrival:?} expired, \
                {older} older ones waited",
                arrival = arrival.request);
        }
    }

    #[test]
    fn anticipatory_waits_are_bounded(clients in clients(), seed: u64) {
        let mut clients = without_flushes(clients, 64);
        clients.iter_mut().for_each(|client| client.outstanding = 1);
        let run = simulate(&unlimited("anticipatory"), &clients, seed, 1, 3000 * MS);
        let sent_as = run.sent_as();
        for arrival in &run.arrivals {
            let waited = run.sent[sent_as[&arrival.request.sequence]].at - arrival.at;
            let older = run.older_waiting(arrival, arrival.at, &sent_as);
            let each = 2 * SERVICE_NS_MAX + 7 * MS + match arrival.request.operation {
                Read => 125 * MS + 125 * MS,
                _ => 250 * MS + 500 * MS + 125 * MS,
            };
            prop_assert!(waited <= each * (older + 1), "{:?} waited {waited}", arrival.request);
        }
    }

    #[test]
    fn cfq_queues_take_turns(clients in clients(), seed: u64) {
        let clients = without_flushes(clients, 64);
        let run = simulate(&unlimited("cfq-2.6.20"), &clients, seed, 1, 3000 * MS);
        let sent_as = run.sent_as();
        // From the time at which a queue begins to wait, or was last served, it is served again
        // within a slice of each other, the batch of four that was begun included.
        let mine = |request: &Queued| match (request.operation, request.urgency) {
            (Write, Background) => u32::MAX,
            _ => request.stream,
        };
        let round = clients.len() as u64 * (100 * MS + 4 * SERVICE_NS_MAX);
        let mut served: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for sent in &run.sent {
            let owner = mine(&run.arrivals[sent.command.parts[0].sequence as usize].request);
            served.entry(owner).or_default().push(sent.at);
        }
        for arrival in &run.arrivals {
            let at = run.sent[sent_as[&arrival.request.sequence]].at;
            let times = &served[&mine(&arrival.request)];
            let mut since = arrival.at;
            for time in times.iter().filter(|time| (arrival.at..=at).contains(time)) {
                prop_assert!(time - since <= round, "{:?} waited {} for its queue's \
                    turn", arrival.request, time - since);
                since = *time;
            }
        }
    }
}

/// A far request while a near stream never ends: within its age and bounded service.
#[test]
fn a_stream_that_never_ends_starves_nobody() {
    let stream = Client {
        operation: Read,
        urgency: Awaited,
        think_ns: MS,
        sequential: true,
        pages: 16,
        outstanding: 1,
        begins: 0,
    };
    let bounds_ms = [
        ("deadline", 500, 5000),
        ("anticipatory", 125, 500),
        ("cfq-2.6.20", 100, 100),
        ("cfq-2.6.23", 100, 100),
        ("turns", 60, 60),
    ];
    for (elevator, read_ms, write_ms) in bounds_ms {
        for (operation, bound_ms) in [(Read, read_ms), (Write, write_ms)] {
            let far = Client {
                operation,
                urgency: if operation == Read { Awaited } else { Background },
                think_ns: 20 * MS,
                sequential: false,
                pages: 1,
                begins: 100 * MS,
                ..stream
            };
            let run = simulate(&unlimited(elevator), &[stream.clone(), far], 1, 1, 8000 * MS);
            let sent_as = run.sent_as();
            let waits =
                |arrival: &Arrival| run.sent[sent_as[&arrival.request.sequence]].at - arrival.at;
            let far = run.arrivals.iter().filter(|arrival| arrival.request.stream == 1);
            let longest = far.map(waits).max().expect("it submits");
            let bound = bound_ms * MS + 2 * SERVICE_NS_MAX;
            assert!(longest <= bound, "{elevator}, {operation:?}: {longest} ns");
        }
    }
}

/// What anticipation is for: a reader that thinks between its reads is not torn apart by another.
#[test]
fn waiting_for_a_stream_saves_seeks() {
    let reader = Client {
        operation: Read,
        urgency: Awaited,
        think_ns: 200 * US,
        sequential: true,
        pages: 16,
        outstanding: 1,
        begins: 0,
    };
    let jumps_percent = |elevator: &str| {
        let run =
            simulate(&unlimited(elevator), &[reader.clone(), reader.clone()], 3, 1, 4000 * MS);
        let jump = |pair: &&[Sent]| {
            pair[0].command.offset + pair[0].command.bytes != pair[1].command.offset
        };
        run.sent.windows(2).filter(jump).count() * 100 / run.sent.len()
    };
    assert!(jumps_percent("deadline") > 90);
    assert!(jumps_percent("anticipatory") < 10);
    assert!(jumps_percent("cfq-2.6.20") < 10);
    assert!(jumps_percent("cfq-2.6.23") < 10);
    assert!(jumps_percent("turns") < 10);
}

/// `cargo test --release -p extant-sim --test suite queue -- --ignored --nocapture`
#[test]
// tidy: unfinished because it is a measurement, run by hand
#[ignore = "a measurement"]
fn requests_in_a_second() {
    for entry in ELEVATORS {
        for (pattern, outside) in
            [("random", 0), ("random", 4000), ("sequential", 0), ("sequential", 4000)]
        {
            let measured =
                (0..8).map(|_| nanoseconds_a_request(entry.name, pattern, outside)).min();
            println!(
                "{:12} {pattern:10} {outside:4} outside: {} ns a request",
                entry.name,
                measured.unwrap_or(0)
            );
        }
    }
}

/// What a request costs, added, sent and completed, with some 128 waiting in the elevator and so
/// many before it.
fn nanoseconds_a_request(elevator: &str, pattern: &str, outside: u64) -> u64 {
    const REQUESTS: u64 = 100_000;
    let mut queue = HostQueue::new(&settings(elevator));
    let clock = RealClock::new();
    let (mut state, mut arrived, mut now, mut head, mut sent) = (1, 0, 0, 0, 0);
    while sent < REQUESTS {
        while queue.waiting() < 128 + outside && arrived < REQUESTS {
            let random = random(&mut state);
            let place = if pattern == "random" { random % DEVICE_PAGES } else { arrived };
            let operation = if random >> 63 == 0 { Read } else { Write };
            let stream = (random >> 60) as u32 & 7;
            let request = pages(arrived, operation, place, 1);
            queue.add(Queued { stream, ..request }, now);
            arrived += 1;
        }
        match queue.next(head, now) {
            Next::Dispatch(command) => {
                head = command.offset + command.bytes;
                now += 100 * US;
                sent += command.parts.len() as u64;
                queue.completed(command.id, now);
            }
            Next::IdleUntil(until) => now = until,
            Next::Empty => unreachable!("requests wait"),
        }
    }
    clock.now() / REQUESTS
}
