//! Reads the users and groups of this machine from `/etc/passwd` and `/etc/group`.
//!
//! Their IDs have a meaning here: files, sockets and devices belong to them. **Invariant:** a Pod never becomes one of
//! these users by naming its ID. The node's owner can let all Pods run as one of them (`--node-as`).
//!
//! Only the files are read. IDs that a directory service assigns are not known here.

use std::fs;
use std::io;

/// The table of users, one line each: `name:password:user:group:…`.
const USERS: &str = "/etc/passwd";
/// The table of groups, one line each: `name:password:group:members`.
const GROUPS: &str = "/etc/group";

/// An account that all Pods of a node may run as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UserAccount {
    pub(super) name: String,
    pub(super) user: u32,
    pub(super) group: u32,
    /// All groups that it belongs to.
    pub(super) groups: Vec<u32>,
}

impl UserAccount {
    /// Finds the account with this name or number.
    pub(super) fn find(name: &str) -> io::Result<Self> {
        let users = fs::read_to_string(USERS)?;
        Self::of(name, &users, &fs::read_to_string(GROUPS)?).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("{USERS} has no user {name}: name a user in it, or give its number"),
            )
        })
    }

    fn of(name: &str, users: &str, groups: &str) -> Option<Self> {
        let entry = |line: &str| {
            let mut fields = line.split(':');
            let (known, user) = (fields.next()?, fields.nth(1)?.parse().ok()?);
            Some((known.to_owned(), user, fields.next()?.parse().ok()?))
        };
        let mut all = users.lines().filter_map(entry);
        let (name, user, group) =
            all.find(|(known, user, _): &(String, u32, u32)| known == name || user.to_string() == name)?;
        let is_member =
            |line: &&str| line.split(':').nth(3).is_some_and(|all| all.split(',').any(|one| one == name));
        let more = groups.lines().filter(is_member).filter_map(number);
        let groups = [group].into_iter().chain(more).collect();
        Some(Self { name, user, group, groups })
    }

    /// Returns the account that runs this process.
    pub(super) fn of_this_process() -> Self {
        let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let more = rustix::process::getgroups().unwrap_or_default();
        let groups = [group].into_iter().chain(more.into_iter().map(rustix::process::Gid::as_raw)).collect();
        let name = name_of_user(user).unwrap_or_else(|| user.to_string());
        Self { name, user, group, groups }
    }
}

/// Returns the name of a user. Root is known everywhere.
pub(super) fn name_of_user(user: u32) -> Option<String> {
    name(USERS, user)
}

/// Returns the name of a group.
pub(super) fn name_of_group(group: u32) -> Option<String> {
    name(GROUPS, group)
}

fn name(table: &str, id: u32) -> Option<String> {
    let text = fs::read_to_string(table).unwrap_or_default();
    let found = text.lines().find(|line| number(line) == Some(id)).and_then(|line| line.split(':').next());
    found.map(ToOwned::to_owned).or_else(|| (id == 0).then(|| "root".to_owned()))
}

/// Returns the ID in a line of either table.
fn number(line: &str) -> Option<u32> {
    line.split(':').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_name_and_by_number() {
        let users =
            "root:x:0:0:root:/root:/bin/sh\n# a note\nada:x:1000:1001:Ada:/var/lib/ada:/bin/sh\nbroken:x\n";
        let groups = "root:x:0:\ndisk:x:6:ada,root\nada:x:1001:\ndocker:x:998:bob\naudio:x:29:bob,ada\n";
        let ada = UserAccount { name: "ada".to_owned(), user: 1000, group: 1001, groups: vec![1001, 6, 29] };
        assert_eq!(UserAccount::of("ada", users, groups), Some(ada.clone()));
        assert_eq!(UserAccount::of("1000", users, groups), Some(ada));
        assert_eq!(UserAccount::of("bob", users, groups), None);
        assert_eq!(UserAccount::of("broken", users, groups), None);
    }

    #[test]
    fn root_is_known() {
        assert_eq!(name_of_user(0).as_deref(), Some("root"));
        assert_eq!(name_of_user(0x6fff_fff0), None);
    }
}
