//! Has the linker pack the relocations of the program, where what loads it can read them packed.
//!
//! The program moves to another address at every start, and one and a half megabytes of it would be nothing but the list of the
//! places to correct, read as a whole each time: resident for as long as it runs. Packed they are a hundredth of that.
//! glibc reads them since 2.36; for an older one, another C library or another machine to run on, nothing is changed.

use std::process::Command;

/// The first glibc that reads packed relocations.
const GLIBC_MIN: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let text = |name: &str| std::env::var(name).unwrap_or_default();
    let is_native = text("HOST") == text("TARGET") && text("TARGET").ends_with("-linux-gnu");
    if is_native && glibc().is_some_and(|version| version >= GLIBC_MIN) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The C library of this machine, which is the one the program will run with.
fn glibc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
