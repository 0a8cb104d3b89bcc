//! The servers that `DATABASE_URL` names: one, or several of which one is the primary, in libpq's form.
//!
//! No error and no `Debug` of this file ever shows the value or a part of it that may be the password.

use std::{fmt, str::FromStr};

use sqlx::{ConnectOptions as _, postgres::PgConnectOptions};
use url::Url;

/// Most servers that one address names; a primary and its standbys are a handful, and all are asked at once.
const MAX_HOSTS: usize = 16;

/// What libpq understands and has no effect here: told when the pool is opened, instead of refusing an address that works
/// with `psql`.
const WITHOUT_EFFECT: [&str; 12] = [
    "channel_binding",
    "connect_timeout",
    "fallback_application_name",
    "gssencmode",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "load_balance_hosts",
    "sslcompression",
    "sslsni",
    "tcp_user_timeout",
];

/// What the driver reads by itself.
const UNDERSTOOD: [&str; 15] = [
    "application_name",
    "dbname",
    "options",
    "password",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl-root-cert",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
];

/// The servers of one database, in the order in which they were named.
#[derive(Clone)]
pub struct Address {
    pub(super) hosts: Vec<Host>,
    /// Names of parameters that have no effect here.
    pub(super) without_effect: Vec<String>,
}

/// One server.
#[derive(Clone)]
pub(super) struct Host {
    /// `db1:5432`, for people.
    pub(super) name: String,
    pub(super) options: PgConnectOptions,
}

/// What is wrong with an address. Reads on after the name of the setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Another kind of address, or none.
    #[error("does not begin with postgres:// or postgresql://")]
    Scheme,
    /// A port that is none.
    #[error(
        "has a port that is no number from 1 to 65535 (the value is not shown; in a user name or password, each of \
         `/ ? # [ ] @ : %` must be percent-encoded)"
    )]
    Port,
    /// Three hosts and two ports.
    #[error("names {hosts} hosts and {ports} ports; give one port for each host, or one for all")]
    PortCount {
        /// How many hosts.
        hosts: usize,
        /// How many ports.
        ports: usize,
    },
    /// A percent sign without its digits, an `@` behind the hosts.
    #[error(
        "is not percent-encoded as it must be (each of `/ ? # [ ] @ : %` in a user name, password or socket folder)"
    )]
    Encoding,
    /// A host name that cannot be one.
    #[error("names a host that cannot be one (the value is not shown)")]
    Host,
    /// More than [`MAX_HOSTS`].
    #[error("names more than {MAX_HOSTS} hosts")]
    TooManyHosts,
    /// A standby was asked for.
    #[error("asks for a standby by target_session_attrs; payments need the primary: read-write, primary or nothing")]
    NotThePrimary,
    /// A parameter that neither libpq nor the driver knows.
    #[error("has the parameter {0:?}, which is not one of libpq's")]
    Unknown(String),
    /// A parameter whose value the driver refuses.
    #[error("has a parameter with a wrong value: {0}")]
    Value(String),
}

impl Address {
    /// The one server of options that were made elsewhere.
    pub(super) fn of(options: &PgConnectOptions) -> Self {
        Self { hosts: vec![Host::of(options.clone())], without_effect: Vec::new() }
    }
}

impl Host {
    fn of(options: PgConnectOptions) -> Self {
        let folder = options.get_socket().map(|folder| folder.to_string_lossy().into_owned());
        let name = format!("{}:{}", folder.as_deref().unwrap_or(options.get_host()), options.get_port());
        Self { name, options }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.hosts.iter().map(|host| &host.name)).finish()
    }
}

