//! Who a container runs as, and where that user finds the Pod's folders.
//!
//! The node's folder is closed to other users. A container that runs as another user gets the Pod's folders mounted where it
//! can reach them; without mount namespaces it can use its working directory, but not walk to it by name.

use std::fs;
use std::os::unix::fs::chown;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::environment::config_error;
use super::status::Refusal;
use crate::node::Ground;
use crate::node::keeper::protocol::Mount;

/// Where another user finds the Pod's own folder.
const HOME: &str = "/homeostat/home";
/// And its volumes.
const VOLUMES: &str = "/homeostat/volumes";

/// A user and a group; none is the node's own.
pub(crate) struct Person {
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
}

impl Person {
    /// Who the container asks to run as: by its own word, or its Pod's.
    pub(crate) fn of(pod: &Pod, container: &Container) -> Result<Self, Refusal> {
        let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        let own = container.security_context.as_ref();
        let number = |id: Option<i64>| id.and_then(|id| u32::try_from(id).ok());
        let user = own.and_then(|own| own.run_as_user).or_else(|| of_pod.and_then(|pod| pod.run_as_user));
        let group = own.and_then(|own| own.run_as_group).or_else(|| of_pod.and_then(|pod| pod.run_as_group));
        let must_not_be_root =
            own.and_then(|own| own.run_as_non_root).or_else(|| of_pod.and_then(|pod| pod.run_as_non_root));
        let person = Self { user: number(user), group: number(group).or(number(user)) };
        if must_not_be_root == Some(true) && person.user.unwrap_or_else(own_user) == 0 {
            let message = "container has runAsNonRoot and would run as root: set runAsUser".to_owned();
            return Err(config_error(message));
        }
        Ok(person)
    }

    /// Somebody else than the node?
    fn is_other(&self) -> bool {
        self.user.is_some_and(|user| user != own_user())
    }
}

fn own_user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// The Pod's folders as a container sees them.
pub(crate) struct Place {
    pub(crate) home: PathBuf,
    pub(crate) volumes: PathBuf,
    pub(crate) mounts: Vec<Mount>,
}

impl Place {
    /// Makes the Pod's folder, for this person.
    pub(crate) fn make(ground: &Ground, uid: &str, person: &Person) -> Result<Self, Refusal> {
        let (home, volumes) = (ground.layout.work(uid), ground.layout.volumes(uid));
        for folder in [&home, &volumes] {
            fs::create_dir_all(folder)
                .map_err(|error| config_error(format!("cannot make {}: {error}", folder.display())))?;
        }
        if !person.is_other() {
            return Ok(Self { home, volumes, mounts: Vec::new() });
        }
        // Without the right to give folders away there is none to become somebody else: the launcher will say so.
        let _ = chown(&home, person.user, person.group);
        if !ground.has_namespaces {
            return Ok(Self { home, volumes, mounts: Vec::new() });
        }
        let mount =
            |source: PathBuf, target: &str| Mount { source, target: target.into(), is_read_only: false };
        let mounts = vec![mount(home, HOME), mount(volumes, VOLUMES)];
        Ok(Self { home: HOME.into(), volumes: VOLUMES.into(), mounts })
    }
}
