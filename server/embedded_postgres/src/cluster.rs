//! Makes the cluster, whole or not at all: it is built beside its place and moved there when it has its database.

use std::{ffi::OsStr, fs, fs::File, io};

use crate::{EmbeddedPostgresError as Error, home::Home, process, programs::Programs};

/// The role and the database; the role owns the whole private cluster.
pub(crate) const NAME: &str = "payonce";

/// Nobody gets in without the password, and nothing listens but the socket.
const HBA: &str = "# Written by payonce at every start.\nlocal all all scram-sha-256\n";

/// Makes what is missing, and returns the password.
pub(crate) async fn ensure(home: &Home, programs: &Programs) -> Result<String, Error> {
    home.write("pg_hba.conf", 0o644, HBA)?;
    let path = home.file("password");
    let known = match fs::read_to_string(&path) {
        Ok(text) => Some(text.trim().to_owned()).filter(|password| !password.is_empty()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::files("reading", path)(error)),
    };
    let exists = home.cluster().join("PG_VERSION").exists();
    let password = match known {
        Some(password) if exists => return Ok(password),
        Some(password) => password,
        None => {
            let password = format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>());
            home.write("password", 0o600, &password)?;
            password
        }
    };
    if exists {
        tracing::warn!("the password of the embedded database was gone; it has a new one");
        set_password(home, programs, "cluster", &password).await?;
    } else {
        make(home, programs, &password).await?;
    }
    Ok(password)
}

async fn make(home: &Home, programs: &Programs, password: &str) -> Result<(), Error> {
    tracing::info!("making a PostgreSQL {} cluster in {}", programs.version, home.folder.display());
    let new = home.file("cluster.new");
    home.fresh_folder(&new)?;
    let arguments = ["--encoding=UTF8", "--locale=C", "--data-checksums", "--auth=peer", "--no-instructions"];
    let mut arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    arguments.extend([OsStr::new("--username"), OsStr::new(NAME), OsStr::new("--pgdata"), new.as_os_str()]);
    process::run(home, &programs.program("initdb"), &arguments, "").await?;
    set_password(home, programs, "cluster.new", password).await?;
    single_user(home, programs, "cluster.new", &format!("create database {NAME};\n")).await?;
    let place = home.cluster();
    fs::rename(&new, &place).and_then(|()| File::open(&home.folder)?.sync_all()).map_err(Error::files("moving", &place))
}

/// The password is made of hexadecimal digits, so that nothing has to be quoted.
async fn set_password(home: &Home, programs: &Programs, cluster: &str, password: &str) -> Result<(), Error> {
    single_user(home, programs, cluster, &format!("alter role {NAME} password '{password}';\n")).await
}

/// Runs one statement while nobody else can connect. In this mode a newline ends a statement.
async fn single_user(home: &Home, programs: &Programs, cluster: &str, statement: &str) -> Result<(), Error> {
    let cluster = home.file(cluster);
    let arguments = [
        OsStr::new("--single"),
        OsStr::new("-c"),
        OsStr::new("exit_on_error=on"),
        OsStr::new("-c"),
        // A failing statement would otherwise be written down, and with it the password.
        OsStr::new("log_min_error_statement=panic"),
        OsStr::new("-D"),
        cluster.as_os_str(),
        OsStr::new("postgres"),
    ];
    process::run(home, &programs.program("postgres"), &arguments, statement).await.map(|_output| ())
}