/// `postgres://user:password@host1:5432,host2:5433/database?target_session_attrs=read-write`. Hosts may also come as
/// `?host=a,b` or `?host=a&host=b`, where one that begins with `/` is the folder of a Unix socket, and ports as `&port=`.
impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        if !["postgres", "postgresql"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err(AddressError::Scheme);
        }
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if tail.split('?').next().is_some_and(|path| path.contains('@')) {
            return Err(AddressError::Encoding);
        }
        let (user, named) = authority.rsplit_once('@').map_or(("", authority), |(user, named)| (user, named));
        let one = Url::parse(&format!("postgres://{user}{}host{tail}", if user.is_empty() { "" } else { "@" }))
            .or(Err(AddressError::Encoding))?;

        // A name that is not known may be a part of the password, where that holds a `?` as it is.
        let query = Query::read(&one).map_err(|error| {
            let may_tell = matches!(error, AddressError::Unknown(_)) && tail.contains('@');
            if may_tell { AddressError::Encoding } else { error }
        })?;
        let written: Vec<(String, String)> =
            named.split(',').filter(|_| !named.is_empty()).map(host_and_port).collect::<Result<_, _>>()?;
        let hosts = if query.hosts.is_empty() {
            written.iter().map(|(host, _)| host.clone()).collect()
        } else {
            query.hosts.clone()
        };
        // Nothing named: the driver's default, which is a socket where there is one, else localhost.
        let hosts = if hosts.is_empty() { vec![String::new()] } else { hosts };
        let ports = if query.ports.is_empty() {
            written.into_iter().map(|(_, port)| port).collect()
        } else {
            query.ports.clone()
        };
        if hosts.len() > MAX_HOSTS {
            return Err(AddressError::TooManyHosts);
        }
        if ports.len() > 1 && ports.len() != hosts.len() {
            return Err(AddressError::PortCount { hosts: hosts.len(), ports: ports.len() });
        }
        let port_of = |n: usize| ports.get(n).or(ports.first()).filter(|port| !port.is_empty());
        let hosts = hosts.iter().enumerate().map(|(n, host)| query.host(&one, host, port_of(n).map(String::as_str)));
        Ok(Self { hosts: hosts.collect::<Result<_, _>>()?, without_effect: query.without_effect.clone() })
    }
}

/// What follows the `?`, sorted by who reads it.
#[derive(Default)]
struct Query {
    hosts: Vec<String>,
    ports: Vec<String>,
    without_effect: Vec<String>,
    /// For the driver.
    kept: Vec<(String, String)>,
}

impl Query {
    fn read(url: &Url) -> Result<Self, AddressError> {
        let mut query = Self::default();
        for (key, value) in url.query_pairs() {
            match &*key {
                "host" | "hostaddr" => query.hosts.extend(value.split(',').map(str::to_owned)),
                "port" => query.ports.extend(value.split(',').map(str::to_owned)),
                "target_session_attrs" if matches!(&*value, "read-write" | "primary" | "any" | "") => {}
                "target_session_attrs" => return Err(AddressError::NotThePrimary),
                known if UNDERSTOOD.contains(&known) || known.starts_with("options[") => {
                    query.kept.push((key.into_owned(), value.into_owned()));
                }
                known if WITHOUT_EFFECT.contains(&known) => query.without_effect.push(known.to_owned()),
                unknown => return Err(AddressError::Unknown(unknown.to_owned())),
            }
        }
        Ok(query)
    }

    /// The options of one of the hosts. Read by the driver from an address of its own, since a password file has a line for
    /// each host.
    fn host(&self, url: &Url, host: &str, port: Option<&str>) -> Result<Host, AddressError> {
        let port = port.map(|port| port.parse::<u16>().ok().filter(|port| *port != 0).ok_or(AddressError::Port));
        let port = port.transpose()?;
        let mut url = url.clone();
        url.set_query(None);
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if host.starts_with('/') {
            url.query_pairs_mut().append_pair("host", host);
        } else if !host.is_empty() {
            let written = if bare.contains(':') { format!("[{bare}]") } else { host.to_owned() };
            url.set_host(Some(&written)).or(Err(AddressError::Host))?;
        }
        if !self.kept.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.kept);
        }
        let mut options = PgConnectOptions::from_url(&url).map_err(|error| AddressError::Value(cause(&error)))?;
        if let Some(port) = port {
            options = options.port(port);
        }
        if host.is_empty() {
            options = options.host(PgConnectOptions::new_without_pgpass().get_host());
        } else if !host.starts_with('/') {
            // The driver would take the brackets of an IPv6 address for a part of a name.
            options = options.host(bare);
        }
        Ok(Host::of(options))
    }
}

