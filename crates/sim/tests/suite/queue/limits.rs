//! Plugs without a timer, and wake-ups in batches, as in Linux 2.4.
use super::*;
use extant_sim::queue::{Unplug, WakeUp};

fn idles(queue: &mut HostQueue) -> bool {
    matches!(queue.next(0, 0), Next::IdleUntil(_))
}

#[test]
fn a_plug_without_a_timer_stays_until_a_thread_waits_or_the_queue_is_full() {
    let plugged = QueueSettings {
        plug_ns: 5_000 * MS,
        unplug: Unplug::OnWait,
        requests_max: 6,
        ..settings("noop")
    };
    // Neither a read that will be waited for nor the number of requests pulls it: the page and
    // what is read ahead of it are one command.
    let mut queue = HostQueue::new(&plugged);
    queue.add(pages(0, Read, 0, 1), 0);
    queue.add(Queued { urgency: Background, ..pages(1, Read, 1, 3) }, 0);
    (2..6).for_each(|sequence| queue.add(pages(sequence, Write, sequence * 10, 1), 0));
    assert!(idles(&mut queue) && queue.is_plugged());
    queue.unplug();
    let Next::Dispatch(first) = queue.next(0, 0) else { panic!("a thread waits") };
    assert_eq!((first.bytes, first.parts.len()), (16 * KIB, 2));

    let mut full = HostQueue::new(&plugged);
    (0..6).for_each(|sequence| full.add(pages(sequence, Write, sequence * 10, 1), 0));
    assert!(idles(&mut full));
    full.add(pages(6, Write, 60, 1), 0);
    assert!(matches!(full.next(0, 0), Next::Dispatch(_)), "there was no room for the last");

    // The end of kupdate's pass pulls it at last.
    let mut late = HostQueue::new(&plugged);
    late.add(pages(0, Write, 0, 1), 0);
    assert_eq!(late.next(0, 0), Next::IdleUntil(5_000 * MS));
    assert!(matches!(late.next(0, 5_000 * MS), Next::Dispatch(_)));
}

#[test]
fn sleepers_go_on_when_a_quarter_of_all_requests_are_free() {
    let batched =
        QueueSettings { requests_max: 8, wake_up: WakeUp::QuarterFree, ..settings("noop") };
    let mut queue = HostQueue::new(&batched);
    (0..11).for_each(|sequence| queue.add(pages(sequence, Write, sequence * 10, 1), 0));
    assert_eq!((queue.outside(Write), queue.outside(Read)), (3, 0));
    // Of 16 in all, four have to be free; what is in the device is not.
    let send = |queue: &mut HostQueue| match queue.next(0, 0) {
        Next::Dispatch(command) => command.id,
        other => panic!("{other:?}"),
    };
    for ended in 1..=3 {
        let id = send(&mut queue);
        assert_eq!(queue.outside(Write), 3, "{ended} in the device");
        queue.completed(id, 0);
        assert_eq!(queue.outside(Write), 3, "{ended} ended");
    }
    // Nor does one that comes later find any of the three.
    queue.add(pages(11, Write, 110, 1), 0);
    assert_eq!(queue.outside(Write), 4);
    let id = send(&mut queue);
    queue.completed(id, 0);
    assert_eq!(queue.outside(Write), 0, "four are free, and taken");
    // Reads have requests of their own.
    queue.add(pages(12, Read, 500, 1), 0);
    assert_eq!(queue.outside(Read), 0);
    assert_eq!(drain(&mut queue).len(), 9);
}
