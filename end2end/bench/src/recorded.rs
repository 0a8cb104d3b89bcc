//! The statements that the shop really ran, as `pg_stat_statements` recorded them, with their literals put back: the view shows
//! `$12` where the statement says `'pending'`, so each is looked up among the queries that the shop was compiled with.

use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use sqlx::{PgPool, Row as _};

/// One statement of a payment.
pub struct Statement {
    /// As it was compiled, with its parameters `$1`, `$2` …
    pub text: String,
    pub calls: i64,
}

#[derive(Deserialize)]
struct Described {
    query: String,
}

/// Forgets what was recorded so far.
pub async fn begin(pool: &PgPool) -> anyhow::Result<()> {
    sqlx::query("create extension if not exists pg_stat_statements").execute(pool).await?;
    sqlx::query("select pg_stat_statements_reset()").execute(pool).await?;
    Ok(())
}

/// What ran since, most often first. Statements of the measurement itself say `bench` or read a `pg_` view.
pub async fn end(pool: &PgPool, queries: &Path) -> anyhow::Result<Vec<Statement>> {
    let rows = sqlx::query(
        "select query, calls from pg_stat_statements
        where dbid = (select oid from pg_database where datname = current_database())
            and query !~ '(pg_stat|pg_settings|bench|generate_series)' and calls > 1
        order by calls desc, query",
    )
    .fetch_all(pool)
    .await?;
    let sources = sources(queries)?;
    let mut statements = Vec::new();
    for row in rows {
        let (recorded, calls): (String, i64) = (row.get(0), row.get(1));
        let shape = shape(&recorded);
        // What greets a new connection is described nowhere; it is no part of a payment, and stays as it was recorded.
        let described = sources.iter().find(|source| self::shape(source) == shape);
        statements.push(Statement { text: described.cloned().unwrap_or(recorded), calls });
    }
    Ok(statements)
}

fn sources(queries: &Path) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    for file in std::fs::read_dir(queries).with_context(|| format!("{}", queries.display()))? {
        let described: Described = serde_json::from_slice(&std::fs::read(file?.path())?)?;
        all.push(described.query);
    }
    Ok(all)
}

/// The statement with every parameter and literal as one mark, and blanks as one blank.
fn shape(statement: &str) -> String {
    let mut shape = String::new();
    let mut rest = statement.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\'' => {
                for inner in rest.by_ref() {
                    if inner == '\'' {
                        break;
                    }
                }
                shape.push('?');
            }
            '$' => {
                while rest.next_if(char::is_ascii_digit).is_some() {}
                shape.push('?');
            }
            digit
                if digit.is_ascii_digit()
                    && !shape.ends_with(|before: char| before.is_alphanumeric() || before == '_') =>
            {
                while rest.next_if(|next| next.is_ascii_digit() || *next == '.').is_some() {}
                // The sign is the literal's.
                if shape.ends_with('-') {
                    shape.pop();
                }
                shape.push('?');
            }
            blank if blank.is_whitespace() => {
                if !shape.ends_with(' ') {
                    shape.push(' ');
                }
            }
            other => shape.push(other),
        }
    }
    // A null that is written is a literal, one that is asked for is not.
    shape.trim().replace("= null", "= ?").replace(" on true", " on ?")
}

#[cfg(test)]
mod tests {
    use super::shape;

    #[test]
    fn what_postgres_normalises_has_the_shape_of_what_ran() {
        let ran = "update t1 set state = 'done', note = null,\n   tries = tries + 1 where id = $1 and gone is null and kind in ('a', -1)";
        let recorded = "update t1 set state = $2, note = $3, tries = tries + $4 where id = $1 and gone is null and kind in ($5, $6)";
        assert_eq!(shape(ran), shape(recorded));
        assert_ne!(
            shape(ran),
            shape("update t2 set state = $2, tries = tries + $3 where id = $1 and kind in ($4, $5)")
        );
    }
}
