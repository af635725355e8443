//! Chooses the port of a Database: the requested one, or the one it has, or a free one.
//!
//! Pods that are processes share the machine's ports, so a free one is found by asking the machine. Another program may
//! take it before PostgreSQL starts; the Pod then reports it, and another one is chosen unless the port was requested.

use homeostat::prelude::*;

use crate::database::Database;
use crate::problem::Problem;
use crate::settings::Settings;

/// Returns a port that no other Database has; `lost` is one that another program turned out to have.
pub(crate) fn choose(
    database: &Database,
    all: &[Arc<Database>],
    lost: Option<u16>,
    settings: &Settings,
) -> Result<u16, Problem> {
    let taken = |port: u16| {
        all.iter().find(|other| {
            let is_rival = port_of(other) == Some(port) && !is_same(other, database);
            is_rival && (port_of(database) != Some(port) || precedence(other) < precedence(database))
        })
    };
    let kept = database.status.as_ref().and_then(|status| status.port).filter(|port| Some(*port) != lost);
    match (database.spec.port, kept) {
        (Some(port), _) => match taken(port) {
            Some(other) => Err(Problem::PortTaken { port, by: other.name_any() }),
            None => Ok(port),
        },
        (None, Some(port)) if taken(port).is_none() => Ok(port),
        (None, _) => free(settings, |port| taken(port).is_none()),
    }
}

/// Returns the port that a Database has or will have.
fn port_of(database: &Database) -> Option<u16> {
    let kept = database.status.as_ref().and_then(|status| status.port);
    // If two request the same port, the one that has it keeps it.
    kept.filter(|port| database.spec.port.is_none_or(|asked| asked == *port))
}

/// Orders Databases: if two requested at the same time were given the same port, the older one has it.
fn precedence(database: &Database) -> impl Ord {
    let metadata = &database.metadata;
    let age = metadata.creation_timestamp.as_ref().map(|time| time.0);
    (age, metadata.namespace.clone(), metadata.name.clone())
}

fn is_same(one: &Database, other: &Database) -> bool {
    one.metadata.uid == other.metadata.uid
}

fn free(settings: &Settings, is_fine: impl Fn(u16) -> bool) -> Result<u16, Problem> {
    /// Any port the system offers is fine unless another Database is about to use it: rare, and not twice in a row.
    const ATTEMPTS: u16 = 8;
    for attempt in 0..ATTEMPTS {
        let port = (settings.free_port)(attempt).map_err(Problem::NoPort)?;
        if is_fine(port) {
            return Ok(port);
        }
    }
    Err(Problem::NoPort(std::io::Error::other("every offered port belongs to another Database")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{DatabaseSpec, DatabaseStatus};

    fn settings() -> Settings {
        Settings::in_folder("/data")
    }

    fn database(name: &str, asked: Option<u16>, kept: Option<u16>) -> Arc<Database> {
        let mut database = Database::new(name, DatabaseSpec { port: asked, ..DatabaseSpec::default() });
        database.metadata.uid = Some(name.to_owned());
        database.status = Some(DatabaseStatus { port: kept, ..DatabaseStatus::default() });
        Arc::new(database)
    }

    #[track_caller]
    fn check(ours: (Option<u16>, Option<u16>), others: &[(Option<u16>, Option<u16>)], expected: Option<u16>) {
        let ours = database("ours", ours.0, ours.1);
        let mut all = vec![ours.clone()];
        all.extend(others.iter().map(|other| database("other", other.0, other.1)));
        assert_eq!(choose(&ours, &all, None, &settings()).ok(), expected);
    }

    #[test]
    fn asked_for_goes_before_kept() {
        check((Some(5432), None), &[], Some(5432));
        check((Some(5432), Some(6000)), &[], Some(5432));
        check((None, Some(6000)), &[], Some(6000));
    }

    #[test]
    fn the_one_that_has_a_port_keeps_it() {
        check((Some(5432), None), &[(Some(5432), Some(5432))], None);
        check((Some(5432), Some(5432)), &[(Some(5432), None)], Some(5432));
        check((Some(5432), None), &[(Some(7000), Some(5432))], Some(5432));
    }

    #[test]
    fn of_two_that_have_a_port_the_older_keeps_it() {
        let age = |database: Arc<Database>, time: &str| {
            let mut database = Arc::unwrap_or_clone(database);
            database.metadata.creation_timestamp = Some(serde_json::from_value(time.into()).unwrap());
            Arc::new(database)
        };
        let older = age(database("z", Some(5432), Some(5432)), "2026-01-01T00:00:00Z");
        let younger = age(database("a", Some(5432), Some(5432)), "2026-01-01T00:00:01Z");
        let all = [younger.clone(), older.clone()];
        assert_eq!(choose(&older, &all, None, &settings()).ok(), Some(5432));
        assert_eq!(choose(&younger, &all, None, &settings()).ok(), None);
        check((Some(5432), Some(5432)), &[(Some(5432), Some(5432))], None);
    }

    #[test]
    fn without_any_it_is_a_free_one() {
        let ours = database("ours", None, None);
        assert!(choose(&ours, &[], None, &settings()).unwrap() > 0);
    }

    #[test]
    fn one_that_was_chosen_and_lost_is_given_up() {
        let kept = database("ours", None, Some(6000));
        assert_ne!(choose(&kept, &[], Some(6000), &settings()).unwrap(), 6000);
        assert_eq!(choose(&kept, &[], Some(6001), &settings()).unwrap(), 6000);
        let asked = database("ours", Some(6000), Some(6000));
        assert_eq!(
            choose(&asked, &[], Some(6000), &settings()).unwrap(),
            6000,
            "who asks for it gets it or nothing"
        );
    }
}
