//! The operator under the simulator, with the directory as a map in memory: whatever goes wrong, the files are those
//! that the objects desire, and those of deleted objects are gone.

use std::collections::BTreeMap;

use futures::stream::BoxStream;
use homeostat::sim::{Budget, Outside, Simulation, edit};
use homeostat::world::{Answer, Failure, PushedChange};
use homeostat_example_files::{Content, Disk, File, FileSpec, operator_on};

/// A sample of the single faults, as many as an unoptimized build can run in a few seconds. `HOMEOSTAT_SIM_SCHEDULES`
/// runs more.
const BUDGET: Budget = Budget { schedules: 80, seconds: 3600 };

type Files = BTreeMap<String, Content>;

/// The directory in memory.
struct Twin(Outside<Files>);

fn content(want: &FileSpec) -> Content {
    Content { content: Some(want.content.clone()), mode: want.mode.clone() }
}

impl Disk for Twin {
    async fn list(&self) -> Answer<Vec<(String, Content)>> {
        Ok(self.0.read("list", |files| files.clone().into_iter().collect()).await?)
    }

    async fn look(&self, path: &str) -> Answer<Option<Content>> {
        let wanted = path.to_owned();
        Ok(self.0.read(format!("look at {path}"), move |files| files.get(&wanted).cloned()).await?)
    }

    async fn create(&self, path: &str, want: &FileSpec) -> Answer<()> {
        let (place, file) = (path.to_owned(), content(want));
        let create = self.0.write(format!("create {path}"), move |files| {
            let is_new = !files.contains_key(&place);
            files.entry(place).or_insert(file);
            is_new
        });
        if create.await? { Ok(()) } else { Err(Failure::Exists) }
    }

    async fn replace(&self, path: &str, want: &FileSpec) -> Answer<()> {
        let (place, file) = (path.to_owned(), content(want));
        self.0.write(format!("replace {path}"), move |files| drop(files.insert(place, file))).await?;
        Ok(())
    }

    async fn remove(&self, path: &str) -> Answer<()> {
        let unwanted = path.to_owned();
        self.0.write(format!("remove {path}"), move |files| drop(files.remove(&unwanted))).await?;
        Ok(())
    }

    fn watch(&self) -> Option<BoxStream<'static, Answer<PushedChange>>> {
        None
    }
}

fn file(name: &str, path: &str, content: &str) -> File {
    File::new(name, FileSpec { path: path.into(), content: content.into(), mode: "0644".into() })
}

#[test]
fn files_follow_their_objects_whatever_goes_wrong() {
    Simulation::with_outside(Files::new(), |files| operator_on(Twin(files)))
        .given(file("motd", "etc/motd", "hello"))
        .then(edit::<File>("motd", |file| file.spec.content = "bye".into()))
        .eventually(|cluster| cluster.outside().contains("bye"))
        .budget(BUDGET)
        .check();
}

/// Another path is another file, and the previous one is removed.
#[test]
fn a_file_moves_whatever_goes_wrong() {
    Simulation::with_outside(Files::new(), |files| operator_on(Twin(files)))
        .given(file("motd", "etc/motd", "hello"))
        .then(edit::<File>("motd", |file| file.spec.path = "etc/issue".into()))
        .eventually(|cluster| {
            cluster.outside().contains("etc/issue") && !cluster.outside().contains("etc/motd")
        })
        .budget(BUDGET)
        .check();
}
