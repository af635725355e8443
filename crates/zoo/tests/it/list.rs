//! The list of animals: each has its own name, a file, and a row in the document.

use std::collections::BTreeSet;
use std::path::Path;

use homeostat_zoo::ANIMALS;

#[test]
fn every_animal_has_a_name_a_file_and_a_row() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(package.join("../../docs/why/zoo.md")).expect("the document");
    let names: BTreeSet<&str> = ANIMALS.iter().map(|animal| animal.name).collect();
    assert_eq!(names.len(), 24);
    for name in names {
        assert!(package.join(format!("src/animals/{name}.rs")).is_file(), "{name}");
        assert!(document.contains(&format!("| `{name}` |")), "{name} has no row in docs/why/zoo.md");
    }
}
