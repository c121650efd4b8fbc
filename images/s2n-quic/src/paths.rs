//! The paths of a connection, from s2n-quic's events: whose a controller is, and when it goes by what another one leaves.

use s2n_quic::provider::event::events::{ActivePathUpdated, ConnectionStarted, FrameReceived, PathCreated};
use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber};

use crate::handover::{Left, Newest, Shared, lock};
use crate::place::{self, Place};

/// Watches over all connections.
pub struct Watch {
    newest: Newest,
}

impl Watch {
    pub fn new(newest: Newest) -> Self {
        Self { newest }
    }

    /// s2n-quic tells of each path right after it has asked for its controller.
    fn add(&self, paths: &mut Paths, id: u64) {
        if let Some(path) = lock(&self.newest).take() {
            // A path that could not be authenticated gives its number to another one.
            paths.known.retain(|(known, _)| *known != id);
            paths.known.push((id, path));
        }
    }
}

/// Those of one connection.
#[derive(Default)]
pub struct Paths {
    known: Vec<(u64, Shared)>,
    place: Place,
    /// What the path leaves that the client is at, before the frames of a packet by another one. What they acknowledge took the
    /// new path, and overtook others on the old one.
    left: Option<Left>,
}

impl Paths {
    fn get(&self, id: u64) -> Option<&Shared> {
        self.known.iter().find_map(|(known, path)| (*known == id).then_some(path))
    }
}

impl Subscriber for Watch {
    type ConnectionContext = Paths;

    fn create_connection_context(&mut self, _: &ConnectionMeta, _: &ConnectionInfo) -> Paths {
        Paths::default()
    }

    fn on_connection_started(&mut self, paths: &mut Paths, _: &ConnectionMeta, event: &ConnectionStarted) {
        self.add(paths, event.path.id);
    }

    fn on_path_created(&mut self, paths: &mut Paths, _: &ConnectionMeta, event: &PathCreated) {
        self.add(paths, event.new.id);
    }

    fn on_frame_received(&mut self, paths: &mut Paths, meta: &ConnectionMeta, event: &FrameReceived) {
        if place::on_frame(&mut paths.place, meta, event) {
            paths.left = paths.get(paths.place.at()).and_then(|at| lock(at).leaves());
        }
    }

    fn on_active_path_updated(&mut self, paths: &mut Paths, meta: &ConnectionMeta, event: &ActivePathUpdated) {
        if place::on_active_path(&mut paths.place, meta, event)
            && let Some(left) = paths.left.take()
            && let Some(path) = paths.get(event.active.id)
        {
            lock(path).inherit(left);
        }
    }
}
