//! Decides which user a container runs as: on this machine, and as the container sees itself.
//!
//! A node that is root gives every Pod its own user (see `id_blocks`). An ID that a Pod names is used unchanged if no
//! user of the machine has it. Otherwise the container gets a user namespace in which it has that ID, while outside, a
//! user without permissions stands in for it: root in a container is root nowhere else. A Pod that names an ID, or
//! shares a claim's files with another Pod, also gets a user namespace, so that two Pods with the same user cannot
//! inspect each other's processes.
//!
//! A node that runs Pods as one account (`--node-as`), or that is not root, has only that account and refuses others.
//! **Invariant:** a Pod that cannot be kept away from the server's data is refused, unless the node's owner named the
//! account.

use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext};

use super::container_roles::all_containers;
use super::environment::config_error;
use super::status::StartRefusal;
use crate::node::id_blocks::{IdBlock, NOBODY, is_reserved};
use crate::node::supervisor::protocol::IdRange;
use crate::node::user_accounts::{self, UserAccount};

/// Which users the node can run containers as.
#[derive(Clone, Debug)]
pub(crate) enum IdentityPolicy {
    /// The node is root: each Pod gets its own user.
    AnyUser {
        /// Whether IDs can have stand-ins.
        has_user_namespaces: bool,
    },
    /// All containers run as this account: the node's own, or the one its owner named.
    OneUser {
        account: UserAccount,
        /// Whether the node can assign groups and users at all.
        is_root: bool,
        /// Whether the owner named the account; if so, it may be the server's own.
        is_named: bool,
        /// Whether each container gets its own user namespace.
        has_user_namespaces: bool,
    },
}

impl IdentityPolicy {
    /// Decides based on this process's permissions: the named account, all users if it is root, or its own account.
    pub(crate) fn new(named: Option<UserAccount>, has_user_namespaces: bool) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        match named {
            None if is_root => Self::AnyUser { has_user_namespaces },
            named => Self::OneUser {
                is_named: named.is_some(),
                account: named.unwrap_or_else(UserAccount::of_this_process),
                is_root,
                has_user_namespaces,
            },
        }
    }
}

/// A Pod's blocks of IDs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodIdBlocks {
    /// The Pod's own block, which nothing else shares.
    pub(crate) own: IdBlock,
    /// The block that owns the Pod's files: its first claim's, if it has any, so that the next Pod has the same owner.
    pub(crate) files: IdBlock,
}

/// A container's users and groups. `None` means the node's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerIdentity {
    /// As the container sees itself.
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) groups: Vec<u32>,
    /// As the machine sees it.
    pub(crate) machine_user: Option<u32>,
    pub(crate) machine_group: Option<u32>,
    /// The mappings of its user namespace; empty without one.
    pub(crate) ranges: Vec<IdRange>,
}

/// The identity that a Pod and a container request.
struct RequestedIdentity {
    user: Option<u32>,
    group: Option<u32>,
    groups: Vec<u32>,
    must_not_be_root: bool,
    /// Set for `hostUsers: false`: no ID is used unchanged.
    has_private_ids: bool,
}

impl RequestedIdentity {
    fn of(pod: &Pod, container: &Container) -> Result<Self, StartRefusal> {
        let (of_pod, own) = (context(pod), container.security_context.as_ref());
        let user = own.and_then(|own| own.run_as_user).or_else(|| of_pod.and_then(|pod| pod.run_as_user));
        let group = own.and_then(|own| own.run_as_group).or_else(|| of_pod.and_then(|pod| pod.run_as_group));
        let must_not_be_root =
            own.and_then(|own| own.run_as_non_root).or_else(|| of_pod.and_then(|pod| pod.run_as_non_root));
        let requested = Self {
            user: user.map(|id| checked_id("runAsUser", id)).transpose()?,
            group: group.map(|id| checked_id("runAsGroup", id)).transpose()?,
            groups: groups(pod)?,
            must_not_be_root: must_not_be_root == Some(true),
            has_private_ids: pod.spec.as_ref().and_then(|spec| spec.host_users) == Some(false),
        };
        if requested.must_not_be_root && requested.user == Some(0) {
            let message = "container has runAsNonRoot and will run as root: set another runAsUser";
            return Err(config_error(message.to_owned()));
        }
        Ok(requested)
    }
}