fn cause(error: &sqlx::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// `db:5432`, `db`, `[::1]:5432`, or a percent-encoded folder. The port is "" where none is given.
fn host_and_port(text: &str) -> Result<(String, String), AddressError> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => {
            (host, rest.strip_prefix(':').or(rest.is_empty().then_some("")).ok_or(AddressError::Port)?)
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    Ok((percent_decoded(host).ok_or(AddressError::Encoding)?, port.to_owned()))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            decoded.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Address, AddressError};

    fn names(text: &str) -> Vec<String> {
        text.parse::<Address>().expect("a good address").hosts.into_iter().map(|host| host.name).collect()
    }

    fn refused(text: &str) -> AddressError {
        text.parse::<Address>().expect_err("this address is wrong")
    }

    #[test]
    fn every_host_gets_its_port() {
        assert_eq!(names("postgres://u:p@h1:5432,h2:5433/db?target_session_attrs=read-write"), ["h1:5432", "h2:5433"]);
        assert_eq!(names("postgresql://u@h1,h2:7/db?target_session_attrs=primary"), ["h1:5432", "h2:7"]);
        assert_eq!(names("postgres:///db?host=a,b&port=1,2"), ["a:1", "b:2"]);
        assert_eq!(names("postgres:///db?host=a&host=b&port=6"), ["a:6", "b:6"]);
        assert_eq!(names("postgres://u@localhost:6/db?host=/run/one&host=/run/two"), ["/run/one:6", "/run/two:6"]);
        assert_eq!(names("postgres://u@%2Frun%2Fone:6,[::1]:7/db"), ["/run/one:6", "::1:7"]);
    }

    #[test]
    fn the_driver_is_told_host_port_user_and_database() {
        let address: Address = "postgres://ana:p%40ss@[::1]:7,%2Frun%2Fpg/shop?sslmode=disable".parse().unwrap();
        let (tcp, socket) = (&address.hosts[0], &address.hosts[1]);
        assert_eq!((tcp.options.get_host(), tcp.options.get_port()), ("::1", 7));
        assert_eq!((tcp.options.get_username(), tcp.options.get_database()), ("ana", Some("shop")));
        assert_eq!(tcp.options.get_socket(), None);
        assert_eq!(socket.options.get_socket().map(PathBuf::as_path), Some(Path::new("/run/pg")));
        assert_eq!(socket.options.get_database(), Some("shop"));
        assert!(!format!("{address:?}").contains("p@ss"));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_value() {
        assert_eq!(refused("mysql://u:hunter2@db/x"), AddressError::Scheme);
        assert_eq!(refused("db.example"), AddressError::Scheme);
        for port in ["hunter2", "0", "65536", "-1"] {
            assert_eq!(refused(&format!("postgres://u:p@db:{port}/x")), AddressError::Port);
        }
        assert_eq!(refused("postgres://u@a:1,b:2,c:3/x?host=d,e"), AddressError::PortCount { hosts: 2, ports: 3 });
        assert_eq!(refused("postgres://u:hunt/er2@db/x"), AddressError::Encoding);
        assert_eq!(refused("postgres://u:hunt?er2&x=1@db/x"), AddressError::Encoding);
        assert_eq!(refused("postgres://u:hunt#er2@db/x"), AddressError::Encoding);
        assert_eq!(refused("postgres://u@d%2/x"), AddressError::Encoding);
        assert_eq!(refused("postgres://u@db/x?target_session_attrs=standby"), AddressError::NotThePrimary);
        assert_eq!(refused("postgres://u@db/x?passwrod=hunter2"), AddressError::Unknown("passwrod".to_owned()));
        let many = vec!["h"; 17].join(",");
        assert_eq!(refused(&format!("postgres://u@{many}/x")), AddressError::TooManyHosts);
        assert!(refused("postgres://u@db/x?sslmode=sometimes").to_string().contains("sometimes"));
    }

    #[test]
    fn parameters_of_libpq_without_effect_are_named() {
        let address: Address = "postgres://u@db/x?connect_timeout=5&sslmode=disable".parse().unwrap();
        assert_eq!(address.without_effect, ["connect_timeout"]);
    }
}
