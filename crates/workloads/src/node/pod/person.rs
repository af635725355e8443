//! Who a container runs as, and where that user finds the Pod's folders.
//!
//! The node's folder is closed to other users. A container that runs as another user gets the Pod's folders mounted where it
//! can reach them; without mount namespaces it can use its working directory, but not walk to it by name.
//!
//! Only root can make somebody else of a process. A node that is not root refuses such containers, gives only the groups it
//! is in itself, and says which it does not give.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod};
use rustix::fs::{Gid, Uid};

use super::environment::config_error;
use super::mount_path::clean;
use super::parts::all;
use super::status::Refusal;
use crate::node::Ground;
use crate::node::keeper::protocol::Mount;
use crate::node::keeper::walk;

/// Who a container is that must not be root and names no user, when the node is root.
const NOBODY: u32 = 65_534;
/// Where another user finds the Pod's own folder.
const HOME: &str = "/homeostat/home";
/// And its volumes.
const VOLUMES: &str = "/homeostat/volumes";

/// A user and a group; none is the node's own. More groups only root can give.
pub(crate) struct Person {
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) groups: Vec<u32>,
}

impl Person {
    /// Who the container asks to run as: by its own word, or its Pod's.
    pub(crate) fn of(pod: &Pod, container: &Container) -> Result<Self, Refusal> {
        Self::given_by(&Giver::this_process(), pod, container)
    }

    fn given_by(giver: &Giver, pod: &Pod, container: &Container) -> Result<Self, Refusal> {
        let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        let own = container.security_context.as_ref();
        let user = own.and_then(|own| own.run_as_user).or_else(|| of_pod.and_then(|pod| pod.run_as_user));
        let user = user.map(|id| number("runAsUser", id)).transpose()?;
        let group = own.and_then(|own| own.run_as_group).or_else(|| of_pod.and_then(|pod| pod.run_as_group));
        let group = group.map(|id| number("runAsGroup", id)).transpose()?;
        let must_not_be_root =
            own.and_then(|own| own.run_as_non_root).or_else(|| of_pod.and_then(|pod| pod.run_as_non_root));
        let user = match user {
            Some(0) if must_not_be_root == Some(true) => {
                let message = "container has runAsNonRoot and names root: set another runAsUser".to_owned();
                return Err(config_error(message));
            }
            // No image says who it is.
            None if must_not_be_root == Some(true) && giver.is_root() => Some(NOBODY),
            user => user,
        };
        giver.check("user", user, giver.user)?;
        giver.check("group", group, giver.group)?;
        let group = group.or_else(|| user.filter(|_| giver.is_root()));
        let mut groups = groups(pod)?;
        groups.retain(|_| giver.is_root());
        Ok(Self { user, group, groups })
    }

    /// Somebody else than the node?
    fn is_other(&self) -> bool {
        self.user.is_some_and(|user| user != own_user())
    }
}

/// Who makes somebody of a process: the node.
struct Giver {
    user: u32,
    group: u32,
    /// All groups it is in.
    groups: Vec<u32>,
}

impl Giver {
    fn this_process() -> Self {
        let group = rustix::process::getgid().as_raw();
        let more = rustix::process::getgroups().unwrap_or_default();
        let groups = more.into_iter().map(Gid::as_raw).chain([group]).collect();
        Self { user: own_user(), group, groups }
    }

    fn is_root(&self) -> bool {
        self.user == 0
    }

    fn check(&self, what: &str, wanted: Option<u32>, own: u32) -> Result<(), Refusal> {
        match wanted.filter(|wanted| *wanted != own && !self.is_root()) {
            Some(wanted) => Err(config_error(format!(
                "cannot run as {what} {wanted}: the server must run as root to run containers as others"
            ))),
            None => Ok(()),
        }
    }

    /// Can it give a process or a file this group?
    fn can_give(&self, group: u32) -> bool {
        self.is_root() || self.groups.contains(&group)
    }
}

