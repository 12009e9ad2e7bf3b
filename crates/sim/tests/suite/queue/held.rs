//! Places that are held until a command has ended, and streams that take more of them at once.
use super::*;

fn held(requests_max: u32) -> HostQueue {
    let wake_up = WakeUp::Batches;
    HostQueue::new(&QueueSettings { requests_max, wake_up, ..settings("noop") })
}

/// Writes of a stream, too far from each other to merge.
fn write(queue: &mut HostQueue, sequences: std::ops::Range<u64>, stream: u32, now: u64) {
    sequences.for_each(|number| queue.add(request(number, Write, 10 * number, stream), now));
}

/// What is sent before the queue has nothing.
fn sent(queue: &mut HostQueue, now: u64) -> Vec<Command> {
    std::iter::from_fn(|| match queue.next(0, now) {
        Next::Dispatch(command) => Some(command),
        _ => None,
    })
    .collect()
}

#[test]
fn what_the_drive_holds_counts_until_it_has_ended() {
    let mut queue = held(4);
    // The one that takes the last of four places may go on to six.
    write(&mut queue, 0..8, 9, 0);
    assert_eq!((queue.statistics().depth_max, queue.statistics().outside_max), (6, 2));
    let inside = sent(&mut queue, 0);
    assert_eq!(inside.len(), 6);
    inside[..2].iter().for_each(|command| queue.completed(command.id, 1));
    assert_eq!(sent(&mut queue, 1), [], "four are inside");
    queue.completed(inside[2].id, 2);
    let more: Vec<u64> = sent(&mut queue, 2).iter().map(|command| command.offset).collect();
    assert_eq!(more, [60 * MIB, 70 * MIB], "it waited, and takes two at once");

    let mut other = HostQueue::new(&QueueSettings { requests_max: 4, ..settings("noop") });
    write(&mut other, 0..8, 9, 0);
    assert_eq!(sent(&mut other, 0).len(), 8, "until they are sent");
}

#[test]
fn a_batch_is_one_streams_and_ends() {
    let mut queue = held(4);
    write(&mut queue, 0..4, 9, 0);
    write(&mut queue, 4..5, 8, 0);
    assert_eq!(queue.statistics().outside_max, 1, "of another stream");
    let mut late = held(4);
    write(&mut late, 0..4, 9, 0);
    write(&mut late, 4..5, 9, 20 * MS);
    assert_eq!(late.statistics().outside_max, 0);
    let mut later = held(4);
    write(&mut later, 0..4, 9, 0);
    write(&mut later, 4..5, 9, 20 * MS + 1);
    assert_eq!(later.statistics().outside_max, 1, "after 20 ms");
    let mut long = held(128);
    write(&mut long, 0..200, 9, 0);
    assert_eq!(long.statistics().depth_max, 160, "128 and a batch of 32");
}

#[test]
fn more_batches_go_to_half_as_many_again_and_no_further() {
    let mut queue = held(40);
    write(&mut queue, 0..100, 9, 0);
    assert_eq!(queue.statistics().depth_max, 60);
    // Reads have their own places.
    (200..300).for_each(|number| queue.add(request(number, Read, 10 * number, 8), 0));
    assert_eq!(queue.statistics().depth_max, 120);
}

#[test]
fn a_direction_is_congested_from_seven_eighths_until_it_is_clearly_below() {
    let bounds = |requests_max| {
        let CongestionBounds { on, off } = CongestionBounds::of(requests_max);
        (on, off)
    };
    assert_eq!((bounds(128), bounds(64), bounds(4)), ((113, 103), (57, 51), (4, 3)));
    assert_eq!(bounds(1), (1, 1));

    let mut queue = held(128);
    write(&mut queue, 0..112, 9, 0);
    assert!(!queue.is_congested(Write));
    write(&mut queue, 112..113, 9, 0);
    assert!(queue.is_congested(Write) && !queue.is_congested(Read));
    // What is inside the drive counts until it has ended.
    let inside = sent(&mut queue, 0);
    assert_eq!((inside.len(), queue.waiting()), (113, 0));
    for command in &inside[..10] {
        queue.completed(command.id, 0);
        assert!(queue.is_congested(Write) && !queue.is_relieved(Write));
    }
    queue.completed(inside[10].id, 0);
    assert!(!queue.is_congested(Write) && queue.is_relieved(Write), "102 are taken");
    // And again only from the upper bound on.
    write(&mut queue, 200..210, 9, 0);
    assert!(!queue.is_congested(Write) && !queue.is_relieved(Write), "112 are taken");
    write(&mut queue, 210..211, 9, 0);
    assert!(queue.is_congested(Write));
}
