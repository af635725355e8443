//! The end of a pass: deleting what leaked, as far as `leaks` allows, and only after a last look at the object that
//! should own it (on the server, not in the cache) and at the thing itself.

use homeostat_core::Key;
use homeostat_core::journal::Verb;
use kube::Resource;
use kube::api::GetParams;
use kube::core::Request as Path;
use tokio::time::Instant;

use super::contract::World;
use super::desk::Desk;
use super::gate::Stopped;
use super::leaks::Suspicion;
use super::patrol::Patrol;
use super::survey::Finding;
use crate::error::Error;
use crate::kind::{Metadata, key};
use crate::talk::{Attempt, call};

impl<W: World> Patrol<W> {
    /// Deletes the leaks that are due. Returns how many, and why not all.
    pub(super) async fn sweep(&mut self, owned: usize) -> (usize, Option<String>) {
        let verdict = self.leaks.judge(&self.desk.policy.sweep, owned, Instant::now());
        if verdict.due.is_empty() {
            return (0, verdict.withheld);
        }
        if !self.desk.is_fresh() {
            return (0, Some("the cache is not in step with the server".to_owned()));
        }
        let (mut deleted, mut withheld) = (0, verdict.withheld);
        for (name, suspicion) in verdict.due {
            match self.desk.remove(&name, &suspicion).await {
                Ok(Removal::Deleted) => deleted += 1,
                Ok(Removal::Spared) => {}
                Ok(Removal::Later(why)) => {
                    withheld = Some(why.to_owned());
                    break;
                }
                Err(stopped) => {
                    withheld = Some(crate::fault::Fault::from(stopped).to_string());
                    break;
                }
            }
            self.leaks.remove(&name);
        }
        if let Some(why) = &withheld {
            tracing::warn!(world = W::NAME, why, "leaks were left for later");
        }
        (deleted, withheld)
    }
}

/// What came of a leak.
enum Removal {
    Deleted,
    /// The last look showed that it is none, or it is gone.
    Spared,
    Later(&'static str),
}

impl<W: World> Desk<W> {
    async fn remove(&self, name: &str, suspicion: &Suspicion) -> Result<Removal, Stopped> {
        let object = match suspicion {
            Suspicion::OwnerGone(owner) => owner.clone(),
            Suspicion::Unwanted | Suspicion::Stray => Self::target(name),
        };
        if !self.ground.fence.admits(&object) {
            return Ok(Removal::Spared);
        }
        if let Suspicion::OwnerGone(owner) = suspicion
            && self.exists(owner).await?
        {
            return Ok(Removal::Spared);
        }
        let Some(have) = self.gate.call(self.world.get(name)).await? else {
            self.forget_record(&object, name).await?;
            return Ok(Removal::Spared);
        };
        if self.look(name, &have) != Finding::Leak(suspicion.clone()) {
            return Ok(Removal::Spared);
        }
        if self.pace().is_err() {
            return Ok(Removal::Later("as many as a minute may take were deleted"));
        }
        let answer = self.gate.call(self.world.delete(name, &have)).await;
        self.noting(&object, Verb::Delete, name, answer)?;
        tracing::info!(world = W::NAME, name, ?suspicion, "a leak was deleted");
        self.forget_record(&object, name).await?;
        Ok(Removal::Deleted)
    }

    /// Does the object exist on the server, whatever the cache says?
    async fn exists(&self, owner: &Key) -> Result<bool, Error> {
        let namespace = Some(owner.namespace()).filter(|namespace| !namespace.is_empty());
        let path = Path::new(W::Kind::url_path(&(), namespace));
        let request = path.get(owner.name(), &GetParams::default());
        let attempt = Attempt { verb: "get", target: owner.as_str() };
        match call::<Metadata<W::Kind>>(&self.ground.client, attempt, request).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The things whose record names an object that is gone.
    pub(super) fn dangling(&self) -> Vec<(String, Suspicion)> {
        let Some(records) = &self.records else { return vec![] };
        let all = records.cache.list();
        let ours = all.iter().filter(|record| {
            record.spec.manager == self.manager() && record.spec.world == W::NAME && record.spec.made
        });
        let owners = ours.map(|record| {
            let spec = &record.spec;
            (spec.thing.clone(), key::<W::Kind>(&spec.owner_namespace, &spec.owner))
        });
        owners
            .filter(|(_, owner)| self.cache.get(owner).is_none() && self.is_in_scope(owner))
            .filter(|(thing, _)| self.claimants(thing).is_empty())
            .map(|(thing, owner)| (thing, Suspicion::OwnerGone(owner)))
            .collect()
    }
}
