//! `payonce api-key`: what an operator does with the keys of programs. Needs the database and nothing else.

use anyhow::{Context as _, bail};
use clap::Subcommand;
use embedded_postgres::{EmbeddedOptions, EmbeddedPostgres};
use payments::{
    api_key::{self, ApiKeyId},
    ids::Ids,
};
use time::format_description::well_known::Rfc3339;

use crate::{
    boot::DatabaseRun,
    config::{Database, Settings},
    web::api,
};

/// What can be done with API keys.
#[derive(Clone, Debug, Eq, PartialEq, Subcommand)]
pub enum ApiKeyCommand {
    /// Make a key. It is the one line on standard output, and is never shown again.
    Create {
        /// Which program gets it.
        name: String,
    },
    /// List the keys by their beginnings.
    List,
    /// Revoke a key for ever.
    Revoke {
        /// Its id, as `list` shows it.
        id: String,
    },
}

/// Connections that one command needs.
const POOL_SIZE: u32 = 1;

/// `payonce api-key …`.
///
/// # Errors
/// When the database cannot be reached, or the command names what there is not.
pub async fn run(settings: &Settings, command: ApiKeyCommand) -> anyhow::Result<()> {
    // The embedded database of a shop that runs is used as it is; else it is started for the moment.
    if let Database::Embedded = settings.database
        && let Some(url) = EmbeddedPostgres::url_of_running(&EmbeddedOptions::in_data_dir(&settings.data_dir))
        && let Ok(pool) = payments::pool::connect(&url, POOL_SIZE).await
    {
        return run_on(&pool, command).await;
    }
    let database = DatabaseRun::start(settings).await?;
    let done = match database.pool(settings).await {
        Ok(pool) => run_on(&pool, command).await,
        Err(error) => Err(error),
    };
    database.stop().await;
    done
}

/// `payonce openapi`.
pub fn describe() {
    say(api::document().trim_end());
}

async fn run_on(pool: &payments::pool::Pool, command: ApiKeyCommand) -> anyhow::Result<()> {
    match command {
        ApiKeyCommand::Create { name } => {
            let (id, secret) = api_key::create(pool, &Ids::secure(), &name).await?;
            tracing::info!(%id, "made an API key; it is shown this once");
            say(secret.expose());
        }
        ApiKeyCommand::List => {
            for key in api_key::list(pool).await? {
                let made = key.created_at.format(&Rfc3339)?;
                let state = if key.revoked_at.is_some() { "revoked" } else { "live   " };
                say(&format!("{}  {state}  {made}  {}…  {}", key.id, key.hint, key.name));
            }
        }
        ApiKeyCommand::Revoke { id } => {
            let id = ApiKeyId::parse(&id).context("that is no id; `payonce api-key list` shows them")?;
            if !api_key::revoke(pool, id).await? {
                bail!("there is no API key {id}; `payonce api-key list` shows them");
            }
            tracing::info!(%id, "revoked an API key");
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "what was asked for is this command's output")]
fn say(text: &str) {
    println!("{text}");
}
