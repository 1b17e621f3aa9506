//! Sockets: binds them, and tells where clients reach them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs as _};

/// The most connections to a service that may wait to be accepted.
const WAITING: i32 = 4096;

/// The address at which a client on this machine reaches a listener. `0.0.0.0` can be listened on,
/// but not connected to.
pub(super) fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

/// Binds a socket. Port 0 is a free port.
pub(super) fn bind(host: &str, port: u16) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = (host, port)
        .to_socket_addrs()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot resolve {host}: {error}")))?
        .collect();
    let listen = || {
        let listener = TcpListener::bind(addresses.as_slice())?;
        // The standard library allows a backlog of 128. A client that finds it full retries after a
        // second.
        socket2::SockRef::from(&listener).listen(WAITING)?;
        Ok(listener)
    };
    listen().map_err(|error: io::Error| {
        io::Error::new(error.kind(), format!("cannot listen on {host}:{port}: {error}"))
    })
}
