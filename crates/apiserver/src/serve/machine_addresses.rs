//! Finds the addresses and the name of this machine, for the certificate of a server that listens on all addresses.
//!
//! Linux lists all addresses in `/proc`; on other systems only the source addresses of outgoing packets are found.
//! Nothing is sent, and addresses that cannot be found are left out: another address can always be given with
//! `--listen`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Addresses for documentation (RFC 5737, RFC 3849): they do not belong to any machine, and the route to them is the
/// default route.
const DOCUMENTATION_ADDRESSES: [(&str, &str); 2] =
    [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];

/// The version of an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressFamily {
    V4,
    V6,
}

impl AddressFamily {
    pub(super) fn of_address(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

/// Returns the addresses of this machine that other machines can use.
pub(super) fn local_addresses() -> Vec<IpAddr> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut addresses = local_v4(&read("/proc/net/fib_trie"));
    addresses.extend(local_v6(&read("/proc/net/if_inet6")));
    addresses.extend(DOCUMENTATION_ADDRESSES.iter().filter_map(|(from, to)| source_address(from, to)));
    addresses.retain(|address| !address.is_unspecified() && !is_link_local(*address));
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Returns the address of this machine that other machines most likely use: the source of outgoing packets, or any
/// that is not loopback.
pub(super) fn outward_address(family: AddressFamily) -> Option<IpAddr> {
    let is_meant = |address: &IpAddr| {
        AddressFamily::of_address(*address) == family
            && !address.is_loopback()
            && !address.is_unspecified()
            && !is_link_local(*address)
    };
    let mut ways =
        DOCUMENTATION_ADDRESSES.iter().filter_map(|(from, to)| source_address(from, to)).filter(is_meant);
    ways.next().or_else(|| local_addresses().into_iter().find(is_meant))
}

/// Returns the name of this machine, if it has one that is valid in a certificate.
pub(super) fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
    let name = name.ok()?.trim().to_ascii_lowercase();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    (!name.is_empty() && name.bytes().all(is_name)).then_some(name)
}

/// Returns the source address of a packet to this destination.
fn source_address(from: &str, to: &str) -> Option<IpAddr> {
    let socket = UdpSocket::bind(from).ok()?;
    socket.connect(to).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// Parses the routing table, which has each address on one line and its type on the next.
fn local_v4(table: &str) -> Vec<IpAddr> {
    let mut last = None;
    let mut found = Vec::new();
    for line in table.lines() {
        if let Some((_, address)) = line.split_once("|-- ") {
            last = address.trim().parse::<Ipv4Addr>().ok();
        } else if line.contains("/32 host LOCAL") {
            found.extend(last.map(IpAddr::V4));
        }
    }
    found
}

/// Parses a table with one address per line, as 32 digits.
fn local_v6(table: &str) -> impl Iterator<Item = IpAddr> {
    table.lines().filter_map(|line| {
        let digits = line.split_whitespace().next().filter(|digits| digits.len() == 32)?;
        u128::from_str_radix(digits, 16).ok().map(|bits| Ipv6Addr::from_bits(bits).into())
    })
}

/// Returns whether the address is only valid together with an interface.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_address_tables_are_parsed() {
        let table = "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.0\n        /24 link UNICAST\n     |-- 10.0.0.7\n        \
                     /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\n";
        assert_eq!(local_v4(table), [IpAddr::from([10, 0, 0, 7])]);
        let table = "00000000000000000000000000000001 01 80 10 80 lo\nfe80000000000000000000000000000a 02 40 20 80 eth0\n";
        let found = local_v6(table).collect::<Vec<_>>();
        assert_eq!(found[0], IpAddr::V6(Ipv6Addr::LOCALHOST));
        assert!(is_link_local(found[1]) && !is_link_local(found[0]));
    }

    #[test]
    fn the_addresses_of_this_machine_are_usable() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert!(
            !cfg!(target_os = "linux") || local_addresses().contains(&loopback),
            "{:?}",
            local_addresses()
        );
        let unfit = |address: IpAddr| address.is_loopback() || address.is_unspecified() || address.is_ipv6();
        assert!(
            !outward_address(AddressFamily::V4).is_some_and(unfit),
            "{:?}",
            outward_address(AddressFamily::V4)
        );
    }
}