/// The further groups of every container of the Pod: that of its volumes, and those it names.
fn groups(pod: &Pod) -> Result<Vec<u32>, Refusal> {
    let Some(context) = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref()) else {
        return Ok(Vec::new());
    };
    let named = context.supplemental_groups.iter().flatten().map(|id| number("supplementalGroups", *id));
    let of_volumes = context.fs_group.map(|id| number("fsGroup", id));
    of_volumes.into_iter().chain(named).collect()
}

/// The groups the Pod asks for and does not get.
pub(crate) fn withheld_groups(pod: &Pod) -> Vec<u32> {
    let giver = Giver::this_process();
    groups(pod).unwrap_or_default().into_iter().filter(|group| !giver.can_give(*group)).collect()
}

/// The group the Pod's volumes belong to, where the node may give them away.
pub(crate) fn volume_group(pod: &Pod) -> Option<u32> {
    let context = pod.spec.as_ref()?.security_context.as_ref()?;
    number("fsGroup", context.fs_group?).ok().filter(|group| Giver::this_process().can_give(*group))
}

/// The user other than the node that the container runs as.
pub(crate) fn other_user(pod: &Pod, container: &Container) -> Option<u32> {
    Person::of(pod, container).ok().filter(Person::is_other).and_then(|person| person.user)
}

/// The one user all containers of the Pod run as, none for the node's own; an error if there are several.
pub(crate) fn only_user(pod: &Pod) -> Result<Option<u32>, ()> {
    let containers = pod.spec.iter().flat_map(all).map(|part| part.container);
    let mut users = containers.map(|container| other_user(pod, container));
    let first = users.next().flatten();
    if users.all(|user| user == first) { Ok(first) } else { Err(()) }
}

/// A user or group by number. One that there cannot be is refused: it must never come to mean the node's own.
fn number(field: &str, id: i64) -> Result<u32, Refusal> {
    /// Kubernetes' own bound.
    const ID_MAX: u32 = 2_147_483_647;
    let known = u32::try_from(id).ok().filter(|id| *id <= ID_MAX);
    known.ok_or_else(|| config_error(format!("{field} {id}: must be between 0 and {ID_MAX}, inclusive")))
}

fn own_user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// The Pod's folders as a container sees them.
pub(crate) struct Place {
    /// The home on the machine.
    pub(crate) folder: PathBuf,
    /// Does it see the folders elsewhere than they are?
    pub(crate) is_apart: bool,
    pub(crate) home: PathBuf,
    pub(crate) volumes: PathBuf,
    pub(crate) mounts: Vec<Mount>,
}

impl Place {
    /// Makes the Pod's folders, for this person. Where its containers are several users, each has a home of its own.
    pub(crate) fn make(
        ground: &Ground,
        pod: &Pod,
        container: &Container,
        person: &Person,
    ) -> Result<Self, Refusal> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let other = person.user.filter(|_| person.is_other());
        let folder = match other {
            Some(user) if only_user(pod).is_err() => ground.layout.home(uid, user),
            _ => ground.layout.work(uid),
        };
        let volumes = ground.layout.volumes(uid);
        made(&volumes)?;
        let opened = made(&folder)?;
        if other.is_some() {
            // Without the right to give folders away there is none to become somebody else: the launcher will say so.
            let group = person.group.map(Gid::from_raw);
            let _ = rustix::fs::fchown(opened, other.map(Uid::from_raw), group);
        }
        let is_apart = other.is_some() || is_covered(ground, container);
        if !is_apart || !ground.has_namespaces {
            return Ok(Self { home: folder.clone(), folder, volumes, is_apart: false, mounts: Vec::new() });
        }
        let mount = |source: &Path, target: &str| Mount {
            source: source.to_owned(),
            part: PathBuf::new(),
            target: target.into(),
            is_read_only: false,
            is_own: true,
        };
        let mounts = vec![mount(&folder, HOME), mount(&volumes, VOLUMES)];
        Ok(Self { folder, home: HOME.into(), volumes: VOLUMES.into(), is_apart: true, mounts })
    }
}