fn context(pod: &Pod) -> Option<&PodSecurityContext> {
    pod.spec.as_ref()?.security_context.as_ref()
}

impl ContainerIdentity {
    /// Determines which user the container runs as, from its own settings and its Pod's.
    pub(crate) fn of(
        identity_policy: &IdentityPolicy,
        blocks: Option<PodIdBlocks>,
        pod: &Pod,
        container: &Container,
    ) -> Result<Self, StartRefusal> {
        let requested = RequestedIdentity::of(pod, container)?;
        match (identity_policy, blocks) {
            (IdentityPolicy::AnyUser { has_user_namespaces }, Some(blocks)) => {
                identity_of_own_user(&requested, blocks, *has_user_namespaces)
            }
            (IdentityPolicy::AnyUser { .. }, None) => {
                Err(config_error("cannot find a user for this Pod: its folder cannot be created".to_owned()))
            }
            (identity_policy, blocks) => identity_of_one_user(identity_policy, &requested, blocks),
        }
    }
}

/// Returns the Pod's own user, or the one it names.
fn identity_of_own_user(
    requested: &RequestedIdentity,
    blocks: PodIdBlocks,
    has_user_namespaces: bool,
) -> Result<ContainerIdentity, StartRefusal> {
    let mut mapper = IdMapper {
        blocks,
        has_private_ids: requested.has_private_ids,
        has_user_namespaces,
        plain: Vec::new(),
        has_stand_ins: false,
    };
    let own = blocks.files.user();
    let user = requested.user.map(|id| mapper.map_id(id, "user", user_accounts::name_of_user)).transpose()?;
    let group = match requested.group.or(requested.user) {
        Some(id) => Some(mapper.map_id(id, "group", user_accounts::name_of_group)?),
        None => None,
    };
    let groups: Vec<u32> = requested
        .groups
        .iter()
        .copied()
        .filter(|id| mapper.map_id(*id, "group", user_accounts::name_of_group).is_ok())
        .collect();
    let is_among_others = requested.user.is_some() || blocks.files != blocks.own;
    let has_namespace = mapper.has_stand_ins || (has_user_namespaces && is_among_others);
    mapper.plain.push(own);
    Ok(ContainerIdentity {
        user: requested.user.or(Some(own)),
        group: requested.group.or(requested.user).or(Some(own)),
        groups,
        machine_user: user.or(Some(own)),
        machine_group: group.or(Some(own)),
        ranges: if has_namespace { blocks.own.ranges(&mapper.plain) } else { Vec::new() },
    })
}

/// Maps each ID to the one on the machine.
struct IdMapper {
    blocks: PodIdBlocks,
    has_private_ids: bool,
    has_user_namespaces: bool,
    /// IDs that are used unchanged.
    plain: Vec<u32>,
    has_stand_ins: bool,
}

impl IdMapper {
    fn map_id(&mut self, id: u32, what: &str, name: fn(u32) -> Option<String>) -> Result<u32, StartRefusal> {
        if is_reserved(id) {
            let message = format!(
                "cannot run as {what} {id}: this node assigns the IDs in this range itself; leave it out or choose an ID below the range"
            );
            return Err(config_error(message));
        }
        let name = name(id);
        if name.is_none() && !(self.has_private_ids && self.has_user_namespaces) {
            self.plain.push(id);
            return Ok(id);
        }
        let stand_in = self.blocks.own.stand_in(id).filter(|_| self.has_user_namespaces);
        match (stand_in, name) {
            (Some(stand_in), _) => {
                self.has_stand_ins = true;
                Ok(stand_in)
            }
            // `nobody` owns nothing anywhere.
            (None, _) if id == NOBODY => {
                self.plain.push(id);
                Ok(id)
            }
            (None, Some(name)) => Err(config_error(format!(
                "cannot run as {what} {id}, which is {name} on this machine: Pods never get the rights of a user of this machine, and this \
                 system offers no user namespaces, which would let another user stand in. Choose another ID or none, or \
                 start the server with --node-as {name} to run all Pods as that user"
            ))),
            (None, None) => Err(config_error(format!(
                "hostUsers: false works only with IDs below 32766 here, not with {what} {id}"
            ))),
        }
    }
}

