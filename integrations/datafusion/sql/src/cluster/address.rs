//! Where a scheduler listens.

/// Checks `HOST:PORT` without asking for the host.
pub(crate) fn address(text: &str) -> Result<String, &'static str> {
    parts(text).map(|_| text.to_owned())
}

/// The host and the port.
pub(super) fn parts(text: &str) -> Result<(&str, u16), &'static str> {
    split(text)
        .ok_or("it is not HOST:PORT; write a name or an address and a port, as localhost:50050")
}

fn split(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match name {
        Some(name) => name.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
            !host.is_empty() && host.bytes().all(is_of_name)
        }
    };
    is_host.then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn an_address_has_a_host_and_a_port_and_nothing_else() {
        assert_eq!(split("localhost:50050"), Some(("localhost", 50050)));
        assert_eq!(split("10.0.0.1:1"), Some(("10.0.0.1", 1)));
        assert_eq!(split("[::1]:50050"), Some(("[::1]", 50050)));
        for wrong in [
            "",
            "localhost",
            "localhost:",
            ":50050",
            "localhost:0",
            "localhost:65536",
            "localhost:x",
            "::1:50050",
            "[x]:1",
            "http://localhost:50050",
            "localhost:50050/",
            "me@localhost:1",
            "a b:1",
        ] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }
}
