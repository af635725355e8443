//! Determines who listens on a port of this machine: a token is sent only to processes of the caller's own user or of
//! root.
//!
//! Any user of the machine, and any Pod that runs on it as a process, can listen on a port and, if allowed to write
//! Leases, announce it as an operator's. Most processes of the caller's own user could read the token from the
//! kubeconfig anyway. The Pods of a node that does not run as root run as the node's user and could not read it, so a
//! server with such Pods issues tokens for operators (`pod_proxy`), and the caller's own token is never sent.
//!
//! **Invariant:** nothing is sent unless the owner is known.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The state of a listening socket, as the kernel writes it.
const LISTENS: &str = "0A";
/// The files in which the kernel lists IPv4 and IPv6 sockets.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// The sockets that listen on a port, by their numbers. They stay the same for as long as nobody else takes the port.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TrustedListeners(Vec<u64>);

/// A line of the kernel's tables.
struct ListeningSocket {
    address: IpAddr,
    port: u16,
    owner: u32,
    number: u64,
}

/// Returns the sockets that listen at this address if all of them belong to this process's user or to root.
pub(super) fn trusted_listeners(place: SocketAddr) -> Result<TrustedListeners, String> {
    let mut sockets = Vec::new();
    for table in TABLES {
        // There is no table for an address family that the kernel does not support.
        let text = std::fs::read_to_string(table).unwrap_or_default();
        sockets.extend(text.lines().skip(1).filter_map(parse_line));
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let user = effective_user(&status).ok_or("this system does not say who listens on a port")?;
    choose(&sockets, place, user)
}

/// Returns the second number of `Uid: real effective saved file-system`.
fn effective_user(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
}

fn choose(sockets: &[ListeningSocket], place: SocketAddr, user: u32) -> Result<TrustedListeners, String> {
    let listens = |socket: &&ListeningSocket| {
        let address = socket.address.to_canonical();
        socket.port == place.port() && (address == place.ip() || address.is_unspecified())
    };
    let found: Vec<_> = sockets.iter().filter(listens).collect();
    if found.is_empty() {
        return Err(format!("nobody is known to listen on {place}"));
    }
    if let Some(stranger) = found.iter().find(|socket| socket.owner != user && socket.owner != 0) {
        return Err(format!(
            "{place} belongs to another user of this machine (number {}), who must not get your token",
            stranger.owner
        ));
    }
    let mut numbers: Vec<u64> = found.iter().map(|socket| socket.number).collect();
    numbers.sort_unstable();
    Ok(TrustedListeners(numbers))
}

/// Parses `sl local_address rem_address st queues timers retransmits uid timeout inode`.
fn parse_line(line: &str) -> Option<ListeningSocket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, port) = fields.get(1)?.split_once(':')?;
    if *fields.get(3)? != LISTENS {
        return None;
    }
    Some(ListeningSocket {
        address: parse_address(address)?,
        port: u16::from_str_radix(port, 16).ok()?,
        owner: fields.get(7)?.parse().ok()?,
        number: fields.get(9)?.parse().ok()?,
    })
}

/// Parses an address: 32-bit words, each in the machine's byte order.
fn parse_address(text: &str) -> Option<IpAddr> {
    let words = text.as_bytes().chunks(8).map(|word| {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        Some(word.to_ne_bytes())
    });
    let bytes: Vec<u8> = words.collect::<Option<Vec<_>>>()?.concat();
    match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 x 100 0 0 10 0
   1: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1 x 100 0 0 10 0
   2: 0100007F:1F92 00000000:0000 0A 00000000:00000000 00:00000000 00000000  2000        0 13 1 x 100 0 0 10 0
   3: 0100007F:1F93 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 14 1 x 100 0 0 10 0
   4: 00000000000000000000000000000000:1F94 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  2000        0 15 1 x 100 0 0 10 0
   5: 0100007F:1F94 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 16 1 x 100 0 0 10 0
   6: 0000000000000000FFFF00000100007F:1F95 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 17 1 x 100 0 0 10 0";

    #[test]
    #[cfg(target_endian = "little")]
    fn only_the_own_user_and_root_are_trusted() {
        let sockets: Vec<_> = TABLE.lines().filter_map(parse_line).collect();
        let check = |place: &str, expected: Result<u64, &str>| {
            let found = choose(&sockets, place.parse().unwrap(), 1000);
            match (found, expected) {
                (Ok(found), Ok(number)) => assert_eq!(found, TrustedListeners(vec![number]), "{place}"),
                (Err(why), Err(words)) => assert!(why.contains(words), "{place}: {why}"),
                (found, expected) => panic!("{place}: {found:?}, expected {expected:?}"),
            }
        };
        check("127.0.0.1:8080", Ok(11));
        check("127.0.0.1:8081", Ok(12));
        check("127.0.0.1:8082", Err("another user"));
        check("127.0.0.1:8083", Err("nobody is known"));
        check("127.0.0.1:8084", Err("another user"));
        check("127.0.0.1:8085", Ok(17));
        check("[::1]:8080", Err("nobody is known"));
    }

    #[test]
    fn a_socket_of_this_process_is_trusted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let found = trusted_listeners(place).unwrap();
        assert_eq!(trusted_listeners(place).unwrap(), found);
        drop(listener);
        assert!(trusted_listeners(place).is_err());
    }
}