/// Returns the only account.
fn identity_of_one_user(
    identity_policy: &IdentityPolicy,
    requested: &RequestedIdentity,
    blocks: Option<PodIdBlocks>,
) -> Result<ContainerIdentity, StartRefusal> {
    let IdentityPolicy::OneUser { account, is_root, is_named, has_user_namespaces } = identity_policy else {
        return Err(config_error("this node does not run all Pods as one user".to_owned()));
    };
    let UserAccount { name, user, group, groups } = account;
    if !is_root && !is_named && !has_user_namespaces {
        return Err(config_error(format!(
            "the Pod would run as {name}, like the server, and could read all of its data, its keys and every \
             Secret: this system offers it no user namespace of its own. Start the server with --node-as {name} to allow that"
        )));
    }
    let why = if *is_root {
        format!("this node runs all Pods as {name} (--node-as)")
    } else {
        "the server must run as root to run containers as other users".to_owned()
    };
    if let Some(other) = requested.user.filter(|wanted| wanted != user) {
        return Err(config_error(format!("cannot run as user {other}: {why}; leave runAsUser out")));
    }
    if let Some(other) =
        requested.group.filter(|wanted| !(wanted == group || *is_root && groups.contains(wanted)))
    {
        return Err(config_error(format!("cannot run as group {other}: {why}; leave runAsGroup out")));
    }
    if requested.must_not_be_root && *user == 0 {
        return Err(config_error(format!("container has runAsNonRoot, and {why}")));
    }
    if !is_root {
        return Ok(ContainerIdentity {
            user: requested.user,
            group: requested.group,
            ..ContainerIdentity::default()
        });
    }
    let more: Vec<u32> = requested.groups.iter().copied().filter(|wanted| groups.contains(wanted)).collect();
    let group = requested.group.unwrap_or(*group);
    let plain: Vec<u32> = [*user, group].iter().chain(&more).copied().collect();
    let has_namespace = *has_user_namespaces && *user != 0;
    let ranges = blocks.filter(|_| has_namespace).map(|blocks| blocks.own.ranges(&plain));
    Ok(ContainerIdentity {
        user: Some(*user),
        group: Some(group),
        groups: more,
        machine_user: Some(*user),
        machine_group: Some(group),
        ranges: ranges.unwrap_or_default(),
    })
}

/// Returns the supplementary groups of all containers in the Pod: its volumes' group, and those it names.
fn groups(pod: &Pod) -> Result<Vec<u32>, StartRefusal> {
    let Some(context) = context(pod) else { return Ok(Vec::new()) };
    let named = context.supplemental_groups.iter().flatten().map(|id| checked_id("supplementalGroups", *id));
    let of_volumes = context.fs_group.map(|id| checked_id("fsGroup", id));
    of_volumes.into_iter().chain(named).collect()
}

/// Checks a user or group ID. Refuses an invalid ID, because it must never be mistaken for the node's own.
fn checked_id(field: &str, id: i64) -> Result<u32, StartRefusal> {
    /// The same limit as in Kubernetes.
    const ID_MAX: u32 = 2_147_483_647;
    let known = u32::try_from(id).ok().filter(|id| *id <= ID_MAX);
    known.ok_or_else(|| config_error(format!("{field} {id}: must be between 0 and {ID_MAX}, inclusive")))
}