/// Does a volume of the container cover the node's folder, as one at `/tmp` may?
fn is_covered(ground: &Ground, container: &Container) -> bool {
    let mut paths = container.volume_mounts.iter().flatten().map(|mount| &mount.mount_path);
    let covers = |path: PathBuf| ground.layout.root().starts_with(Path::new("/").join(path));
    paths.any(|path| path.starts_with('/') && clean(path).is_ok_and(covers))
}

fn made(folder: &Path) -> Result<OwnedFd, Refusal> {
    let failed = |error: io::Error| config_error(format!("cannot make {}: {error}", folder.display()));
    walk::own_folder(folder).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const ROOT: (u32, u32) = (0, 0);

    #[track_caller]
    fn check(of_pod: &Value, own: &Value, expected: Result<(Option<u32>, Option<u32>), &str>) {
        check_by(ROOT, of_pod, own, expected);
    }

    #[track_caller]
    fn check_by(
        (user, group): (u32, u32),
        of_pod: &Value,
        own: &Value,
        expected: Result<(Option<u32>, Option<u32>), &str>,
    ) {
        let container = json!({"name": "main", "securityContext": own});
        let pod: Pod = serde_json::from_value(
            json!({"metadata": {}, "spec": {"securityContext": of_pod, "containers": [container]}}),
        )
        .unwrap();
        let giver = Giver { user, group, groups: vec![group] };
        let person = Person::given_by(&giver, &pod, &pod.spec.as_ref().unwrap().containers[0]);
        match (person, expected) {
            (Ok(person), Ok(expected)) => assert_eq!((person.user, person.group), expected),
            (Err(refusal), Err(words)) => assert!(refusal.message.contains(words), "{}", refusal.message),
            (person, _) => panic!("{:?}", person.map(|person| (person.user, person.group))),
        }
    }

    #[test]
    fn an_id_that_cannot_be_is_nobody() {
        let none = json!({});
        check(&none, &none, Ok((None, None)));
        check(&json!({"runAsUser": 5}), &none, Ok((Some(5), Some(5))));
        check(&json!({"runAsUser": 5, "runAsGroup": 6}), &json!({"runAsUser": 7}), Ok((Some(7), Some(6))));
        check(&none, &json!({"runAsUser": 2_147_483_647}), Ok((Some(2_147_483_647), Some(2_147_483_647))));
        check(&json!({"fsGroup": 7, "supplementalGroups": [8]}), &none, Ok((None, None)));
        for id in [-1_i64, 2_147_483_648, 4_294_967_295, 99_999_999_999] {
            check(&none, &json!({"runAsUser": id}), Err("runAsUser"));
            check(&json!({"runAsGroup": id}), &json!({"runAsUser": 1}), Err("runAsGroup"));
            check(&json!({"fsGroup": id}), &none, Err("fsGroup"));
            check(&json!({"supplementalGroups": [1, id]}), &none, Err("supplementalGroups"));
        }
    }
    #[test]
    fn only_root_makes_somebody_else() {
        let me = (1000, 100);
        let none = json!({});
        check_by(me, &none, &none, Ok((None, None)));
        check_by(me, &json!({"runAsNonRoot": true}), &none, Ok((None, None)));
        check_by(me, &json!({"runAsUser": 1000}), &none, Ok((Some(1000), None)));
        check_by(me, &json!({"runAsGroup": 100}), &none, Ok((None, Some(100))));
        check_by(me, &json!({"fsGroup": 5}), &none, Ok((None, None)));
        let words = "the server must run as root";
        check_by(me, &json!({"runAsUser": 0}), &none, Err(words));
        check_by(me, &none, &json!({"runAsUser": 5}), Err("cannot run as user 5"));
        check_by(me, &none, &json!({"runAsGroup": 5}), Err("cannot run as group 5"));
    }
}
