//! What a member stands on: a disk, and ways to the others. In a simulation they are not the machine's. It decides nothing.

use super::identity::{self, IdentityError, Owner, Record};
use super::kept::Kept;
use super::{Group, GroupConfig};
use crate::disk::{DiskRef, RealDisk};
use crate::peer::Peers;
use crate::wal::{OpenError, Wal, WalConfig};
use std::path::Path;

#[derive(Clone)]
pub struct Ground {
    pub disk: DiskRef,
    pub wal: WalConfig,
    #[cfg(test)]
    pub simulation: Option<crate::sim::Place>,
}

impl Ground {
    /// The machine that this process runs on.
    pub fn machine() -> Self {
        Self {
            disk: RealDisk::shared(),
            wal: WalConfig::default(),
            #[cfg(test)]
            simulation: None,
        }
    }

    pub fn open_log(&self, dir: &Path, config: WalConfig) -> Result<Wal, OpenError> {
        #[cfg(test)]
        if let Some(place) = &self.simulation {
            let (wal, stepper) = Wal::open_stepped(self.disk.clone(), dir, config)?;
            place.run_log(stepper);
            return Ok(wal);
        }
        Wal::open_on(self.disk.clone(), dir, config)
    }

    #[cfg(test)]
    pub fn simulated(&self) -> bool {
        self.simulation.is_some()
    }

    #[cfg(not(test))]
    pub fn simulated(&self) -> bool {
        false
    }

    /// Whose data there is, where that stands, and which other members' directories it knows.
    pub async fn identity(&self, config: &GroupConfig) -> Result<(Owner, Record, Kept), IdentityError> {
        #[cfg(test)]
        if let Some(place) = &self.simulation {
            return Ok(place.papers.open());
        }
        Ok((identity::check(config).await?, Record::Dir(config.dir.clone()), Kept::read(&config.dir)?))
    }

    /// Gives the way to the others, if it is not the machine's network.
    #[cfg_attr(not(test), allow(unused_mut, reason = "only a simulation gives another way"))]
    pub fn reach(&self, mut peers: Peers) -> Peers {
        #[cfg(test)]
        if let Some(place) = &self.simulation {
            peers.simulated = Some(place.lines());
        }
        peers
    }

    /// Answers the others, if they do not come over the machine's network.
    #[cfg_attr(not(test), allow(unused_variables, reason = "only a simulation has another way"))]
    pub fn serve(&self, group: &Group) {
        #[cfg(test)]
        if let Some(place) = &self.simulation {
            place.serve(crate::peer::PeerService::new(group.handle.clone()));
        }
    }
}
