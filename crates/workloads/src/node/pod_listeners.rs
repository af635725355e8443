//! Finds the address at which a process of a Pod listens on a port, for `port-forward`.
//!
//! All Pods share the machine's network, so an address alone does not say whose port it is. **Invariant:** this module
//! only ever returns a socket held by a process of this Pod: a user who may forward ports of a Pod reaches that Pod,
//! but neither the machine's services nor other Pods.

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::supervisor::node_layout::NodeLayout;
use super::supervisor::processes_of_run;

/// The state of a listening socket.
const LISTENING: &str = "0A";

/// Returns where a process of these containers of the Pod listens on the port. Reads files of every process, so it must
/// not run on a thread that serves requests.
pub(super) fn find_listener(
    layout: &NodeLayout,
    pod: &str,
    containers: &[String],
    port: u16,
) -> Option<SocketAddr> {
    let open = ["tcp", "tcp6"].iter().flat_map(|name| {
        let table = fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
        table
            .lines()
            .filter_map(parse_listener)
            .filter(|listener| listener.address.port() == port)
            .collect::<Vec<_>>()
    });
    let open = open.collect::<Vec<_>>();
    if open.is_empty() {
        return None;
    }
    let held: HashSet<u64> = containers
        .iter()
        .flat_map(|container| processes_of_run(layout, &format!("{pod}/{container}")))
        .flat_map(sockets_of_process)
        .collect();
    let found = open.iter().find(|listener| held.contains(&listener.inode))?;
    Some(SocketAddr::new(reachable(found.address.ip()), port))
}

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listener {
    address: SocketAddr,
    inode: u64,
}

/// Parses a line of `/proc/net/tcp` or `tcp6`.
fn parse_listener(line: &str) -> Option<Listener> {
    let fields = line.split_whitespace().collect::<Vec<_>>();
    if *fields.get(3)? != LISTENING {
        return None;
    }
    let (address, port) = fields.get(1)?.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // The kernel prints four-byte words as numbers in this machine's byte order.
    let word = |at: usize| u32::from_str_radix(address.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match address.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (index, part) in bytes.chunks_mut(4).enumerate() {
                part.copy_from_slice(&word(8 * index)?);
            }
            IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some(Listener { address: SocketAddr::new(ip, port), inode: fields.get(9)?.parse().ok()? })
}

/// Returns the address to connect to; a socket that listens on all addresses is reached at the loopback address.
fn reachable(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(any) if any.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(any) if any.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        named => named,
    }
}

/// Returns the sockets that a process holds.
fn sockets_of_process(pid: i32) -> Vec<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links =
        entries.filter_map(|entry| fs::read_link(entry.path()).ok()?.into_os_string().into_string().ok());
    links.filter_map(|link| link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<(&str, u64)>) {
        let found = parse_listener(line).map(|listener| (listener.address.to_string(), listener.inode));
        assert_eq!(found, expected.map(|(address, inode)| (address.to_owned(), inode)));
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn lines_of_the_kernel_are_parsed() {
        let rest = "00000000:00000000 00:00000000 00000000  1000        0 4242 1 0 100 0 0 10 0";
        check(&format!("0: 0100007F:1F90 00000000:0000 0A {rest}"), Some(("127.0.0.1:8080", 4242)));
        check(&format!("0: 00000000:0050 00000000:0000 0A {rest}"), Some(("0.0.0.0:80", 4242)));
        check(&format!("0: 0100007F:1F90 0100007F:9999 01 {rest}"), None);
        let none = "00000000000000000000000000000000:0000";
        check(
            &format!("0: 00000000000000000000000001000000:1F90 {none} 0A {rest}"),
            Some(("[::1]:8080", 4242)),
        );
        check(
            &format!("0: 0000000000000000FFFF00000100007F:1F90 {none} 0A {rest}"),
            Some(("127.0.0.1:8080", 4242)),
        );
        check("sl  local_address rem_address   st tx_queue", None);
    }
}
