//! Threads that were started before there is a mount: where the host gives none, nothing was
//! mounted that would have to be taken away again.
//!
//! *Invariants*: each thread waits for one order, and then serves or ends. Dropping the recruits
//! orders the end.
//! *Locking*: one short lock, under which nothing is called.
use super::{Crew, Serve, Settings, Workers, work};
use crate::transport::Transport;
use extant_block::{Clock, ShortLock, Task, WaitQueue};
use std::io;
use std::sync::Arc;

/// What a thread waits for.
#[derive(Clone, Default)]
enum Order {
    /// Nothing was said yet.
    #[default]
    Wait,
    Serve(Arc<Crew>),
    End,
}

/// Where the threads wait.
struct Station {
    order: ShortLock<Order>,
    given: WaitQueue,
}

/// Threads that wait for a mount.
pub struct Recruits {
    pub(super) clock: Arc<dyn Clock>,
    station: Arc<Station>,
    tasks: Vec<Task>,
}

impl Recruits {
    /// Starts this many workers, at least one, and their watcher.
    ///
    /// # Errors
    /// Those of the host: it gives no thread. None is left then.
    pub fn start(clock: Arc<dyn Clock>, workers: usize) -> io::Result<Recruits> {
        let given = WaitQueue::new(Arc::clone(&clock));
        let station = Arc::new(Station { order: ShortLock::default(), given });
        let mut recruits = Recruits { clock, station, tasks: Vec::new() };
        for worker in 0..workers.max(1) {
            recruits.add(&format!("worker-{worker}"), move |crew| work(&crew, worker))?;
        }
        recruits.add("watcher", |crew| crew.watch())?;
        Ok(recruits)
    }

    fn add(&mut self, name: &str, job: impl FnOnce(Arc<Crew>) + Send + 'static) -> io::Result<()> {
        let station = Arc::clone(&self.station);
        let body = Box::new(move || {
            if let Some(crew) = station.crew() {
                job(crew);
            }
        });
        self.tasks.push(self.clock.try_spawn(name, body)?);
        Ok(())
    }

    /// They serve `transport`, whose first message was answered, until it ends. Of the settings,
    /// the number of threads was chosen before.
    pub fn serve(
        mut self,
        transport: Arc<dyn Transport>,
        server: Arc<dyn Serve>,
        settings: Settings,
    ) -> Workers {
        let crew = Workers::of(&self, transport, server, settings);
        self.station.say(Order::Serve(Arc::clone(&crew)));
        Workers { crew, tasks: std::mem::take(&mut self.tasks) }
    }
}

impl Drop for Recruits {
    fn drop(&mut self) {
        let tasks = std::mem::take(&mut self.tasks);
        // Those that serve have their order.
        if !tasks.is_empty() {
            self.station.say(Order::End);
            tasks.into_iter().for_each(Task::join);
        }
    }
}

impl Station {
    /// Waits for the order: the crew to serve in, or none at the end.
    fn crew(&self) -> Option<Arc<Crew>> {
        self.given.wait_until(&self.order, |order| match order {
            Order::Wait => None,
            Order::Serve(crew) => Some(Some(Arc::clone(crew))),
            Order::End => Some(None),
        })
    }

    fn say(&self, order: Order) {
        *self.order.lock() = order;
        self.given.wake_all();
    }
}
