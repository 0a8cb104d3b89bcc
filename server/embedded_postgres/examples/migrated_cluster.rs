//! `migrated_cluster <folder> <migrations>`: a cluster with the newest schema, for as long as standard input is open.
//!
//! Tests and the descriptions of queries run against it. It does without the packages that hold queries: those may not even
//! compile until their queries are described. Its first line is the address of the database.

use std::{env, path::PathBuf};

use embedded_postgres::{EmbeddedOptions, EmbeddedPostgres};
use sqlx::{Connection as _, PgConnection, migrate::Migrator};
use tokio::io::{AsyncReadExt as _, stdin};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let (Some(folder), Some(migrations)) = (arguments.next(), arguments.next()) else {
        return Err("usage: migrated_cluster <folder> <migrations>".into());
    };
    let cluster = EmbeddedPostgres::start(EmbeddedOptions { folder }).await?;
    let served = serve(&cluster, migrations).await;
    cluster.stop().await?;
    served
}

#[expect(clippy::print_stdout, reason = "the address is the answer")]
async fn serve(cluster: &EmbeddedPostgres, migrations: PathBuf) -> Result<(), Box<dyn std::error::Error>> {
    let mut connection = PgConnection::connect(cluster.url()).await?;
    Migrator::new(migrations).await?.run(&mut connection).await?;
    connection.close().await?;
    println!("{}", cluster.url());
    // Whoever started this holds the other end; what comes through it is of no interest.
    let mut buffer = [0; 64];
    while stdin().read(&mut buffer).await? > 0 {}
    Ok(())
}