/// The identities of a Pod's containers.
pub(crate) struct PodIdentities<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) identity_policy: &'a IdentityPolicy,
    pub(crate) blocks: Option<PodIdBlocks>,
    /// Claims whose files belong to a different Pod's user.
    pub(crate) shared_claims: Vec<String>,
}

impl PodIdentities<'_> {
    pub(crate) fn identity_of(&self, container: &Container) -> Result<ContainerIdentity, StartRefusal> {
        ContainerIdentity::of(self.identity_policy, self.blocks, self.pod, container)
    }

    /// Returns the groups that the Pod requests but does not get.
    pub(crate) fn withheld_groups(&self) -> Vec<u32> {
        let asked = groups(self.pod).unwrap_or_default();
        asked.into_iter().filter(|group| self.machine_group(*group).is_none()).collect()
    }

    /// Returns the group of the Pod's volumes, if the node may assign groups.
    pub(crate) fn volume_group(&self) -> Option<u32> {
        self.machine_group(checked_id("fsGroup", context(self.pod)?.fs_group?).ok()?)
    }

    /// Returns the ID of a supplementary group on the machine.
    fn machine_group(&self, group: u32) -> Option<u32> {
        match (self.identity_policy, self.blocks) {
            (IdentityPolicy::OneUser { account, .. }, _) => {
                Some(group).filter(|group| account.groups.contains(group))
            }
            (IdentityPolicy::AnyUser { has_user_namespaces }, Some(blocks)) => {
                let has_private_ids = self.pod.spec.as_ref().and_then(|spec| spec.host_users) == Some(false);
                let has_user_namespaces = *has_user_namespaces;
                let mut mapper = IdMapper {
                    blocks,
                    has_private_ids,
                    has_user_namespaces,
                    plain: Vec::new(),
                    has_stand_ins: false,
                };
                mapper.map_id(group, "group", user_accounts::name_of_group).ok()
            }
            (IdentityPolicy::AnyUser { .. }, None) => None,
        }
    }

    /// Returns the groups that let a process traverse to the Pod's folders and claims if nothing is mounted.
    pub(crate) fn passing_groups(&self) -> Vec<u32> {
        let groups = self.blocks.map(|blocks| vec![blocks.own.user(), blocks.files.user()]);
        groups.unwrap_or_default()
    }

    /// Returns the one user that all containers run as on the machine, `None` for the node's own. Fails if they differ.
    pub(crate) fn only_user(&self) -> Result<Option<u32>, ()> {
        let containers = self.pod.spec.iter().flat_map(all_containers).map(|part| part.container);
        let mut users = containers
            .map(|container| self.identity_of(container).ok().and_then(|identity| identity.machine_user));
        let first = users.next().flatten();
        if users.all(|user| user == first) { Ok(first) } else { Err(()) }
    }

    /// Returns the owner of the files that the node creates for the Pod; `None` for root. A user that the Pod names
    /// finds them owned by root, as in Kubernetes.
    pub(crate) fn owner(&self) -> Option<u32> {
        let is_ours =
            |user: u32| is_reserved(user) || matches!(self.identity_policy, IdentityPolicy::OneUser { .. });
        match self.only_user() {
            Ok(user) => user.filter(|user| is_ours(*user)),
            Err(()) => self.blocks.map(|blocks| blocks.files.user()),
        }
    }

    /// Returns the group of those files.
    pub(crate) fn owning_group(&self) -> Option<u32> {
        match self.identity_policy {
            IdentityPolicy::OneUser { account, is_root: true, .. } => Some(account.group),
            _ => self.owner(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// An ID that no user here has.
    const UNKNOWN: u32 = 54_350;

    fn blocks() -> PodIdBlocks {
        let block = IdBlock::containing(0x7000_0000).unwrap();
        PodIdBlocks { own: block, files: block }
    }

    fn somebody_with(has_user_namespaces: bool) -> IdentityPolicy {
        IdentityPolicy::AnyUser { has_user_namespaces }
    }

    fn identity_of_one_user(
        user: u32,
        is_root: bool,
        is_named: bool,
        has_user_namespaces: bool,
    ) -> IdentityPolicy {
        let account = UserAccount { name: "ada".to_owned(), user, group: 100, groups: vec![100, 200] };
        IdentityPolicy::OneUser { account, is_root, is_named, has_user_namespaces }
    }

    fn identity(
        identity_policy: &IdentityPolicy,
        of_pod: &Value,
        own: &Value,
    ) -> Result<ContainerIdentity, StartRefusal> {
        let container = json!({"name": "main", "securityContext": own});
        let pod: Pod = serde_json::from_value(
            json!({"metadata": {}, "spec": {"securityContext": of_pod, "containers": [container]}}),
        )
        .unwrap();
        ContainerIdentity::of(
            identity_policy,
            Some(blocks()),
            &pod,
            &pod.spec.as_ref().unwrap().containers[0],
        )
    }

    /// Checks the container's identity in its own view and on the machine.
    #[track_caller]
    fn check(
        identity_policy: &IdentityPolicy,
        of_pod: &Value,
        own: &Value,
        expected: Result<(u32, u32), &str>,
    ) {
        match (identity(identity_policy, of_pod, own), expected) {
            (Ok(who), Ok(expected)) => assert_eq!((who.user.unwrap(), who.machine_user.unwrap()), expected),
            (Err(refusal), Err(words)) => assert!(refusal.message.contains(words), "{}", refusal.message),
            (who, _) => panic!("{who:?}"),
        }
    }

    #[test]
    fn a_number_of_the_machine_has_a_stand_in() {
        let (none, own) = (json!({}), blocks().own.user());
        let root = json!({"runAsUser": 0});
        for has_user_namespaces in [true, false] {
            let identity_policy = somebody_with(has_user_namespaces);
            check(&identity_policy, &none, &none, Ok((own, own)));
            check(&identity_policy, &json!({"runAsNonRoot": true}), &none, Ok((own, own)));
            check(&identity_policy, &json!({"runAsUser": UNKNOWN}), &none, Ok((UNKNOWN, UNKNOWN)));
            check(
                &identity_policy,
                &json!({"runAsUser": UNKNOWN}),
                &json!({"runAsUser": 54_351}),
                Ok((54_351, 54_351)),
            );
            check(
                &identity_policy,
                &json!({"runAsUser": own}),
                &none,
                Err("this node assigns the IDs in this range itself"),
            );
            check(
                &identity_policy,
                &root,
                &json!({"runAsNonRoot": true}),
                Err("runAsNonRoot and will run as root"),
            );
        }
        check(&somebody_with(true), &root, &none, Ok((0, blocks().own.stand_in(0).unwrap())));
        let nobody = blocks().own.stand_in(NOBODY).unwrap();
        check(&somebody_with(true), &json!({"runAsUser": NOBODY}), &none, Ok((NOBODY, nobody)));
        check(&somebody_with(false), &json!({"runAsUser": NOBODY}), &none, Ok((NOBODY, NOBODY)));
        check(
            &somebody_with(false),
            &root,
            &none,
            Err("cannot run as user 0, which is root on this machine"),
        );
        let group = json!({"runAsUser": UNKNOWN, "runAsGroup": 0});
        check(&somebody_with(false), &group, &none, Err("cannot run as group 0, which is root"));
    }

    #[test]
    fn groups_of_the_machine_have_stand_ins_too() {
        let requested =
            json!({"runAsUser": UNKNOWN, "runAsGroup": 0, "fsGroup": 0, "supplementalGroups": [UNKNOWN]});
        let who = identity(&somebody_with(true), &requested, &json!({})).unwrap();
        assert_eq!((who.group, who.machine_group), (Some(0), blocks().own.stand_in(0)));
        assert_eq!(who.groups, [0, UNKNOWN]);
        let outside = |id: u32| {
            let at =
                |range: &IdRange| id.checked_sub(range.inside).filter(|distance| *distance < range.count);
            who.ranges.iter().find_map(|range| Some(range.outside + at(range)?))
        };
        assert_eq!((outside(0), outside(UNKNOWN)), (blocks().own.stand_in(0), Some(UNKNOWN)));
        let requested = json!({"fsGroup": 0, "supplementalGroups": [UNKNOWN]});
        assert_eq!(identity(&somebody_with(false), &requested, &json!({})).unwrap().groups, [UNKNOWN]);
    }

    /// A container that shares its ID with others gets a user namespace; one that does not share its ID needs none.
    #[test]
    fn only_who_is_among_others_is_in_a_namespace() {
        let ranges =
            |requested: Value| identity(&somebody_with(true), &requested, &json!({})).unwrap().ranges;
        assert!(ranges(json!({})).is_empty());
        assert!(!ranges(json!({"runAsUser": UNKNOWN})).is_empty());
        assert!(!ranges(json!({"supplementalGroups": [0]})).is_empty());
        let named = json!({"runAsUser": UNKNOWN});
        assert!(identity(&somebody_with(false), &named, &json!({})).unwrap().ranges.is_empty());
    }

    #[test]
    fn an_id_that_cannot_be_is_nobody() {
        let none = json!({});
        for id in [-1_i64, 2_147_483_648, 4_294_967_295, 99_999_999_999] {
            for identity_policy in [somebody_with(true), identity_of_one_user(1000, false, false, true)] {
                check(&identity_policy, &none, &json!({"runAsUser": id}), Err("runAsUser"));
                check(
                    &identity_policy,
                    &json!({"runAsGroup": id}),
                    &json!({"runAsUser": 1}),
                    Err("runAsGroup"),
                );
                check(&identity_policy, &json!({"fsGroup": id}), &none, Err("fsGroup"));
                check(
                    &identity_policy,
                    &json!({"supplementalGroups": [1, id]}),
                    &none,
                    Err("supplementalGroups"),
                );
            }
        }
    }

    #[test]
    fn who_is_not_root_runs_pods_as_itself_or_not_at_all() {
        let none = json!({});
        let me = identity_of_one_user(1000, false, false, true);
        for requested in
            [json!({}), json!({"runAsNonRoot": true}), json!({"fsGroup": 5}), json!({"runAsGroup": 100})]
        {
            assert_eq!(identity(&me, &requested, &none).unwrap().machine_user, None, "{requested}");
        }
        check(&me, &json!({"runAsUser": 0}), &none, Err("the server must run as root"));
        check(&me, &none, &json!({"runAsUser": 5}), Err("cannot run as user 5"));
        check(&me, &none, &json!({"runAsGroup": 200}), Err("cannot run as group 200"));
        let words = "could read all of its data";
        check(&identity_of_one_user(1000, false, false, false), &none, &none, Err(words));
        assert!(
            identity(&identity_of_one_user(1000, false, true, false), &none, &none).is_ok(),
            "if its owner says so"
        );
    }

    #[test]
    fn whom_the_owner_named_all_pods_are() {
        let none = json!({});
        let ada = identity_of_one_user(1000, true, true, true);
        check(&ada, &none, &none, Ok((1000, 1000)));
        check(&ada, &json!({"runAsUser": 1000, "runAsGroup": 200}), &none, Ok((1000, 1000)));
        let words = "runs all Pods as ada (--node-as)";
        check(&ada, &json!({"runAsUser": 0}), &none, Err(words));
        check(&ada, &json!({"runAsUser": 0}), &none, Err("leave runAsUser out"));
        check(&ada, &json!({"runAsGroup": 0}), &none, Err(words));
        let who = identity(&ada, &json!({"fsGroup": 200, "supplementalGroups": [0, 300]}), &none).unwrap();
        assert_eq!((who.group, who.groups, who.ranges.is_empty()), (Some(100), vec![200], false));
        let root = identity_of_one_user(0, true, true, true);
        assert!(identity(&root, &none, &none).unwrap().ranges.is_empty(), "root of the machine");
        check(&root, &json!({"runAsNonRoot": true}), &none, Err("container has runAsNonRoot"));
    }
}
